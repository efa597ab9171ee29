/* SPDX-License-Identifier: Apache-2.0 */

/* What agentcrate-egress is told of a job's destinations: an address pair for each name, sockets in
 * the order in which the launcher makes them. */

#include <jansson.h>
#include <sys/mman.h>

#include "basic/memfd-util.h"
#include "crate/egress-plan.h"
#include "tests/unit/suite.h"

static EgressPlan *plan_denying(const char *const *texts, const StrV *deny, int outcome) {
        _cleanup_(destination_list_done) DestinationList list = {};
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        static const StrV none = STRV_NULL;
        const EgressSettings settings = {
                .deny = deny, .resolver = &none, .connections = 7, .idle_usec = 5000, .bytes = 9};
        EgressPlan *plan = NULL;

        for (; *texts; texts++) {
                _cleanup_(freep) char *text = NULL;

                ck_assert_int_eq(destination_list_parse(&list, *texts, &text), 0);
        }
        ck_assert_int_eq(egress_plan_new(&list, NULL, &settings, &plan, &error), outcome);
        ck_assert(!error.text == (outcome == 0));
        return plan;
}

static EgressPlan *plan_of(const char *const *texts, int outcome) {
        static const StrV none = STRV_NULL;

        return plan_denying(texts, &none, outcome);
}

/* Sockets are numbered as they are made, but for the last, which could not be. */
static json_t *document_of(const EgressPlan *plan) {
        size_t n = egress_plan_n_sockets(plan), size;
        _cleanup_(fd_closep) int fd = -EBADF;
        const void *data;
        int numbers[512];
        json_t *document;

        for (size_t i = 0; i < n; i++)
                numbers[i] = i + 1 < n ? (int) i : -1;
        ck_assert_int_eq(egress_plan_document(plan, numbers, &fd), 0);
        ck_assert_int_eq(memfd_map_sealed(fd, 1U << 20, &data, &size), 0);
        document = json_loadb(data, size, JSON_REJECT_DUPLICATES, NULL);
        (void) munmap((void *) data, size);
        ck_assert_ptr_nonnull(document);
        return document;
}

static void check_text(json_t *value, const char *expected) {
        _cleanup_(freep) char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

        ck_assert_str_eq(text, expected);
}

START_TEST(test_names) {
        const char *const texts[] = {"b.example:443", "a.example:80/http",
                                     "b.example:22/tcp@10.0.0.0/8", NULL};
        _cleanup_(egress_plan_freep) EgressPlan *plan = plan_of(texts, 0);
        json_t *document = document_of(plan), *names = json_object_get(document, "names");

        ck_assert_uint_eq(egress_plan_n_sockets(plan), 4 + 3 * 2);
        check_text(json_object_get(document, "dns"), "[0,1,2,3]");
        check_text(json_object_get(document, "limits"),
                   "{\"connections\":7,\"idle_ms\":5,\"bytes\":9}");
        check_text(json_array_get(names, 0),
                   "{\"name\":\"b.example\",\"slots\":[[\"198.18.0.2\",\"fd00:ac::2\"]],\"ports\":["
                   "{\"port\":443,\"type\":\"tls\",\"addresses\":[],\"sockets\":[[4,5]]},"
                   "{\"port\":22,\"type\":\"tcp\",\"addresses\":[\"10.0.0.0/8\"],"
                   "\"sockets\":[[6,7]]}]}");
        check_text(json_array_get(names, 1),
                   "{\"name\":\"a.example\",\"slots\":[[\"198.18.0.3\",\"fd00:ac::3\"]],\"ports\":["
                   "{\"port\":80,\"type\":\"http\",\"addresses\":[],\"sockets\":[[8,-1]]}]}");
        ck_assert_ptr_null(json_object_get(document, "resolver"));
        json_decref(document);
}
END_TEST

