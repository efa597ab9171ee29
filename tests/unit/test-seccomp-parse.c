/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <sys/socket.h>

#include "basic/string-util.h"
#include "seccomp/parse.h"

#define HEAD "@description x\n@otherwise allow\n@newest 450\n"

typedef struct BadCase {
        const char *text;
        const char *diags; /* one a line, as they are printed */
} BadCase;

static const BadCase bad_cases[] = {
        {"", "p: has no @description\n"},
        {"@description x\n", "p: has no @otherwise\n"},
        {"@description x\n@otherwise allow\n", "p: has no @newest\n"},
        {"@description\n", "p:1:1: expected '@description WORD...'\n"},
        {HEAD "@description y\n", "p:4:1: @description is given twice\n"},
        {HEAD "@otherwise EPERM\n", "p:4:1: @otherwise is given twice\n"},
        {HEAD "@newest 451\n", "p:4:1: @newest is given twice\n"},
        {"@otherwise\n", "p:1:1: expected '@otherwise ACTION'\n"},
        {"@otherwise eperm\n", "p:1:12: unknown action 'eperm' (allow, kill or an errno name)\n"},
        {"@newest 4096\n", "p:1:9: '4096' is no system call number\n"},
        {"@newest x\n", "p:1:9: 'x' is no system call number\n"},
        {"@newest 1 2\n", "p:1:1: expected '@newest NUMBER'\n"},
        {"@landlock yes\n", "p:1:1: expected '@landlock'\n"},
        {"@proc-subset yes\n", "p:1:1: expected '@proc-subset'\n"},
        {"@deny acct\n", "p:1:1: unknown statement '@deny'\n"},
        {HEAD "EPERM\n", "p:4:1: no system call behind 'EPERM'\n"},
        {HEAD "ENOPERM acct\n", "p:4:1: unknown action 'ENOPERM' (allow, kill or an errno name)\n"},
        {HEAD "EPERM acct akt\n  mount moutn # all of them\n",
         "p:4:12: unknown system call 'akt' (write 'akt=NUMBER' for one that is newer than "
         "libseccomp)\n"
         "p:5:9: unknown system call 'moutn' (write 'moutn=NUMBER' for one that is newer than "
         "libseccomp)\n"},
        {HEAD "EPERM acct\nENOSYS acct\n",
         "p:5:1: never reached: p:4 decides every 'acct' already\n"},
        {HEAD "EPERM acct acct\n", "p:4:1: never reached: p:4 decides every 'acct' already\n"},
        {HEAD "EPERM acct\nEPERM acct if arg0 is 1\n",
         "p:5:1: never reached: p:4 decides every 'acct' already\n"},
        {HEAD "allow acct\n", "p:4:1: no rule needed: 'acct' gets this by @otherwise\n"},
        {HEAD "EPERM acct=1\n", "p:4:7: 'acct' is number 163, not 1: leave the number out\n"},
        {HEAD "ENOSYS nie=-1\n", "p:4:8: '-1' is no system call number\n"},
        {HEAD "EPERM nie=451\n",
         "p:4:1: 'nie' is number 451, and above @newest 450 all is ENOSYS\n"},
        {HEAD "EPERM nie=165\n" HEAD, "p:5:1: @description is given twice\n"
                                      "p:6:1: @otherwise is given twice\n"
                                      "p:7:1: @newest is given twice\n"},
        {HEAD "EPERM mount\nEPERM berg=165\n", "p:5:1: 'berg' and 'mount' are one system call\n"},
        /* conditions */
        {HEAD "EPERM ioctl if\n", "p:4:13: no condition behind 'if'\n"},
        {HEAD "EPERM ioctl if arg6 is 1\n",
         "p:4:16: expected an argument, 'arg0' to 'arg5', not 'arg6'\n"},
        {HEAD "EPERM ioctl if arg10 is 1\n",
         "p:4:16: expected an argument, 'arg0' to 'arg5', not 'arg10'\n"},
        {HEAD "EPERM ioctl if arg1 == 1\n",
         "p:4:21: expected 'is', 'not', 'has' or 'without', not '=='\n"},
        {HEAD "EPERM ioctl if arg1 is\n", "p:4:21: the condition ends too early\n"},
        {HEAD "EPERM ioctl if arg1 without 1 is\n", "p:4:31: the condition ends too early\n"},
        {HEAD "EPERM ioctl if arg1 is TIOCSTI arg2 is 1\n", "p:4:32: expected 'and', not 'arg2'\n"},
        {HEAD "EPERM ioctl if arg1 is TIOCSTI and\n", "p:4:32: no condition behind 'and'\n"},
        {HEAD "EPERM ioctl if arg1 is TIOCSTY\n",
         "p:4:24: 'TIOCSTY' is neither a known constant nor a number of 32 bits\n"},
        {HEAD "EPERM ioctl if arg1 is 0x100000000\n",
         "p:4:24: '0x100000000' is neither a known constant nor a number of 32 bits\n"},
        {HEAD "EPERM ioctl if arg1 is 1,\n",
         "p:4:24: '' is neither a known constant nor a number of 32 bits\n"},
        {HEAD "EPERM ioctl if arg1 has 1|-2\n",
         "p:4:25: '-2' is neither a known constant nor a number of 32 bits\n"},
        {HEAD "EPERM ioctl if arg1 is 08\n",
         "p:4:24: '08' is neither a known constant nor a number of 32 bits\n"},
        {HEAD "EPERM ioctl if arg1 has 1,2\n", "p:4:25: 'has' takes one value: join bits by '|'\n"},
        {HEAD "EPERM ioctl if arg0 is 1 and arg1 is 1 and arg2 is 1 and arg3 is 1 and arg4 is 1\n",
         "p:4:72: more than 4 conditions in one rule\n"},
        {HEAD "EPERM ioctl if arg0 is 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16\n",
         "p:4:24: more than 16 values in one condition\n"},
        /* groups, late, reset, include */
        {HEAD "@group a\n", "p:4:1: expected '@group NAME CALL...'\n"},
        {HEAD "@group a acct\n@group a mount\n", "p:5:8: group 'a' is given twice\n"},
        {HEAD "EPERM @a\n", "p:4:7: unknown group '@a'\n"},
        {HEAD "@late ENOSYS\n", "p:4:1: expected '@late ERRNO CALL...'\n"},
        {HEAD "@late allow clone3\n", "p:4:7: @late takes an errno name, not 'allow'\n"},
        {HEAD "ENOSYS clone3\n@late ENOSYS clone3\n",
         "p:5:1: 'clone3' has a rule already and cannot be @late\n"},
        {HEAD "@late ENOSYS clone3\nENOSYS clone3\n",
         "p:5:1: 'clone3' is @late and can have no other rule\n"},
        {HEAD "@reset\n", "p:4:1: expected '@reset CALL...'\n"},
        {HEAD "@reset acct\n", "p:4:1: 'acct' has no rule to forget\n"},
        {HEAD "@include\n", "p:4:1: expected '@include NAME'\n"},
        {HEAD "@include none\n", "p:4:10: cannot read profile 'none': No such file or directory\n"},
        {HEAD "@include self\n", "self:1:10: 'self' includes itself\n"},
        {HEAD "@include bad\n", "bad:2:1: unknown statement '@no'\n"},
        {HEAD "@include bad\n@no\n", "bad:2:1: unknown statement '@no'\n"
                                     "p:5:1: unknown statement '@no'\n"},
        {HEAD "@include acct\nENOSYS acct\n",
         "p:5:1: never reached: acct:1 decides every 'acct' already\n"},
        /* bytes */
        {"@landlock\r\n", "p:1:1: a byte that is not printable ASCII\n"},
        {"@description caf\xc3\xa9\n", "p:1:14: a byte that is not printable ASCII\n"},
        {"@otherwise allow\n\x7f\n", "p:2:1: a byte that is not printable ASCII\n"},
        {" EPERM\n", "p:1:2: no system call behind 'EPERM'\n"},
};

