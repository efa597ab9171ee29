/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "basic/error.h"
#include "record/audit-line.h"
#include "record/audit-read.h"
#include "record/audit-verify.h"
#include "tests/unit/scratch.h"
#include "tests/unit/suite.h"

static Scratch scratch;
static char *log_path, *head_path;
static char warned[4096];

static void setup(void) {
        scratch_init(&scratch);
        log_path = scratch_path(&scratch, "audit.jsonl");
        head_path = scratch_path(&scratch, "audit.head");
        warned[0] = 0;
}

static void teardown(void) {
        free(log_path);
        free(head_path);
        scratch_done(&scratch);
}

static void on_warn(const char *text) {
        (void) snprintf(warned, sizeof(warned), "%s", text);
}

static const AuditCall plain_call = {
        .id = "c-0123456789abcdef",
        .tenant = "owner",
        .uid = 1000,
        .pid = 42,
        .client = "tests/1",
        .tool = "sandbox_exec",
};
static const AuditDecision plain_decision = {
        .allowed = true,
        .rule = "owner",
        .arguments = {"{\"argv\":[\"true\"]}", 17},
};
static const AuditEnd plain_end = {
        .outcome = "exited",
        .result = {"{}", 2},
};

static Audit *open_log(bool fail_open) {
        AuditConfig config = {.path = log_path, .fail_open = fail_open, .warn = on_warn};
        _cleanup_(freep) char *text = NULL;
        Audit *audit = NULL;
        int r = audit_open(&config, &audit, &text);

        ck_assert_msg(r == 0, "%d: %s", r, text ?: "");
        return audit;
}

/* n calls, two lines each. */
static void write_calls(Audit *audit, unsigned n) {
        for (unsigned i = 0; i < n; i++) {
                _cleanup_(freep) char *text = NULL;

                ck_assert_int_eq(audit_decision(audit, &plain_call, &plain_decision, &text), 0);
                audit_end(audit, &plain_call, &plain_end);
        }
}

static void make_log(unsigned n) {
        Audit *audit = open_log(false);

        write_calls(audit, n);
        audit_free(audit);
}

static char *read_whole(const char *path, size_t *ret_size) {
        FILE *file = fopen(path, "re");
        char *text = NULL;
        size_t room = 0;
        ssize_t n;

        ck_assert_ptr_nonnull(file);
        n = getdelim(&text, &room, 0, file);
        fclose(file);
        if (n < 0) {
                free(text);
                text = strdup("");
                n = 0;
        }
        *ret_size = (size_t) n;
        return text;
}

static void write_whole(const char *path, const char *text, size_t size) {
        int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0600);

        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(write(fd, text, size), (ssize_t) size);
        close(fd);
}

/* --- texts --- */

typedef struct Case {
        const char *text;
        size_t size;
        const char *expected;
} Case;

#define CASE(s, e)                                                                                 \
        { s, sizeof(s) - 1, e }

