/* SPDX-License-Identifier: Apache-2.0 */

/* What agentcrate-run says of what a command missed of the network: each remedy as it is typed. */

#include <string.h>

#include "basic/string-util.h"
#include "run/refusals.h"
#include "tests/unit/suite.h"

static StrV describe(const char *denied, CrateResult result, bool failed) {
        DestinationList egress = DESTINATION_LIST_NULL;
        _cleanup_(freep) char *text = NULL;
        StrV lines = STRV_NULL;

        result.denied = json_loads(denied, 0, NULL);
        ck_assert_ptr_nonnull(result.denied);
        ck_assert_int_eq(destination_list_parse(&egress, "*.api.example:8443/tls", &text), 0);
        ck_assert_int_eq(refusals_describe(&result, &egress, failed, &lines), 0);
        destination_list_done(&egress);
        json_decref(result.denied);
        return lines;
}

typedef struct Row {
        const char *entry, *line; /* NULL: there is none */
} Row;

static const Row rows[] = {
        {"{\"kind\":\"dns\",\"what\":\"pypi.org\",\"count\":2}",
         "network: pypi.org was asked for, and is not allowed; --allow pypi.org:PORT allows it"},
        {"{\"kind\":\"dns\",\"what\":\"a\\\\027b\",\"count\":2}",
         "network: a\\027b was asked for, which is no name that --allow takes"},
        {"{\"kind\":\"dns\",\"what\":\"pypi.org\",\"reason\":\"policy\",\"count\":1}",
         "network: pypi.org was asked for, and is not reached; egress.deny of agentcrated.json "
         "says "
         "so"},
        {"{\"kind\":\"dns\",\"what\":\"github.crate.internal\",\"count\":1}",
         "network: github.crate.internal was asked for, and the job has no operation of that "
         "credential; --operation github.OPERATION gives it one"},
        {"{\"kind\":\"dns\",\"what\":\"a b.crate.internal\",\"count\":1}",
         "network: a b.crate.internal is no name of a credential"},
        {"{\"kind\":\"dns\",\"what\":\"1.0.0.127.in-addr.arpa\",\"count\":1}", NULL},
        {"{\"kind\":\"address\",\"what\":\"db\",\"port\":5432,\"class\":\"private\","
         "\"address\":\"10.0.0.7\"}",
         "network: db:5432 leads to 10.0.0.7, which is private; --allow db:5432@10.0.0.7 opens it"},
        {"{\"kind\":\"address\",\"what\":\"x.api.example\",\"port\":8443,\"class\":\"host\","
         "\"address\":\"fd01::7\"}",
         "network: x.api.example:8443 leads to fd01::7, which is an address of this host; --allow "
         "x.api.example:8443/tls@fd01::7 opens it"},
        {"{\"kind\":\"address\",\"what\":\"m.example\",\"port\":80,\"class\":\"metadata\","
         "\"address\":\"169.254.169.254\"}",
         "network: m.example:80 leads to 169.254.169.254, which is metadata, and never reached"},
        {"{\"kind\":\"address\",\"what\":\"m.example\",\"port\":80,\"class\":\"policy\","
         "\"address\":\"1.1.1.1\"}",
         "network: m.example:80 leads to 1.1.1.1, which is not reached; egress.deny of "
         "agentcrated.json says so"},
        {"{\"kind\":\"sni\",\"what\":\"a.example\",\"port\":443,\"reason\":\"mismatch\","
         "\"seen\":\"b\\u001b.example\"}",
         "network: TLS at a.example:443 was for b\\x1b.example; ask for the name that is connected "
         "to, or --allow a.example:443/tcp lets anything pass"},
        {"{\"kind\":\"sni\",\"what\":\"a.example\",\"port\":443,\"reason\":\"not-tls\"}",
         "network: what came to a.example:443 was no TLS; --allow a.example:443/tcp lets anything "
         "pass"},
        {"{\"kind\":\"host\",\"what\":\"a.example\",\"port\":80,\"reason\":\"the host is wrong\"}",
         "network: a request to a.example:80 was refused: the host is wrong; --allow "
         "a.example:80/tcp lets anything pass"},
        {"{\"kind\":\"limit\",\"what\":\"a.example\",\"port\":80,\"reason\":\"connections\"}",
         "network: a.example:80 was one connection too many at a time; raise egress.connections of "
         "agentcrated.json"},
        {"{\"kind\":\"operation\",\"what\":\"api.crate.internal\",\"reason\":\"operation.no_"
         "match\"}",
         "network: a request to api.crate.internal was refused: operation.no_match; the answer to "
         "it says more, and agentcrate-credentials(5) what an operation takes"},
        {"{\"kind\":\"unreachable\",\"what\":\"a.example\",\"port\":80,\"reason\":\"not-"
         "resolved\"}",
         "network: a.example:80 is allowed, but its name was not resolved; look whether it is "
         "right, and whether this host resolves it"},
        {"{\"kind\":\"unreachable\",\"what\":\"a.example\",\"port\":80,\"address\":\"1.2.3.4\","
         "\"reason\":\"not-connected\"}",
         "network: a.example:80 is allowed, but 1.2.3.4 did not take the connection; look whether "
         "its server runs"},
        {"{\"kind\":\"later\",\"what\":\"a.example\"}", NULL},
};

