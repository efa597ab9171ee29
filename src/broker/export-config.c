/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/export-config.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "basic/error.h"

#define TIMEOUT_DEFAULT_MSEC 10000U
#define TIMEOUT_MAX_MSEC 60000U
#define URL_MAX 2048U
#define HEADERS_MAX 64U
#define HEADER_MAX 8192U

#define invalid(ret_text, ...) outcome_text(EXPORT_CONFIG_E_INVALID, (ret_text), __VA_ARGS__)

void export_config_done(ExportConfig *config) {
        free(config->url);
        free(config->certificates);
        strv_done(&config->headers);
        *config = (ExportConfig){};
}

/* That of traces wins over that of everything. What is empty counts as not set, as the standard
 * wants it. */
static const char *find(ExportGetenv get, const char *traces, const char *any,
                        const char **ret_name) {
        const char *value = get(traces);

        *ret_name = traces;
        if (!string_empty(value))
                return value;
        *ret_name = any;
        value = get(any);
        return string_empty(value) ? NULL : value;
}

static bool is_url(const char *url) {
        const char *rest = string_after(url, "http://") ?: string_after(url, "https://");

        if (!rest || (!isalnum((unsigned char) *rest) && *rest != '['))
                return false;
        for (const char *c = url; *c; c++)
                if (*c <= ' ' || *c > '~')
                        return false;
        return strlen(url) <= URL_MAX;
}

static int read_url(ExportGetenv get, const char *base, ExportConfig *config, char **ret_text) {
        const char *name = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", *url = get(name);
        StrBuf text = STRBUF_NULL;
        int r;

        if (string_empty(url)) {
                name = "OTEL_EXPORTER_OTLP_ENDPOINT";
                url = get(name);
                if (string_empty(url)) {
                        name = "telemetry.otlp";
                        url = base;
                }
                if (string_empty(url))
                        return 0;
                /* The place of traces below that of everything. */
                r = strbuf_appendf(&text, "%s%sv1/traces", url,
                                   url[strlen(url) - 1] == '/' ? "" : "/");
        } else
                r = strbuf_append_string(&text, url);
        if (r < 0)
                return error_trace(r);
        config->url = strbuf_steal(&text);
        if (!config->url)
                return error_origin(-ENOMEM);
        if (!is_url(config->url))
                return invalid(ret_text,
                               "%s is no URL of a collector; give one such as "
                               "http://127.0.0.1:4318",
                               name);
        return 0;
}

static int read_protocol(ExportGetenv get, char **ret_text) {
        const char *name, *value = find(get, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
                                        "OTEL_EXPORTER_OTLP_PROTOCOL", &name);

        if (!value || string_equal(value, "http/json") || string_equal(value, "http/protobuf"))
                return 0;
        return invalid(ret_text,
                       "%s asks for a protocol that is not spoken here; traces are sent as "
                       "http/json",
                       name);
}

static int read_timeout(ExportGetenv get, ExportConfig *config, char **ret_text) {
        const char *name, *value = find(get, "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
                                        "OTEL_EXPORTER_OTLP_TIMEOUT", &name);
        unsigned long msec;
        char *end;

        config->timeout_msec = TIMEOUT_DEFAULT_MSEC;
        if (!value)
                return 0;
        errno = 0;
        msec = strtoul(value, &end, 10);
        if (errno != 0 || *end || !isdigit((unsigned char) *value) || msec == 0 ||
            msec > TIMEOUT_MAX_MSEC)
                return invalid(ret_text, "%s is no number of milliseconds from 1 to %u", name,
                               TIMEOUT_MAX_MSEC);
        config->timeout_msec = (uint32_t) msec;
        return 0;
}

/* --- headers --- */

static bool is_token(const char *text, size_t size) {
        for (size_t i = 0; i < size; i++)
                if (!isalnum((unsigned char) text[i]) && !strchr("!#$%&'*+-.^_`|~", text[i]))
                        return false;
        return size > 0;
}

static int hex_digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        c |= 0x20;
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

enum {
        _HEADER_E_SUCCESS,
        HEADER_E_INVALID,
};