static const Case text_cases[] = {
        CASE("", "\"\""),
        CASE("plain ~", "\"plain ~\""),
        CASE("a\"b\\c", "\"a\\\"b\\\\c\""),
        CASE("x\"}\n{\"event\":\"end\"}", "\"x\\\"}\\n{\\\"event\\\":\\\"end\\\"}\""),
        CASE("\r\t\x01\x7f", "\"\\u000d\\t\\u0001\\u007f\""),
        CASE("\x1b[2J", "\"\\u001b[2J\""),
        CASE("caf\xc3\xa9", "\"caf\\u00e9\""),
        CASE("\xe2\x80\xa8", "\"\\u2028\""),
        CASE("\xc2\x9b", "\"\\u009b\""),
        CASE("\xf0\x9f\x98\x80", "\"\\ud83d\\ude00\""),
        CASE("\xff", "\"\\ufffd\""),
        CASE("a\xc3", "\"a\\ufffd\""),
        CASE("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""),
        CASE("a\0b", "\"a\\u0000b\""),
        CASE("01234567890", "\"0123456789\\u2026(11 bytes)\""),
        CASE("01234567\xe2\x82\xac", "\"01234567\\u2026(11 bytes)\""),
};

START_TEST(test_text) {
        const Case *c = &text_cases[_i];
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;

        ck_assert_int_eq(
                audit_append_text(&out, c->text, c->size, c->size > 10 && c->size < 12 ? 10 : 64),
                0);
        ck_assert_str_eq(out.data, c->expected);
}
END_TEST

/* The worst that can be asked for: still one line of JSON below the bound. */
START_TEST(test_line_bound) {
        _cleanup_(strbuf_done) StrBuf body = STRBUF_NULL, line = STRBUF_NULL;
        _cleanup_(strv_done) StrV scopes = STRV_NULL;
        _cleanup_(freep) char *big = malloc((1U << 20) + 1);
        AuditHead before = {.seq = INT64_MAX - 1}, after;
        AuditCall call;
        json_t *json;

        memset(big, 0x01, 1U << 20);
        big[1U << 20] = 0;
        audit_hash("", 0, before.hash);
        for (unsigned i = 0; i < 100; i++)
                ck_assert_int_eq(strv_append(&scopes, big), 0);
        call = (AuditCall){big, big, UINT32_MAX, INT32_MAX, big, big, big, 0, 0};

        AuditDecision decision = {false, big, big, &scopes, &scopes, big, {big, 1U << 20}};
        ck_assert_int_eq(audit_body_decision(&body, audit_stamp_now(), &call, &decision, true), 0);
        ck_assert_int_eq(audit_line(&line, &before, &body, &after), 0);
        ck_assert_uint_lt(line.size, AUDIT_LINE_MAX);
        ck_assert_ptr_eq(memchr(line.data, '\n', line.size), line.data + line.size - 1);
        json = json_loadb(line.data, line.size, JSON_REJECT_DUPLICATES, NULL);
        ck_assert_ptr_nonnull(json);
        json_decref(json);
}
END_TEST

/* The names of the members are a contract. */
START_TEST(test_members) {
        static const char *const decision[] = {
                "seq",    "prev",          "time",  "mono_ns", "event",   "call",     "tenant",
                "peer",   "client",        "tool",  "scopes",  "granted", "decision", "rule",
                "reason", "policy_digest", "bytes", "hashes",  "trace_id"};
        static const char *const end[] = {"seq",  "prev",    "time",   "mono_ns", "event",
                                          "call", "tenant",  "peer",   "client",  "tool",
                                          "job",  "outcome", "reason", "limit",   "plan_digest",
                                          "ms",   "bytes",   "exit",   "hashes",  "trace_id"};
        _cleanup_(freep) char *text = NULL;
        size_t size;

        make_log(1);
        text = read_whole(log_path, &size);
        for (unsigned i = 0; i < 2; i++) {
                const char *line = i == 0 ? text : strchr(text, '\n') + 1;
                size_t n = 0, n_expected = i == 0 ? ELEMENTSOF(decision) : ELEMENTSOF(end);
                json_t *json = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL), *value;
                const char *key;

                ck_assert_ptr_nonnull(json);
                json_object_foreach(json, key, value) {
                        ck_assert_uint_lt(n, n_expected);
                        ck_assert_str_eq(key, i == 0 ? decision[n] : end[n]);
                        n++;
                }
                ck_assert_uint_eq(n, n_expected);
                json_decref(json);
        }
}
END_TEST

/* --- verifying --- */

typedef struct Found {
        unsigned n;
        char file[512];
        uint64_t line;
        char text[512];
} Found;

static void on_fault(const char *file, uint64_t line, const char *text, void *userdata) {
        Found *found = userdata;

        if (found->n++ > 0)
                return;
        (void) snprintf(found->file, sizeof(found->file), "%s", file);
        (void) snprintf(found->text, sizeof(found->text), "%s", text);
        found->line = line;
}