static const struct {
        const char *name, *text;
} includes[] = {
        {"acct", "EPERM acct\n"},
        {"all", "@description inner\n@otherwise EPERM\n@newest 100\n@landlock\nallow read\n"},
        {"bad", "# a comment\n@no\n"},
        {"self", "@include self\n"},
};

static int load(void *userdata, const char *name, char **ret_file, char **ret_text,
                size_t *ret_size) {
        (void) userdata;
        for (size_t i = 0; i < ELEMENTSOF(includes); i++)
                if (string_equal(name, includes[i].name)) {
                        *ret_file = strdup(name);
                        *ret_text = strdup(includes[i].text);
                        *ret_size = strlen(includes[i].text);
                        return 0;
                }
        return -ENOENT;
}

static SeccompSource *parse_good(const char *text) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        SeccompSource *source = NULL;

        ck_assert_int_eq(seccomp_parse("p", text, strlen(text), load, NULL, &diags, &source), 0);
        ck_assert_uint_eq(diags.n_items, 0);
        ck_assert_ptr_nonnull(source);
        return source;
}

static const SeccompCall *find(const SeccompSource *source, const char *name) {
        for (size_t i = 0; i < source->n_calls; i++)
                if (string_equal(source->calls[i].name, name))
                        return &source->calls[i];
        ck_abort_msg("no call %s", name);
        return NULL;
}