START_TEST(test_kinds) {
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_(strv_done) StrV lines = STRV_NULL;
                _cleanup_(freep) char *denied = NULL;

                ck_assert_int_ge(asprintf(&denied, "[%s]", rows[i].entry), 0);
                lines = describe(denied, (CrateResult){}, false);
                ck_assert_uint_eq(lines.n_items, rows[i].line ? 1 : 0);
                if (rows[i].line)
                        ck_assert_str_eq(lines.items[0], rows[i].line);
        }
}
END_TEST

/* What a command that did well has tried by the way is not told. */
START_TEST(test_counts) {
        const CrateResult result = {.n_refused = 1, .n_unrouted = 2, .n_missed = 3};
        _cleanup_(strv_done) StrV failed = describe("[]", result, true);
        _cleanup_(strv_done) StrV done = describe("[]", result, false);

        ck_assert_uint_eq(failed.n_items, 3);
        ck_assert_ptr_nonnull(strstr(failed.items[0], "--allow NAME:PORT"));
        ck_assert_ptr_nonnull(strstr(failed.items[1], "2 connections or datagrams went"));
        ck_assert_ptr_nonnull(strstr(failed.items[2], "1 connection found"));
        ck_assert_uint_eq(done.n_items, 1);
        ck_assert_str_eq(done.items[0], failed.items[1]);
}
END_TEST

START_TEST(test_bound) {
        _cleanup_(strbuf_done) StrBuf denied = STRBUF_NULL;
        _cleanup_(strv_done) StrV lines = STRV_NULL;

        ck_assert_int_eq(strbuf_append_string(&denied, "[{\"kind\":\"more\",\"count\":5}"), 0);
        for (int i = 0; i < 12; i++)
                ck_assert_int_eq(
                        strbuf_appendf(&denied, ",{\"kind\":\"dns\",\"what\":\"n%d.example\"}", i),
                        0);
        ck_assert_int_eq(strbuf_append_string(&denied, "]"), 0);
        lines = describe(denied.data, (CrateResult){}, true);
        ck_assert_uint_eq(lines.n_items, REFUSALS_LINES_MAX + 1);
        ck_assert_str_eq(lines.items[REFUSALS_LINES_MAX],
                         "network: and 7 more; --result FILE lists them under denied");
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("refusals");

        tcase_add_test(tcase, test_kinds);
        tcase_add_test(tcase, test_counts);
        tcase_add_test(tcase, test_bound);
        return suite_run("refusals", tcase);
}