static Found verify_text(const char *text, size_t size, const AuditHead *want) {
        AuditVerifier verifier;
        Found found = {};
        uint64_t line = 0;

        audit_verifier_init(&verifier, want, on_fault, &found);
        while (size > 0) {
                const char *newline = memchr(text, '\n', size);
                size_t n = newline ? (size_t) (newline - text) : size;

                ck_assert_int_eq(audit_verifier_line(&verifier, "log", ++line, text, n), 0);
                if (!newline)
                        break;
                size -= n + 1;
                text += n + 1;
        }
        ck_assert_int_eq(audit_verifier_end(&verifier), 0);
        ck_assert_uint_eq(verifier.n_faults, found.n);
        audit_verifier_done(&verifier);
        return found;
}

static AuditHead read_head(void) {
        _cleanup_(freep) char *text = NULL;
        AuditHead head = {};
        size_t size;

        text = read_whole(head_path, &size);
        ck_assert_int_eq(audit_head_parse(text, size, &head), 0);
        return head;
}

/* Of all files at the place, against the head. */
static Found verify_files(void) {
        _cleanup_(freep) char *error = NULL;
        _cleanup_(strv_done) StrV files = STRV_NULL;
        AuditHead head = read_head();
        AuditVerifier verifier;
        Found found = {};

        ck_assert_int_eq(audit_find_files(log_path, &files, &error), 0);
        audit_verifier_init(&verifier, &head, on_fault, &found);
        for (size_t i = 0; i < files.n_items; i++) {
                _cleanup_(audit_reader_done) AuditReader reader = AUDIT_READER_NULL;
                AuditText text;
                int r;

                ck_assert_int_eq(audit_reader_open(&reader, files.items[i], &error), 0);
                while ((r = audit_reader_next(&reader, true, &text)) == 0)
                        ck_assert_int_eq(audit_verifier_line(&verifier, files.items[i], reader.line,
                                                             text.data, text.size),
                                         0);
                ck_assert_int_eq(r, AUDIT_READER_E_END);
        }
        ck_assert_int_eq(audit_verifier_end(&verifier), 0);
        audit_verifier_done(&verifier);
        return found;
}

static void expect_whole(void) {
        Found found = verify_files();

        ck_assert_msg(found.n == 0, "%s:%llu: %s", found.file, (unsigned long long) found.line,
                      found.text);
}

START_TEST(test_chain) {
        AuditHead head;

        make_log(3);
        head = read_head();
        ck_assert_uint_eq(head.seq, 6);
        expect_whole();
        /* The next broker goes on. */
        make_log(2);
        ck_assert_uint_eq(read_head().seq, 10);
        ck_assert_str_eq(warned, "");
        expect_whole();
}
END_TEST

/* No byte can be another one. */
START_TEST(test_edited) {
        _cleanup_(freep) char *text = NULL;
        AuditHead head;
        size_t size;

        make_log(2);
        head = read_head();
        text = read_whole(log_path, &size);
        ck_assert_uint_eq(verify_text(text, size, &head).n, 0);
        for (size_t i = 0; i < size; i++) {
                char was = text[i];

                text[i] ^= 0x01;
                ck_assert_msg(verify_text(text, size, &head).n > 0, "byte %zu", i);
                text[i] = was;
        }
}
END_TEST

typedef struct Lines {
        char *text;
        char *line[8];
        size_t size[8];
} Lines;

static void split(Lines *lines, char *text) {
        lines->text = text;
        for (unsigned i = 0; i < 6; i++) {
                lines->line[i] = text;
                lines->size[i] = (size_t) (strchr(text, '\n') - text) + 1;
                text += lines->size[i];
        }
}

static Found verify_order(const Lines *lines, const int *order, const AuditHead *head) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;

        for (; *order >= 0; order++)
                ck_assert_int_eq(strbuf_append(&text, lines->line[*order], lines->size[*order]), 0);
        return verify_text(text.data ?: "", text.size, head);
}