START_TEST(test_bad) {
        const BadCase *c = &bad_cases[_i];
        _cleanup_(seccomp_source_freep) SeccompSource *source = NULL;
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(strbuf_done) StrBuf found = STRBUF_NULL;

        ck_assert_int_eq(seccomp_parse("p", c->text, strlen(c->text), load, NULL, &diags, &source),
                         SECCOMP_PARSE_E_INVALID);
        ck_assert_ptr_null(source);
        for (size_t i = 0; i < diags.n_items; i++) {
                _cleanup_(freep) char *line = diag_format(&diags.items[i]);

                ck_assert_int_eq(strbuf_appendf(&found, "%s\n", line), 0);
        }
        ck_assert_str_eq(found.data, c->diags);
}
END_TEST

START_TEST(test_without_includes) {
        _cleanup_(seccomp_source_freep) SeccompSource *source = NULL;
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        static const char text[] = "@include acct\n";

        ck_assert_int_eq(seccomp_parse("p", text, sizeof(text) - 1, NULL, NULL, &diags, &source),
                         SECCOMP_PARSE_E_INVALID);
        ck_assert_uint_eq(diags.n_items, 1);
}
END_TEST

START_TEST(test_word_too_long) {
        _cleanup_(seccomp_source_freep) SeccompSource *source = NULL;
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        char text[300];

        memset(text, 'a', sizeof(text));
        ck_assert_int_eq(seccomp_parse("p", text, sizeof(text), NULL, NULL, &diags, &source),
                         SECCOMP_PARSE_E_INVALID);
        ck_assert_str_eq(diags.items[0].text, "a word of more than 255 bytes");
}
END_TEST

