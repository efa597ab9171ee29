/* SPDX-License-Identifier: Apache-2.0 */

/* What a job was refused: from the report of agentcrate-egress, and from the kernel's counters. */

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "basic/string-util.h"
#include "crate/denied.h"
#include "launcher/net-counters.h"
#include "tests/unit/suite.h"

static json_t *from_report(const char *text) {
        return denied_from_report(text, strlen(text));
}

static void check_text(json_t *value, const char *expected) {
        _cleanup_(freep) char *text = json_dumps(value, JSON_COMPACT);

        ck_assert_str_eq(text, expected);
        json_decref(value);
}

START_TEST(test_report) {
        check_text(
                from_report("{\"denied\":[{\"kind\":\"dns\",\"name\":\"x.example\",\"count\":3},"
                            "{\"kind\":\"address\",\"name\":\"y\",\"class\":\"private\","
                            "\"address\":\"10.0.0.1\",\"more\":1,\"count\":1}],\"n_dropped\":2}"),
                "[{\"kind\":\"dns\",\"what\":\"x.example\",\"rule\":\"default\",\"count\":3},"
                "{\"kind\":\"address\",\"what\":\"y\",\"rule\":\"default\","
                "\"address\":\"10.0.0.1\",\"class\":\"private\",\"count\":1},"
                "{\"kind\":\"more\",\"count\":2}]");
}
END_TEST

/* Whoever is on the other side of the link. */
START_TEST(test_no_report) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        json_t *list;

        check_text(from_report("{\"denied\":[1,{},{\"kind\":7},[\"kind\"]]}"), "[]");
        check_text(from_report("{\"denied\":"), "[]");
        check_text(from_report("[]"), "[]");
        ck_assert_int_eq(strbuf_append_string(&text, "{\"denied\":[{\"kind\":\"x\"}"), 0);
        for (size_t i = 0; i < 2 * DENIED_MAX; i++)
                ck_assert_int_eq(strbuf_append_string(&text, ",{\"kind\":\"x\"}"), 0);
        ck_assert_int_eq(strbuf_append_string(&text, "]}"), 0);
        list = from_report(text.data);
        ck_assert_uint_eq(json_array_size(list), DENIED_MAX);
        json_decref(list);
}
END_TEST

START_TEST(test_record) {
        CrateResult result = {.n_unrouted = 2};

        check_text(denied_to_json(&result), "[{\"kind\":\"unrouted\",\"count\":2}]");
        result.n_refused = 1;
        result.denied = from_report("{\"denied\":[{\"kind\":\"dns\"}]}");
        check_text(denied_to_json(&result),
                   "[{\"kind\":\"dns\",\"rule\":\"default\",\"count\":0},"
                   "{\"kind\":\"refused\",\"count\":1},{\"kind\":\"unrouted\",\"count\":2}]");
        /* The result keeps its own. */
        ck_assert_uint_eq(json_array_size(result.denied), 1);
        json_decref(result.denied);
}
END_TEST

/* A connection to a port where nobody listens, which is held so that nobody begins to. */
START_TEST(test_counters) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        _cleanup_(fd_closep) int holder = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        _cleanup_(fd_closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const int datagram = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        NetCounters before, after;
        socklen_t size = sizeof(address);

        ck_assert_int_eq(bind(holder, (struct sockaddr *) &address, size), 0);
        ck_assert_int_eq(getsockname(holder, (struct sockaddr *) &address, &size), 0);
        net_counters_read(&before);
        ck_assert_int_eq(connect(fd, (struct sockaddr *) &address, size), -1);
        ck_assert_int_eq(errno, ECONNREFUSED);
        ck_assert_int_eq(sendto(datagram, "x", 1, 0, (struct sockaddr *) &address, size), 1);
        net_counters_read(&after);
        ck_assert_uint_gt(after.refused, before.refused);
        ck_assert_uint_gt(after.unheard, before.unheard);
        (void) fd_close(datagram);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("denied");

        tcase_add_test(tcase, test_report);
        tcase_add_test(tcase, test_no_report);
        tcase_add_test(tcase, test_record);
        tcase_add_test(tcase, test_counters);
        return suite_run("denied", tcase);
}