START_TEST(test_moved) {
        _cleanup_(freep) char *text = NULL;
        AuditHead head;
        Lines lines;
        size_t size;

        make_log(3);
        head = read_head();
        text = read_whole(log_path, &size);
        split(&lines, text);

        for (int out = 0; out < 6; out++) {
                int order[7], n = 0;

                for (int i = 0; i < 6; i++)
                        if (i != out)
                                order[n++] = i;
                order[n] = -1;
                /* What begins later than a log begins is all that a rotation leaves. */
                ck_assert_uint_eq(verify_order(&lines, order, &head).n, out == 0 ? 0 : 1);
        }
        for (int a = 0; a < 6; a++)
                for (int b = a + 1; b < 6; b++) {
                        int order[7] = {0, 1, 2, 3, 4, 5, -1};

                        order[a] = b;
                        order[b] = a;
                        ck_assert_uint_gt(verify_order(&lines, order, &head).n, 0);
                }
        for (int twice = 0; twice < 6; twice++) {
                int order[8], n = 0;

                for (int i = 0; i < 6; i++) {
                        order[n++] = i;
                        if (i == twice)
                                order[n++] = i;
                }
                order[n] = -1;
                ck_assert_uint_eq(verify_order(&lines, order, &head).n, 1);
        }
}
END_TEST

START_TEST(test_places) {
        _cleanup_(freep) char *text = NULL;
        AuditHead head;
        Lines lines;
        size_t size;
        Found found;

        make_log(3);
        head = read_head();
        text = read_whole(log_path, &size);
        split(&lines, text);

        found = verify_order(&lines, (int[]){0, 1, 3, 4, 5, -1}, &head);
        ck_assert_uint_eq(found.line, 3);
        ck_assert_ptr_nonnull(strstr(found.text, "1 lines are missing"));

        found = verify_order(&lines, (int[]){0, 1, 2, 3, -1}, &head);
        ck_assert_uint_eq(found.line, 4);
        ck_assert_ptr_nonnull(strstr(found.text, "the last 2 lines are missing"));

        lines.line[2][lines.size[2] - 30] ^= 0x01;
        found = verify_order(&lines, (int[]){0, 1, 2, 3, 4, 5, -1}, &head);
        ck_assert_uint_eq(found.n, 1);
        ck_assert_uint_eq(found.line, 3);
}
END_TEST

/* A file of another log between two of this one. */
START_TEST(test_spliced) {
        _cleanup_(freep) char *other = NULL, *one = NULL, *old = NULL, *middle = NULL;
        Audit *audit;
        size_t size;
        Found found;

        make_log(2);
        other = read_whole(log_path, &size);
        scratch_remove(&scratch, "audit.jsonl");
        scratch_remove(&scratch, "audit.head");

        old = scratch_path(&scratch, "audit.jsonl.2");
        middle = scratch_path(&scratch, "audit.jsonl.1");
        audit = open_log(false);
        write_calls(audit, 2);
        ck_assert_int_eq(rename(log_path, old), 0);
        audit_reopen(audit);
        write_calls(audit, 1);
        audit_free(audit);
        expect_whole();

        one = read_whole(old, &size);
        /* All but its first two lines. */
        write_whole(middle, strchr(strchr(other, '\n') + 1, '\n') + 1,
                    strlen(strchr(strchr(other, '\n') + 1, '\n') + 1));
        write_whole(old, one, (size_t) (strchr(strchr(one, '\n') + 1, '\n') + 1 - one));
        found = verify_files();
        ck_assert_uint_gt(found.n, 0);
        ck_assert_str_eq(found.file, old);
        ck_assert_uint_eq(found.line, 2);
}
END_TEST

/* --- what a kill leaves --- */