/* A name that a wildcard covers has the wildcard's ports as well; the wildcard has pairs ahead. */
START_TEST(test_wildcard) {
        const char *const texts[] = {"*.w.example:443", "one.w.example:22/tcp", NULL};
        _cleanup_(egress_plan_freep) EgressPlan *plan = plan_of(texts, 0);
        json_t *document = document_of(plan), *names = json_object_get(document, "names");
        json_t *all = json_array_get(names, 0), *one = json_array_get(names, 1);

        ck_assert_uint_eq(egress_plan_n_sockets(plan), 4 + 16 * 2 + 2 * 2);
        ck_assert_uint_eq(json_array_size(json_object_get(all, "slots")), 16);
        check_text(json_array_get(json_object_get(all, "slots"), 15),
                   "[\"198.18.0.17\",\"fd00:ac::11\"]");
        check_text(json_object_get(one, "slots"), "[[\"198.18.0.18\",\"fd00:ac::12\"]]");
        ck_assert_uint_eq(json_array_size(json_object_get(one, "ports")), 2);
        json_decref(document);
}
END_TEST

/* Of several wildcards the longest decides over a port, wherever it stands, and not over others. */
START_TEST(test_several_wildcards) {
        static const char *const texts[][5] = {
                {"*.w.example:80/tcp", "*.b.w.example:80/http@10.0.0.0/8", "a.b.w.example:1",
                 "*.w.example:2", NULL},
                {"*.w.example:2", "a.b.w.example:1", "*.b.w.example:80/http@10.0.0.0/8",
                 "*.w.example:80/tcp", NULL},
        };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                _cleanup_(egress_plan_freep) EgressPlan *plan = plan_of(texts[i], 0);
                json_t *document = document_of(plan), *name, *port;
                size_t k, n, n_80 = 0, n_2 = 0;

                json_array_foreach(json_object_get(document, "names"), k, name) {
                        const char *text = json_string_value(json_object_get(name, "name"));
                        bool whole = string_equal(text, "*.w.example");

                        json_array_foreach(json_object_get(name, "ports"), n, port) {
                                json_int_t number =
                                        json_integer_value(json_object_get(port, "port"));

                                n_2 += number == 2;
                                n_80 += number == 80;
                                if (number == 80)
                                        check_text(json_object_get(port, "addresses"),
                                                   whole ? "[]" : "[\"10.0.0.0/8\"]");
                        }
                }
                ck_assert_uint_eq(n_80, 3);
                ck_assert_uint_eq(n_2, 3);
                json_decref(document);
        }
}
END_TEST

/* A name that is denied has no sockets, whatever allows it; a wildcard has them for its other
 * names, and which those are is told. */
START_TEST(test_denied) {
        static const char *const texts[] = {
                "a.example:1",      "*.w.example:1",          "*.in.w.example:1",
                "b.in.w.example:1", "c.example:1@10.0.0.0/8", NULL};
        _cleanup_(strv_done) StrV deny = STRV_NULL;
        _cleanup_(egress_plan_freep) EgressPlan *plan = NULL;
        json_t *document;

        ck_assert_int_eq(strv_append(&deny, "*.in.w.example"), 0);
        ck_assert_int_eq(strv_append(&deny, "10.0.0.0/8"), 0);
        ck_assert_int_eq(strv_append(&deny, "a.example"), 0);
        plan = plan_denying(texts, &deny, 0);
        document = document_of(plan);
        ck_assert_uint_eq(egress_plan_n_sockets(plan), 4 + 16 * 2 + 2);
        check_text(json_object_get(document, "deny"),
                   "[\"*.in.w.example\",\"10.0.0.0/8\",\"a.example\"]");
        json_decref(document);
}
END_TEST

START_TEST(test_too_many) {
        char names[16][32];
        const char *texts[17] = {};

        for (size_t i = 0; i < 16; i++) {
                (void) snprintf(names[i], sizeof(names[i]), "*.n%zu.example:443", i);
                texts[i] = names[i];
        }
        ck_assert_ptr_null(plan_of(texts, EGRESS_PLAN_E_INVALID));
        texts[15] = NULL;
        egress_plan_free(plan_of(texts, 0));
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("egress-plan");

        tcase_add_test(tcase, test_names);
        tcase_add_test(tcase, test_wildcard);
        tcase_add_test(tcase, test_several_wildcards);
        tcase_add_test(tcase, test_denied);
        tcase_add_test(tcase, test_too_many);
        return suite_run("egress-plan", tcase);
}