/* Undoes the percent signs. Nothing that comes out can begin another header. */
static int append_value(StrBuf *out, const char *text, size_t size) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < size; i++) {
                char c = text[i];

                if (c == '%') {
                        int high = size - i > 2 ? hex_digit(text[i + 1]) : -1;
                        int low = size - i > 2 ? hex_digit(text[i + 2]) : -1;

                        if (high < 0 || low < 0)
                                return HEADER_E_INVALID;
                        c = (char) (high << 4 | low);
                        i += 2;
                }
                if ((unsigned char) c < ' ' || c == 0x7f)
                        return HEADER_E_INVALID;
                r = strbuf_append_byte(out, c);
        }
        return error_trace(r);
}

static void trim(const char **text, size_t *size) {
        while (*size > 0 && isspace((unsigned char) **text)) {
                ++*text;
                --*size;
        }
        while (*size > 0 && isspace((unsigned char) (*text)[*size - 1]))
                --*size;
}

/* NAME=VALUE */
static int add_header(StrV *headers, const char *text, size_t size) {
        _cleanup_(strbuf_done) StrBuf header = STRBUF_NULL;
        const char *equals = memchr(text, '=', size), *value;
        size_t name_size, value_size;
        int r;

        if (!equals || size > HEADER_MAX || headers->n_items >= HEADERS_MAX)
                return HEADER_E_INVALID;
        name_size = (size_t) (equals - text);
        value = equals + 1;
        value_size = size - name_size - 1;
        trim(&text, &name_size);
        trim(&value, &value_size);
        if (!is_token(text, name_size))
                return HEADER_E_INVALID;

        r = strbuf_append(&header, text, name_size);
        if (r == 0)
                r = strbuf_append_string(&header, ": ");
        if (r == 0)
                r = append_value(&header, value, value_size);
        if (r != 0)
                return r;
        return error_trace(strv_append(headers, header.data));
}

static int read_headers(ExportGetenv get, ExportConfig *config, char **ret_text) {
        const char *name, *value = find(get, "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
                                        "OTEL_EXPORTER_OTLP_HEADERS", &name);
        size_t number = 0;
        int r;

        while (value && *value) {
                const char *part = value;
                size_t size = strcspn(value, ",");

                value += size + (value[size] ? 1 : 0);
                number++;
                trim(&part, &size);
                if (size == 0)
                        continue;
                r = add_header(&config->headers, part, size);
                if (r == HEADER_E_INVALID)
                        return invalid(ret_text, "header %zu of %s is not NAME=VALUE", number,
                                       name);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

static int read_certificates(ExportGetenv get, ExportConfig *config, char **ret_text) {
        const char *name, *value = find(get, "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
                                        "OTEL_EXPORTER_OTLP_CERTIFICATE", &name);

        if (!value)
                return 0;
        if (*value != '/')
                return invalid(ret_text, "%s is no absolute path", name);
        config->certificates = strdup(value);
        return config->certificates ? 0 : error_origin(-ENOMEM);
}

int export_config_read(ExportGetenv get, const char *base, ExportConfig *ret_config,
                       char **ret_text) {
        _cleanup_(export_config_done) ExportConfig config = {};
        int r;

        r = read_url(get, base, &config, ret_text);
        if (r != 0)
                return r;
        if (config.url)
                r = read_protocol(get, ret_text);
        if (r == 0)
                r = read_timeout(get, &config, ret_text);
        if (r == 0)
                r = read_headers(get, &config, ret_text);
        if (r == 0)
                r = read_certificates(get, &config, ret_text);
        if (r != 0)
                return r;
        *ret_config = config;
        config = (ExportConfig){};
        return 0;
}

int export_config_append(StrBuf *out, const ExportConfig *config) {
        int r;

        r = strbuf_append(out, config->url, strlen(config->url) + 1);
        if (r == 0)
                r = strbuf_append(out, config->certificates ?: "",
                                  config->certificates ? strlen(config->certificates) + 1 : 1);
        for (size_t i = 0; r == 0 && i < config->headers.n_items; i++)
                r = strbuf_append(out, config->headers.items[i],
                                  strlen(config->headers.items[i]) + 1);
        return error_trace(r);
}