/* The log as it was when its last line had come to that byte. */
static void recover_at(const char *text, size_t whole, size_t cut, const AuditHead *head) {
        _cleanup_(freep) char *kept_path = NULL, *kept = NULL;
        char line[160];
        size_t size;

        scratch_clear(&scratch);
        write_whole(log_path, text, cut);
        (void) snprintf(line, sizeof(line), "{\"seq\":3,\"hash\":\"%s\"}\n", head->hash);
        write_whole(head_path, line, strlen(line));
        warned[0] = 0;

        make_log(1);
        expect_whole();
        ck_assert_uint_eq(read_head().seq, 5);
        kept_path = scratch_path(&scratch, "audit.cut-4");
        if (cut == whole) {
                ck_assert_str_eq(warned, "");
                ck_assert_int_ne(access(kept_path, F_OK), 0);
                return;
        }
        ck_assert_ptr_nonnull(strstr(warned, "audit.cut-4"));
        kept = read_whole(kept_path, &size);
        ck_assert_uint_eq(size, cut - whole);
        ck_assert_int_eq(memcmp(kept, text + whole, size), 0);
}

START_TEST(test_recovery) {
        _cleanup_(freep) char *text = NULL;
        size_t size, whole;
        AuditHead head = {};

        make_log(2);
        text = read_whole(log_path, &size);
        for (whole = size - 1; text[whole - 1] != '\n';)
                whole--;
        {
                size_t start = whole - 1;

                while (text[start - 1] != '\n')
                        start--;
                audit_hash(text + start, whole - 1 - start, head.hash);
        }
        for (size_t cut = whole; cut < size; cut++)
                recover_at(text, whole, cut, &head);
}
END_TEST

/* The decision is there, and the broker is not. */
START_TEST(test_orphans) {
        _cleanup_(freep) char *head = NULL, *text = NULL, *error = NULL;
        AuditCall other = plain_call;
        Audit *audit = open_log(false);
        size_t size, n = 0;

        other.id = "c-fedcba9876543210";
        write_calls(audit, 2);
        ck_assert_int_eq(audit_decision(audit, &other, &plain_decision, &error), 0);
        write_calls(audit, 1);
        ck_assert_uint_eq(read_head().n_open, 1);
        audit_free(audit);

        make_log(1);
        ck_assert_ptr_nonnull(strstr(warned, "were cut off"));
        ck_assert_uint_eq(read_head().n_open, 0);
        ck_assert_uint_eq(read_head().seq, 10);
        text = read_whole(log_path, &size);
        for (char *p = text; (p = strstr(p, other.id)); p++)
                n++;
        ck_assert_uint_eq(n, 2);
        ck_assert_ptr_nonnull(strstr(text, "\"outcome\":\"lost\""));
        expect_whole();
        head = read_whole(head_path, &size);
        ck_assert_uint_eq(size, 128);
}
END_TEST

/* Killed between the line and its head. */
START_TEST(test_head_behind) {
        _cleanup_(freep) char *head = NULL;
        size_t size;

        make_log(1);
        head = read_whole(head_path, &size);
        make_log(1);
        write_whole(head_path, head, size);
        /* Two lines are more than that can leave, which is said. */
        make_log(1);
        ck_assert_ptr_nonnull(strstr(warned, "has come to 4"));
        ck_assert_uint_eq(read_head().seq, 6);
        expect_whole();
}
END_TEST

/* What was cut off while no broker ran is missed for ever. */
START_TEST(test_head_ahead) {
        _cleanup_(freep) char *text = NULL;
        size_t size;
        Found found;

        make_log(2);
        text = read_whole(log_path, &size);
        write_whole(log_path, text, (size_t) (strchr(text, '\n') + 1 - text));
        make_log(1);
        ck_assert_ptr_nonnull(strstr(warned, "lines were cut off"));
        found = verify_files();
        ck_assert_uint_eq(found.n, 1);
        ck_assert_uint_eq(found.line, 2);
        ck_assert_ptr_nonnull(strstr(found.text, "3 lines are missing"));
}
END_TEST

START_TEST(test_rotated_while_away) {
        _cleanup_(freep) char *old = scratch_path(&scratch, "audit.jsonl.1");

        make_log(2);
        ck_assert_int_eq(rename(log_path, old), 0);
        make_log(1);
        ck_assert_uint_eq(read_head().seq, 6);
        expect_whole();
}
END_TEST

