/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "basic/macros.h"
#include "basic/string-util.h"
#include "egress/address.h"
#include "egress/destination-name.h"
#include "tests/unit/suite.h"

typedef struct Row {
        const char *address, *class;
} Row;

/* Each network by its first and last address, and what lies right beside it. */
static const Row edges[] = {
        {"0.0.0.0", "unspecified"},
        {"0.255.255.255", "unspecified"},
        {"1.0.0.0", "public"},
        {"9.255.255.255", "public"},
        {"10.0.0.0", "private"},
        {"10.255.255.255", "private"},
        {"11.0.0.0", "public"},
        {"100.63.255.255", "public"},
        {"100.64.0.0", "shared"},
        {"100.100.100.199", "shared"},
        {"100.100.100.200", "metadata"},
        {"100.100.100.201", "shared"},
        {"100.127.255.255", "shared"},
        {"100.128.0.0", "public"},
        {"126.255.255.255", "public"},
        {"127.0.0.0", "loopback"},
        {"127.255.255.255", "loopback"},
        {"128.0.0.0", "public"},
        {"168.63.129.15", "public"},
        {"168.63.129.16", "metadata"},
        {"168.63.129.17", "public"},
        {"169.253.255.255", "public"},
        {"169.254.0.0", "link-local"},
        {"169.254.169.253", "link-local"},
        {"169.254.169.254", "metadata"},
        {"169.254.170.2", "metadata"},
        {"169.254.170.23", "metadata"},
        {"169.254.255.255", "link-local"},
        {"169.255.0.0", "public"},
        {"172.15.255.255", "public"},
        {"172.16.0.0", "private"},
        {"172.31.255.255", "private"},
        {"172.32.0.0", "public"},
        {"191.255.255.255", "public"},
        {"192.0.0.0", "protocol"},
        {"192.0.0.192", "metadata"},
        {"192.0.0.255", "protocol"},
        {"192.0.1.0", "public"},
        {"192.0.2.0", "documentation"},
        {"192.0.2.255", "documentation"},
        {"192.0.3.0", "public"},
        {"192.88.98.255", "public"},
        {"192.88.99.0", "6to4-relay"},
        {"192.88.99.255", "6to4-relay"},
        {"192.88.100.0", "public"},
        {"192.167.255.255", "public"},
        {"192.168.0.0", "private"},
        {"192.168.255.255", "private"},
        {"192.169.0.0", "public"},
        {"198.17.255.255", "public"},
        {"198.18.0.0", "benchmark"},
        {"198.19.255.255", "benchmark"},
        {"198.20.0.0", "public"},
        {"198.51.99.255", "public"},
        {"198.51.100.0", "documentation"},
        {"198.51.100.255", "documentation"},
        {"198.51.101.0", "public"},
        {"203.0.112.255", "public"},
        {"203.0.113.0", "documentation"},
        {"203.0.113.255", "documentation"},
        {"203.0.114.0", "public"},
        {"223.255.255.255", "public"},
        {"224.0.0.0", "multicast"},
        {"239.255.255.255", "multicast"},
        {"240.0.0.0", "reserved"},
        {"255.255.255.254", "reserved"},
        {"255.255.255.255", "broadcast"},
        {"::", "unspecified"},
        {"::1", "loopback"},
        {"::1:0:0", "public"},
        {"::ffff:0:0:0", "unspecified"},
        {"::1:0:0:0", "public"},
        {"64:ff9a:ffff:ffff:ffff:ffff:ffff:ffff", "public"},
        {"64:ff9b:0:0:1::", "public"},
        {"64:ff9b:1::", "unspecified"},
        {"64:ff9b:1:ffff:ffff:ffff:808:808", "nat64"},
        {"64:ff9b:2::", "public"},
        {"ff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "public"},
        {"100::", "discard"},
        {"100::ffff:ffff:ffff:ffff", "discard"},
        {"100:0:0:1::", "public"},
        {"2001::", "broadcast"},
        {"2001:0:ffff:ffff:ffff:ffff:f7f7:f7f7", "teredo"},
        {"2001:1::", "public"},
        {"2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "public"},
        {"2001:db8::", "documentation"},
        {"2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "documentation"},
        {"2001:db9::", "public"},
        {"2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "public"},
        {"2002::", "unspecified"},
        {"2002:808:808::", "6to4"},
        {"2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "broadcast"},
        {"2003::", "public"},
        {"3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "public"},
        {"3fff::", "documentation"},
        {"3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "documentation"},
        {"3fff:1000::", "public"},
        {"fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "public"},
        {"fc00::", "private"},
        {"fd00:42::41", "private"},
        {"fd00:42::42", "metadata"},
        {"fd00:42::43", "private"},
        {"fd00:ec1:ffff:ffff:ffff:ffff:ffff:ffff", "private"},
        {"fd00:ec2::", "metadata"},
        {"fd00:ec2::254", "metadata"},
        {"fd00:ec2:ffff:ffff:ffff:ffff:ffff:ffff", "metadata"},
        {"fd00:ec3::", "private"},
        {"fd20:ce::253", "private"},
        {"fd20:ce::254", "metadata"},
        {"fd20:ce::255", "private"},
        {"fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "private"},
        {"fe00::", "public"},
        {"fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "public"},
        {"fe80::", "link-local"},
        {"febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "link-local"},
        {"fec0::", "site-local"},
        {"feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "site-local"},
        {"ff00::", "multicast"},
        {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "multicast"},
};

/* The forms of IPv6 that carry an IPv4 address, with one that is public, private, metadata. */
static const Row embedded[] = {
        {"::8.8.8.8", "ipv4-compatible"},         {"::10.0.0.1", "private"},
        {"::169.254.169.254", "metadata"},        {"::ffff:8.8.8.8", "ipv4-mapped"},
        {"::ffff:127.0.0.1", "loopback"},         {"::ffff:169.254.169.254", "metadata"},
        {"::ffff:0:8.8.8.8", "ipv4-translated"},  {"::ffff:0:192.168.0.1", "private"},
        {"::ffff:0:100.100.100.200", "metadata"}, {"64:ff9b::8.8.8.8", "nat64"},
        {"64:ff9b::0.0.0.0", "unspecified"},      {"64:ff9b::168.63.129.16", "metadata"},
        {"2001:0:0:0:0:0:80ff:fffe", "loopback"}, /* 127.0.0.1, turned round */
        {"2001:0:0:0:0:0:5601:5601", "metadata"}, /* 169.254.169.254 */
        {"2002:7f00:1::1", "loopback"},           {"2002:a9fe:a9fe::1", "metadata"},
};

static const char *judge(const char *text, const Cidr *open, size_t n_open, const Cidr *deny,
                         size_t n_deny, AddressIsOwn is_own) {
        const AddressRules rules = {
                .deny = deny, .n_deny = n_deny, .open = open, .n_open = n_open, .is_own = is_own};
        Address address;

        ck_assert_msg(address_parse(text, &address), "%s", text);
        return address_class_to_string(address_judge(&address, &rules));
}

static void check_rows(const Row *rows, size_t n) {
        for (size_t i = 0; i < n; i++) {
                const char *class = judge(rows[i].address, NULL, 0, NULL, 0, NULL);

                ck_assert_msg(string_equal(class, rows[i].class), "%s is %s, not %s",
                              rows[i].address, class, rows[i].class);
        }
}

START_TEST(every_class_at_its_edges) {
        check_rows(edges, ELEMENTSOF(edges));
}
END_TEST

START_TEST(ipv4_within_ipv6) {
        check_rows(embedded, ELEMENTSOF(embedded));
}
END_TEST

static Cidr cidr(const char *text) {
        Cidr parsed = {};

        ck_assert_msg(cidr_parse(text, &parsed), "%s", text);
        return parsed;
}

/* What of it all can be opened: the same question of every row, with everything opened. */
START_TEST(opened) {
        static const char *const never[] = {
                "metadata",  "unspecified",     "link-local", "protocol",        "6to4-relay",
                "multicast", "reserved",        "broadcast",  "ipv4-compatible", "ipv4-mapped",
                "discard",   "ipv4-translated", "site-local", "teredo",          "6to4"};
        const Cidr all[] = {cidr("0.0.0.0/0"), cidr("::/0")};

        for (size_t i = 0; i < ELEMENTSOF(edges); i++) {
                const char *class = judge(edges[i].address, all, 2, NULL, 0, NULL);
                bool is_never = false;

                for (size_t j = 0; j < ELEMENTSOF(never); j++)
                        is_never = is_never || string_equal(edges[i].class, never[j]);
                ck_assert_msg(string_equal(class, is_never ? edges[i].class : "public"), "%s is %s",
                              edges[i].address, class);
        }
        ck_assert_str_eq(judge("::ffff:10.0.0.1", all, 2, NULL, 0, NULL), "ipv4-mapped");
        ck_assert_str_eq(judge("64:ff9b::10.0.0.1", all, 2, NULL, 0, NULL), "public");
        ck_assert_str_eq(judge("64:ff9b::10.0.0.1", all + 1, 1, NULL, 0, NULL), "private");
}
END_TEST

START_TEST(opened_by_its_network_only) {
        const Cidr open[] = {cidr("10.1.0.0/16"), cidr("fd00:1::/32")};

        ck_assert_str_eq(judge("10.1.255.255", open, 2, NULL, 0, NULL), "public");
        ck_assert_str_eq(judge("10.2.0.0", open, 2, NULL, 0, NULL), "private");
        ck_assert_str_eq(judge("fd00:1:ffff::1", open, 2, NULL, 0, NULL), "public");
        ck_assert_str_eq(judge("fd00:2::1", open, 2, NULL, 0, NULL), "private");
}
END_TEST

static bool everything(void *userdata _unused_, const Address *address _unused_) {
        return true;
}

START_TEST(of_the_host_and_of_the_operator) {
        const Cidr deny = cidr("8.8.8.0/24"), open = cidr("8.8.0.0/16");

        ck_assert_str_eq(judge("8.8.8.8", &open, 1, &deny, 1, NULL), "policy");
        ck_assert_str_eq(judge("64:ff9b::8.8.8.8", &open, 1, &deny, 1, NULL), "policy");
        ck_assert_str_eq(judge("8.8.9.8", &open, 1, &deny, 1, everything), "public");
        ck_assert_str_eq(judge("8.9.9.8", &open, 1, &deny, 1, everything), "host");
        ck_assert_str_eq(judge("2003::1", &open, 1, &deny, 1, everything), "host");
}
END_TEST

START_TEST(texts_that_are_none) {
        static const char *const none[] = {"",           "10",       "10.0.0.0/33", "::/129",
                                           "10.0.0.0/",  "10.0.0/8", "10.0.0.0/-1", "10.0.0.0/8/8",
                                           "fe80::1%lo", "0x7f.1",   "127.1",       " ::1"};
        static const char *const ports[] = {
                "1.2.3.4", "1.2.3.4:", "1.2.3.4:0",    "1.2.3.4:65536", "::1:53", "[::1]",
                "[::1:53", "::1]:53",  "a.example:53", "[]:53",         ":53"};
        Address address;
        uint16_t port;
        Cidr parsed;

        for (size_t i = 0; i < ELEMENTSOF(none); i++)
                ck_assert_msg(!cidr_parse(none[i], &parsed), "%s", none[i]);
        for (size_t i = 0; i < ELEMENTSOF(ports); i++)
                ck_assert_msg(!address_parse_with_port(ports[i], &address, &port), "%s", ports[i]);
        ck_assert(address_parse_with_port("[::1]:53", &address, &port) && port == 53);
        ck_assert(address_parse_with_port("127.0.0.1:65535", &address, &port) && port == 65535);
        ck_assert(cidr_parse("::1", &parsed) && parsed.n_bits == 128);
}
END_TEST

START_TEST(names) {
        static const char *const valid[] = {"a", "a.b", "_x.y-z.9", "xn--bcher-kva.example"};
        static const char *const none[] = {"",  ".",  "a.",    ".a",    "a..b",   "A.b",  "a b",
                                           "*", "*.", "*.com", "a.*.b", "*a.b.c", "a\\b", "x.*"};

        for (size_t i = 0; i < ELEMENTSOF(valid); i++)
                ck_assert_msg(destination_name_is_valid(valid[i], false), "%s", valid[i]);
        for (size_t i = 0; i < ELEMENTSOF(none); i++)
                ck_assert_msg(!destination_name_is_valid(none[i], true), "%s", none[i]);
        ck_assert(destination_name_is_valid("*.b.c", true));
        ck_assert(!destination_name_is_valid("*.b.c", false));
        ck_assert(destination_name_matches("*.b.c", "a.b.c"));
        ck_assert(destination_name_matches("*.b.c", "x.a.b.c"));
        ck_assert(!destination_name_matches("*.b.c", "b.c"));
        ck_assert(!destination_name_matches("*.b.c", "ab.c"));
        ck_assert(!destination_name_matches("b.c", "a.b.c"));
        ck_assert(destination_name_is("b.c", "B.C") && destination_name_is("b.c", "b.c."));
        ck_assert(!destination_name_is("b.c", "b.c..") && !destination_name_is("b.c", "b.cd"));
        ck_assert(!destination_name_is("b.c", "b"));
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("address");

        tcase_add_test(tcase, every_class_at_its_edges);
        tcase_add_test(tcase, ipv4_within_ipv6);
        tcase_add_test(tcase, opened);
        tcase_add_test(tcase, opened_by_its_network_only);
        tcase_add_test(tcase, of_the_host_and_of_the_operator);
        tcase_add_test(tcase, texts_that_are_none);
        tcase_add_test(tcase, names);
        return suite_run("egress-address", tcase);
}
