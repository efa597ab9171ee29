/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/export-config.h"

#include "basic/macros.h"
#include "egress/collector.h"
#include "tests/unit/suite.h"

typedef struct Variable {
        const char *name, *value;
} Variable;

/* What the environment of the case holds; ends with a row of NULL. */
static const Variable *variables;

static const char *get(const char *name) {
        for (const Variable *v = variables; v->name; v++)
                if (string_equal(v->name, name))
                        return v->value;
        return NULL;
}

static int read_with(const Variable *set, const char *base, ExportConfig *ret_config,
                     char **ret_text) {
        variables = set;
        return export_config_read(get, base, ret_config, ret_text);
}

#define ENDPOINT                                                                                   \
        { "OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:4318" }

START_TEST(test_endpoint) {
        static const struct {
                Variable set[3];
                const char *base, *url;
        } rows[] = {
                {{}, NULL, NULL},
                {{{"OTEL_EXPORTER_OTLP_ENDPOINT", ""}}, NULL, NULL},
                {{}, "http://a:1", "http://a:1/v1/traces"},
                {{ENDPOINT}, "http://a:1", "http://h:4318/v1/traces"},
                {{{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://h/base/"}},
                 NULL,
                 "https://h/base/v1/traces"},
                {{ENDPOINT, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t/x"}},
                 NULL,
                 "http://t/x"},
                {{{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://[::1]:4318/"}},
                 NULL,
                 "http://[::1]:4318/"},
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_(export_config_done) ExportConfig config = {};
                char *text = NULL;

                ck_assert_int_eq(read_with(rows[i].set, rows[i].base, &config, &text), 0);
                ck_assert_pstr_eq(config.url, rows[i].url);
                if (config.url)
                        ck_assert_uint_eq(config.timeout_msec, 10000);
        }
}
END_TEST

START_TEST(test_rest) {
        static const Variable set[] = {
                ENDPOINT,
                {"OTEL_EXPORTER_OTLP_HEADERS", "x=1"},
                {"OTEL_EXPORTER_OTLP_TRACES_HEADERS",
                 " authorization = Bearer%20a%2Cb=c , x-y=,,z=%41"},
                {"OTEL_EXPORTER_OTLP_TIMEOUT", "250"},
                {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/ca.pem"},
                {"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"},
                {},
        };
        _cleanup_(export_config_done) ExportConfig config = {};
        _cleanup_(collector_done) Collector collector = {};
        _cleanup_(strbuf_done) StrBuf wire = STRBUF_NULL;
        char *text = NULL;

        ck_assert_int_eq(read_with(set, NULL, &config, &text), 0);
        ck_assert_uint_eq(config.headers.n_items, 3);
        ck_assert_str_eq(config.headers.items[0], "authorization: Bearer a,b=c");
        ck_assert_str_eq(config.headers.items[1], "x-y: ");
        ck_assert_str_eq(config.headers.items[2], "z: A");
        ck_assert_uint_eq(config.timeout_msec, 250);
        ck_assert_str_eq(config.certificates, "/etc/ca.pem");

        /* The other end reads the same. */
        ck_assert_int_eq(export_config_append(&wire, &config), 0);
        ck_assert_int_eq(collector_parse(wire.data, wire.size, 250, &collector), 0);
        ck_assert_str_eq(collector.url, config.url);
        ck_assert_str_eq(collector.certificates, config.certificates);
        ck_assert_uint_eq(collector.headers.n_items, 3);
        ck_assert_str_eq(collector.headers.items[0], config.headers.items[0]);
}
END_TEST

/* What is wrong is named, and its value, which may be a secret, is not. */
START_TEST(test_invalid) {
        static const struct {
                Variable set[3];
                const char *names;
        } rows[] = {
                {{{"OTEL_EXPORTER_OTLP_ENDPOINT", "SECRET:4318"}}, "OTEL_EXPORTER_OTLP_ENDPOINT"},
                {{{"OTEL_EXPORTER_OTLP_ENDPOINT", "file:///SECRET"}},
                 "OTEL_EXPORTER_OTLP_ENDPOINT"},
                {{{"OTEL_EXPORTER_OTLP_ENDPOINT", "http:///SECRET"}},
                 "OTEL_EXPORTER_OTLP_ENDPOINT"},
                {{{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://SECRET\r\nx: y"}},
                 "OTEL_EXPORTER_OTLP_ENDPOINT"},
                {{{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "SECRET"}},
                 "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
                {{ENDPOINT, {"OTEL_EXPORTER_OTLP_HEADERS", "a=1,SECRET"}},
                 "header 2 of OTEL_EXPORTER_OTLP_HEADERS"},
                {{ENDPOINT, {"OTEL_EXPORTER_OTLP_HEADERS", "=SECRET"}}, "header 1 of"},
                {{ENDPOINT, {"OTEL_EXPORTER_OTLP_HEADERS", "a b=SECRET"}}, "header 1 of"},
                {{ENDPOINT, {"OTEL_EXPORTER_OTLP_HEADERS", "a=SECRET%0d%0ab: c"}}, "header 1 of"},
                {{ENDPOINT, {"OTEL_EXPORTER_OTLP_HEADERS", "a=SECRET%00"}}, "header 1 of"},
                {{ENDPOINT, {"OTEL_EXPORTER_OTLP_HEADERS", "a=SECRET%"}}, "header 1 of"},
                {{ENDPOINT, {"OTEL_EXPORTER_OTLP_HEADERS", "a=SECRET%4"}}, "header 1 of"},
                {{ENDPOINT, {"OTEL_EXPORTER_OTLP_HEADERS", "a=SECRET%zz"}}, "header 1 of"},
                {{ENDPOINT, {"OTEL_EXPORTER_OTLP_TIMEOUT", "0"}}, "OTEL_EXPORTER_OTLP_TIMEOUT"},
                {{ENDPOINT, {"OTEL_EXPORTER_OTLP_TIMEOUT", "-1"}}, "OTEL_EXPORTER_OTLP_TIMEOUT"},
                {{ENDPOINT, {"OTEL_EXPORTER_OTLP_TIMEOUT", "10s"}}, "OTEL_EXPORTER_OTLP_TIMEOUT"},
                {{ENDPOINT, {"OTEL_EXPORTER_OTLP_TIMEOUT", "60001"}}, "OTEL_EXPORTER_OTLP_TIMEOUT"},
                {{ENDPOINT, {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}},
                 "OTEL_EXPORTER_OTLP_PROTOCOL"},
                {{ENDPOINT, {"OTEL_EXPORTER_OTLP_CERTIFICATE", "SECRET"}},
                 "OTEL_EXPORTER_OTLP_CERTIFICATE"},
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_(freep) char *text = NULL;
                ExportConfig config = {};

                ck_assert_int_eq(read_with(rows[i].set, NULL, &config, &text),
                                 EXPORT_CONFIG_E_INVALID);
                ck_assert_msg(strstr(text, rows[i].names), "%zu: %s", i, text);
                ck_assert_msg(!strstr(text, "SECRET"), "%s", text);
                ck_assert_ptr_null(config.url);
        }
}
END_TEST

/* What a broker that was taken over could send. */
START_TEST(test_collector) {
        static const struct {
                const char *text;
                size_t size;
                uint32_t msec;
        } rows[] = {
                {"", 0, 1},
                {"http://h/\0", 10, 1},
                {"http://h/\0\0", 11, 0},
                {"http://h/\0\0", 11, 60001},
                {"http://h/\0\0a: b", 15, 1},
                {"http://h/\0\0ab\0", 14, 1},
                {"http://h/\0\0: b\0", 15, 1},
                {"http://h/\0\0a: b\r\n\0", 18, 1},
                {"http://h\r\n/\0\0", 13, 1},
                {"file:///etc/passwd\0\0", 20, 1},
                {"gopher://h/\0\0", 13, 1},
                {"\0\0", 2, 1},
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                Collector collector = {};

                ck_assert_int_eq(
                        collector_parse(rows[i].text, rows[i].size, rows[i].msec, &collector),
                        COLLECTOR_E_INVALID);
                ck_assert_ptr_null(collector.url);
        }
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("export-config");

        tcase_add_test(tcase, test_endpoint);
        tcase_add_test(tcase, test_rest);
        tcase_add_test(tcase, test_invalid);
        tcase_add_test(tcase, test_collector);
        return suite_run("export-config", tcase);
}