START_TEST(test_foreign_end) {
        static const char text[] = "this is no record\n";
        AuditConfig config = {.path = log_path, .warn = on_warn};
        _cleanup_(freep) char *error = NULL;
        Audit *audit = NULL;

        write_whole(log_path, text, sizeof(text) - 1);
        ck_assert_int_eq(audit_open(&config, &audit, &error), AUDIT_E_UNUSABLE);
        ck_assert_ptr_nonnull(strstr(error, "is no record"));
}
END_TEST

/* --- the place --- */

static void expect_unusable(const char *part) {
        AuditConfig config = {.path = log_path, .warn = on_warn};
        _cleanup_(freep) char *text = NULL;
        Audit *audit = NULL;

        ck_assert_int_eq(audit_open(&config, &audit, &text), AUDIT_E_UNUSABLE);
        ck_assert_msg(strstr(text, part) != NULL, "%s", text);
}

START_TEST(test_bad_places) {
        scratch_file(&scratch, "other", "");
        scratch_link(&scratch, "audit.jsonl", "other");
        expect_unusable("symbolic link");
        scratch_clear(&scratch);

        scratch_file(&scratch, "audit.jsonl", "");
        chmod(log_path, 0620);
        expect_unusable("others may write");
        scratch_clear(&scratch);

        scratch_folder(&scratch, "audit.jsonl");
        expect_unusable("Is a directory");
        scratch_clear(&scratch);

        ck_assert_int_eq(mkfifo(log_path, 0600), 0);
        expect_unusable("no regular file");
        scratch_clear(&scratch);

        scratch_link(&scratch, "audit.head", "/dev/null");
        expect_unusable("audit.head");
        scratch_clear(&scratch);

        chmod(scratch.path, 0777);
        expect_unusable("others may write");
        chmod(scratch.path, 0700);

        if (geteuid() != 0)
                return;
        scratch_file(&scratch, "audit.jsonl", "");
        ck_assert_int_eq(chown(log_path, 1000, 1000), 0);
        expect_unusable("belongs to somebody else");
        scratch_clear(&scratch);
        ck_assert_int_eq(chown(scratch.path, 1000, 1000), 0);
        expect_unusable("belongs to somebody else");
        ck_assert_int_eq(chown(scratch.path, 0, 0), 0);
}
END_TEST

START_TEST(test_folder_link) {
        _cleanup_(freep) char *path = scratch_path(&scratch, "link/audit.jsonl");

        scratch_folder(&scratch, "real");
        scratch_link(&scratch, "link", "real");
        free(log_path);
        log_path = TAKE_PTR(path);
        expect_unusable("symbolic link");
}
END_TEST

START_TEST(test_folder_made) {
        struct stat st;

        free(log_path);
        log_path = scratch_path(&scratch, "a/b/audit.jsonl");
        make_log(1);
        ck_assert_int_eq(stat(log_path, &st), 0);
        ck_assert_uint_eq(st.st_mode & 07777, 0600);
        *strrchr(log_path, '/') = 0;
        ck_assert_int_eq(stat(log_path, &st), 0);
        ck_assert_uint_eq(st.st_mode & 07777, 0700);
}
END_TEST

START_TEST(test_one_writer) {
        Audit *audit = open_log(false);

        expect_unusable("another broker");
        /* Also after the log was renamed, and before the writer has noticed. */
        ck_assert_int_eq(rename(log_path, head_path) == 0 ? rename(head_path, log_path) : -1, 0);
        audit_free(audit);
}
END_TEST

START_TEST(test_one_writer_renamed) {
        _cleanup_(freep) char *old = scratch_path(&scratch, "audit.jsonl.1");
        Audit *audit = open_log(false);

        write_calls(audit, 1);
        ck_assert_int_eq(rename(log_path, old), 0);
        expect_unusable("another broker");
        write_calls(audit, 1);
        audit_reopen(audit);
        write_calls(audit, 1);
        audit_free(audit);
        ck_assert_uint_eq(read_head().seq, 6);
        expect_whole();
}
END_TEST