START_TEST(test_rules) {
        _cleanup_(seccomp_source_freep) SeccompSource *source =
                parse_good("# comment\n" HEAD "@group two acct mount\n"
                           "\n"
                           "EPERM @two # both\n"
                           "allow socket if arg0 is AF_INET,AF_INET6 # a comment in between\n"
                           "\t\n"
                           "\tand arg1 without SOCK_CLOEXEC|04000 not 1,0x2\n"
                           "EPERM socket if arg2 has 1|6\n"
                           "kill socket\n"
                           "ENOSYS neu=451 openat2");
        const SeccompCall *call = find(source, "socket");

        ck_assert_str_eq(source->description, "x");
        ck_assert_uint_eq(source->otherwise, SECCOMP_RET_ALLOW);
        ck_assert_int_eq(source->newest, 450);
        ck_assert(!source->landlock && !source->proc_subset);
        ck_assert_uint_eq(source->n_calls, 5);
        ck_assert_uint_eq(find(source, "mount")->rules[0].action, SECCOMP_RET_ERRNO | EPERM);
        ck_assert_uint_eq(find(source, "mount")->rules[0].line, 7);
        ck_assert_int_eq(find(source, "mount")->nr[SECCOMP_ARCH_X86_64], 165);
        ck_assert_int_eq(find(source, "mount")->nr[SECCOMP_ARCH_AARCH64], 40);
        ck_assert_int_eq(find(source, "neu")->nr[SECCOMP_ARCH_X86_64], 451);
        ck_assert_int_eq(find(source, "neu")->nr[SECCOMP_ARCH_AARCH64], 451);

        ck_assert_uint_eq(call->n_rules, 3);
        ck_assert_uint_eq(call->rules[0].n_conds, 2);
        ck_assert_uint_eq(call->rules[0].conds[0].n_values, 2);
        ck_assert_uint_eq(call->rules[0].conds[0].values[1], AF_INET6);
        ck_assert_uint_eq(call->rules[0].conds[0].mask, UINT32_MAX);
        ck_assert_int_eq(call->rules[0].conds[1].test, SECCOMP_TEST_NOT);
        ck_assert_uint_eq(call->rules[0].conds[1].mask, ~(uint32_t) (SOCK_CLOEXEC | SOCK_NONBLOCK));
        ck_assert_uint_eq(call->rules[0].conds[1].values[1], 2);
        ck_assert_int_eq(call->rules[1].conds[0].test, SECCOMP_TEST_HAS);
        ck_assert_uint_eq(call->rules[1].conds[0].values[0], 7);
        ck_assert_uint_eq(call->rules[2].action, SECCOMP_RET_KILL_PROCESS);
        ck_assert_uint_eq(call->rules[2].n_conds, 0);
}
END_TEST

START_TEST(test_architectures) {
        _cleanup_(seccomp_source_freep) SeccompSource *source =
                parse_good(HEAD "EPERM open renameat\n");

        ck_assert_int_eq(find(source, "open")->nr[SECCOMP_ARCH_X86_64], 2);
        ck_assert_int_eq(find(source, "open")->nr[SECCOMP_ARCH_AARCH64], SECCOMP_NR_NONE);
        ck_assert_int_eq(find(source, "renameat")->nr[SECCOMP_ARCH_AARCH64], 38);
}
END_TEST

START_TEST(test_late) {
        _cleanup_(seccomp_source_freep) SeccompSource *source =
                parse_good("@description x\n@otherwise EPERM\n@newest 450\n"
                           "@late ENOSYS clone3\n");
        const SeccompCall *call = find(source, "clone3");

        ck_assert(call->late);
        ck_assert_uint_eq(call->late_action, SECCOMP_RET_ERRNO | ENOSYS);
        ck_assert_uint_eq(call->rules[0].action, SECCOMP_RET_ALLOW);
}
END_TEST

START_TEST(test_include_and_reset) {
        _cleanup_(seccomp_source_freep) SeccompSource *source =
                parse_good("@description outer\n@include all\n@proc-subset\n@reset read\n"
                           "ENOSYS read\n");

        ck_assert_str_eq(source->description, "outer");
        ck_assert_uint_eq(source->otherwise, SECCOMP_RET_ERRNO | EPERM);
        ck_assert_int_eq(source->newest, 100);
        ck_assert(source->landlock && source->proc_subset);
        ck_assert_uint_eq(find(source, "read")->n_rules, 1);
        ck_assert_uint_eq(find(source, "read")->rules[0].action, SECCOMP_RET_ERRNO | ENOSYS);
        ck_assert_str_eq(find(source, "read")->rules[0].file, "p");
        ck_assert_uint_eq(find(source, "read")->rules[0].line, 5);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("seccomp-parse");
        TCase *tcase = tcase_create("seccomp-parse");
        SRunner *runner = srunner_create(suite);
        int n_failed;

        suite_add_tcase(suite, tcase);
        tcase_add_loop_test(tcase, test_bad, 0, ELEMENTSOF(bad_cases));
        tcase_add_test(tcase, test_without_includes);
        tcase_add_test(tcase, test_word_too_long);
        tcase_add_test(tcase, test_rules);
        tcase_add_test(tcase, test_architectures);
        tcase_add_test(tcase, test_late);
        tcase_add_test(tcase, test_include_and_reset);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