START_TEST(test_removed) {
        Audit *audit = open_log(false);
        Found found;

        write_calls(audit, 1);
        scratch_remove(&scratch, "audit.jsonl");
        write_calls(audit, 1);
        ck_assert_ptr_nonnull(strstr(warned, "was removed"));
        audit_free(audit);
        ck_assert_uint_eq(read_head().seq, 4);
        /* What is left is whole; that it does not begin at 1 is told by who prints it. */
        found = verify_files();
        ck_assert_uint_eq(found.n, 0);
}
END_TEST

START_TEST(test_emptied) {
        Audit *audit = open_log(false);
        struct stat st;

        write_calls(audit, 3);
        ck_assert_int_eq(truncate(log_path, 0), 0);
        write_calls(audit, 1);
        audit_free(audit);
        /* No hole where the lines were. */
        ck_assert_int_eq(stat(log_path, &st), 0);
        ck_assert_int_lt(st.st_size, 2000);
        expect_whole();
}
END_TEST

/* --- no room --- */

/* The limit counts for the files of the test as well: nothing is asserted while it stands. */
static int decide_within(Audit *audit, off_t size, char **ret_text) {
        struct rlimit limit = {(rlim_t) size, RLIM_INFINITY};
        int r;

        (void) setrlimit(RLIMIT_FSIZE, &limit);
        r = audit_decision(audit, &plain_call, &plain_decision, ret_text);
        limit.rlim_cur = RLIM_INFINITY;
        (void) setrlimit(RLIMIT_FSIZE, &limit);
        return r;
}

static void end_within(Audit *audit, off_t size) {
        struct rlimit limit = {(rlim_t) size, RLIM_INFINITY};

        (void) setrlimit(RLIMIT_FSIZE, &limit);
        audit_end(audit, &plain_call, &plain_end);
        limit.rlim_cur = RLIM_INFINITY;
        (void) setrlimit(RLIMIT_FSIZE, &limit);
}

/* At each size that ends inside of a line. */
START_TEST(test_no_room) {
        const struct sigaction ignore = {.sa_handler = SIG_IGN};
        Audit *audit = open_log(false);
        struct stat st;

        (void) sigaction(SIGXFSZ, &ignore, NULL);
        write_calls(audit, 1);
        ck_assert_int_eq(stat(log_path, &st), 0);

        for (off_t room = 0; room < 100; room += 7) {
                _cleanup_(freep) char *refused = NULL;
                struct stat now;

                ck_assert_int_eq(decide_within(audit, st.st_size + room, &refused), AUDIT_E_FAILED);
                ck_assert_ptr_nonnull(strstr(refused, "cannot be recorded"));
                ck_assert_int_eq(stat(log_path, &now), 0);
                ck_assert_int_eq(now.st_size, st.st_size);
        }
        ck_assert_ptr_nonnull(strstr(warned, "nothing can be written"));

        /* What ends meanwhile waits. */
        end_within(audit, st.st_size + 10);
        write_calls(audit, 1);
        ck_assert_ptr_nonnull(strstr(warned, "is written again"));
        ck_assert_uint_eq(audit_n_lost(audit), 0);
        audit_free(audit);
        ck_assert_uint_eq(read_head().seq, 5);
        expect_whole();
}
END_TEST

START_TEST(test_fail_open) {
        const struct sigaction ignore = {.sa_handler = SIG_IGN};
        Audit *audit = open_log(true);

        (void) sigaction(SIGXFSZ, &ignore, NULL);
        for (unsigned i = 0; i < 3000; i++) {
                _cleanup_(freep) char *text = NULL;

                ck_assert_int_eq(decide_within(audit, 0, &text), 0);
                end_within(audit, 0);
        }
        ck_assert_uint_eq(audit_n_lost(audit), 6000 - 4096);
        write_calls(audit, 1);
        audit_free(audit);
        ck_assert_uint_eq(read_head().seq, 4096 + 2);
        expect_whole();
}
END_TEST

/* --- payloads, times --- */

START_TEST(test_payloads) {
        static const char arguments[] =
                "{\"argv\":[\"a\"],\"env\":{\"A\":\"S3cr3t\"},\"x\":{\"api_key\":\"S3cr3t\","
                "\"Authorization\":[\"S3cr3t\"],\"\\u0074oken\":\"S3cr3t\"}}";
        AuditConfig config = {.path = log_path, .payloads = true, .warn = on_warn};
        AuditDecision decision = plain_decision;
        _cleanup_(freep) char *error = NULL, *text = NULL;
        Audit *audit = NULL;
        size_t size;

        decision.arguments = (AuditData){arguments, sizeof(arguments) - 1};
        ck_assert_int_eq(audit_open(&config, &audit, &error), 0);
        ck_assert_int_eq(audit_decision(audit, &plain_call, &decision, &error), 0);
        audit_free(audit);
        text = read_whole(log_path, &size);
        ck_assert_ptr_null(strstr(text, "S3cr3t"));
        ck_assert_ptr_nonnull(strstr(text, "\\\"argv\\\":[\\\"a\\\"]"));
        ck_assert_ptr_nonnull(strstr(text, "\\\"A\\\":\\\"[redacted]\\\""));
        expect_whole();
}
END_TEST

START_TEST(test_times) {
        uint64_t usec = 0;

        ck_assert_int_eq(audit_parse_time("1970-01-02T00:00:01.5Z", &usec), 0);
        ck_assert_uint_eq(usec, 86401500000);
        ck_assert_int_eq(audit_parse_time("1970-01-02T00:00:01Z", &usec), 0);
        ck_assert_uint_eq(usec, 86401000000);
        ck_assert_int_eq(audit_parse_time("1970-01-02", &usec), 0);
        ck_assert_uint_eq(usec, 86400000000);
        ck_assert_int_ne(audit_parse_time("1970-01-02T00:00:01", &usec), 0);
        ck_assert_int_ne(audit_parse_time("1970-01-02T00:00:01.x", &usec), 0);
        ck_assert_int_ne(audit_parse_time("", &usec), 0);
        ck_assert_int_ne(audit_parse_time("1969-01-02", &usec), 0);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("audit");

        tcase_add_checked_fixture(tcase, setup, teardown);
        tcase_set_timeout(tcase, 120);
        tcase_add_loop_test(tcase, test_text, 0, ELEMENTSOF(text_cases));
        tcase_add_test(tcase, test_line_bound);
        tcase_add_test(tcase, test_members);
        tcase_add_test(tcase, test_chain);
        tcase_add_test(tcase, test_edited);
        tcase_add_test(tcase, test_moved);
        tcase_add_test(tcase, test_places);
        tcase_add_test(tcase, test_spliced);
        tcase_add_test(tcase, test_recovery);
        tcase_add_test(tcase, test_orphans);
        tcase_add_test(tcase, test_head_behind);
        tcase_add_test(tcase, test_head_ahead);
        tcase_add_test(tcase, test_rotated_while_away);
        tcase_add_test(tcase, test_foreign_end);
        tcase_add_test(tcase, test_bad_places);
        tcase_add_test(tcase, test_folder_link);
        tcase_add_test(tcase, test_folder_made);
        tcase_add_test(tcase, test_one_writer);
        tcase_add_test(tcase, test_one_writer_renamed);
        tcase_add_test(tcase, test_removed);
        tcase_add_test(tcase, test_emptied);
        tcase_add_test(tcase, test_no_room);
        tcase_add_test(tcase, test_fail_open);
        tcase_add_test(tcase, test_payloads);
        tcase_add_test(tcase, test_times);
        return suite_run("audit", tcase);
}
