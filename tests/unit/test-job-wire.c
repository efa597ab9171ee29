/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/mman.h>

#include "basic/macros.h"
#include "basic/memfd-util.h"
#include "plan/job-wire.h"
#include "tests/unit/suite.h"

#define POINTERS (JOB_WIRE_STRINGS_MAX + 2)

typedef struct Parsed {
        const void *data;
        size_t size;
        char *pointers[POINTERS];
        char **argv, **env;
        const char *cwd;
} Parsed;

/* Through the memfd, as init does it. */
static void round_trip(char *const *argv, char *const *env, const char *cwd, Parsed *parsed) {
        _cleanup_(fd_closep) int fd = -EBADF;

        ck_assert_int_eq(job_wire_to_memfd(argv, env, cwd, &fd), 0);
        ck_assert_int_eq(memfd_map_sealed(fd, sizeof(JobWire) + JOB_WIRE_SIZE_MAX, &parsed->data,
                                          &parsed->size),
                         0);
        ck_assert_int_eq(job_wire_parse(parsed->data, parsed->size, parsed->pointers, POINTERS,
                                        &parsed->argv, &parsed->env, &parsed->cwd),
                         0);
}

static void parsed_done(Parsed *parsed) {
        ck_assert_int_eq(munmap((void *) parsed->data, parsed->size), 0);
}

static void assert_same_strings(char **got, char *const *want) {
        size_t i;

        for (i = 0; want[i]; i++) {
                ck_assert_ptr_nonnull(got[i]);
                ck_assert_str_eq(got[i], want[i]);
        }
        ck_assert_ptr_null(got[i]);
}

static char *const plain[] = {(char *) "sh", (char *) "-c", (char *) "echo a\nb", NULL};
static char *const one[] = {(char *) "/usr/bin/true", NULL};
static char *const empties[] = {(char *) "", (char *) "", NULL};
static char *const none[] = {NULL};

static const struct {
        char *const *argv, *const *env;
        const char *cwd;
} jobs[] = {
        {one, none, ""},        {one, none, "/workspace"},   {plain, plain, "/"},
        {empties, empties, ""}, {empties, none, "/a b\xff"}, {plain, empties, "relative"},
};

START_TEST(test_round_trip) {
        Parsed parsed;

        round_trip(jobs[_i].argv, jobs[_i].env, jobs[_i].cwd, &parsed);
        assert_same_strings(parsed.argv, jobs[_i].argv);
        assert_same_strings(parsed.env, jobs[_i].env);
        ck_assert_str_eq(parsed.cwd, jobs[_i].cwd);
        parsed_done(&parsed);
}
END_TEST

static char **many_strings(size_t n, const char *each) {
        char **strings = calloc(n + 1, sizeof(char *));

        ck_assert_ptr_nonnull(strings);
        for (size_t i = 0; i < n; i++)
                strings[i] = (char *) each;
        return strings;
}

START_TEST(test_many) {
        _cleanup_(freep) char **all = many_strings(JOB_WIRE_STRINGS_MAX, "a");
        _cleanup_(freep) char **more = many_strings(JOB_WIRE_STRINGS_MAX + 1, "a");
        _cleanup_(freep) char **half = many_strings(JOB_WIRE_STRINGS_MAX / 2, "a");
        _cleanup_(freep) char **rest = many_strings(JOB_WIRE_STRINGS_MAX / 2 + 1, "a");
        Parsed parsed;
        int fd = -EBADF;

        round_trip(all, none, "", &parsed);
        assert_same_strings(parsed.argv, all);
        parsed_done(&parsed);
        round_trip(half, half, "", &parsed);
        assert_same_strings(parsed.env, half);
        parsed_done(&parsed);

        ck_assert_int_eq(job_wire_to_memfd(more, none, "", &fd), -E2BIG);
        ck_assert_int_eq(job_wire_to_memfd(one, all, "", &fd), -E2BIG);
        ck_assert_int_eq(job_wire_to_memfd(half, rest, "", &fd), -E2BIG);
        ck_assert_int_eq(job_wire_to_memfd(one, more, "", &fd), -E2BIG);
        ck_assert_int_eq(fd, -EBADF);
}
END_TEST

START_TEST(test_large) {
        _cleanup_(freep) char *string = malloc(JOB_WIRE_SIZE_MAX);
        char *argv[] = {string, NULL}, *env[] = {(char *) "A=b", NULL};
        Parsed parsed;
        int fd = -EBADF;

        ck_assert_ptr_nonnull(string);
        memset(string, 'x', JOB_WIRE_SIZE_MAX);
        /* Its NUL and that of the working directory. */
        string[JOB_WIRE_SIZE_MAX - 2] = 0;
        round_trip(argv, none, "", &parsed);
        assert_same_strings(parsed.argv, argv);
        parsed_done(&parsed);

        ck_assert_int_eq(job_wire_to_memfd(argv, none, "/", &fd), -E2BIG);
        ck_assert_int_eq(job_wire_to_memfd(argv, env, "", &fd), -E2BIG);
        string[JOB_WIRE_SIZE_MAX - 2] = 'x';
        string[JOB_WIRE_SIZE_MAX - 1] = 0;
        ck_assert_int_eq(job_wire_to_memfd(argv, none, "", &fd), -E2BIG);
        ck_assert_int_eq(fd, -EBADF);
}
END_TEST

START_TEST(test_no_command) {
        int fd = -EBADF;

        ck_assert_int_eq(job_wire_to_memfd(none, one, "", &fd), -EINVAL);
        ck_assert_int_eq(fd, -EBADF);
}
END_TEST

typedef struct Wire {
        JobWire header;
        char strings[32];
} Wire;

static int parse(const Wire *wire, size_t size, size_t n_pointers) {
        _cleanup_(freep) void *copy = malloc(size > 0 ? size : 1);
        char *pointers[POINTERS], **argv, **env;
        const char *cwd;

        ck_assert_ptr_nonnull(copy);
        memcpy(copy, wire, size);
        return job_wire_parse(copy, size, pointers, n_pointers, &argv, &env, &cwd);
}

#define STRINGS_SIZE 13U
#define WIRE_SIZE (sizeof(JobWire) + STRINGS_SIZE)

static const Wire good = {
        .header = {.magic = JOB_WIRE_MAGIC, .n_argv = 2, .n_env = 1, .size = STRINGS_SIZE},
        .strings = "ls\0-l\0A=b\0/w",
};

START_TEST(test_pointers) {
        ck_assert_int_eq(parse(&good, WIRE_SIZE, POINTERS), 0);
        ck_assert_int_eq(parse(&good, WIRE_SIZE, 5), 0);
        for (size_t n = 0; n < 5; n++)
                ck_assert_int_eq(parse(&good, WIRE_SIZE, n), JOB_WIRE_E_MALFORMED);
}
END_TEST

/* Cut anywhere, whether or not the header owns up to it. */
START_TEST(test_truncation) {
        for (size_t size = 0; size < WIRE_SIZE; size++) {
                Wire wire = good;

                ck_assert_int_eq(parse(&wire, size, POINTERS), JOB_WIRE_E_MALFORMED);
                if (size < sizeof(JobWire))
                        continue;
                wire.header.size = (uint32_t) (size - sizeof(JobWire));
                ck_assert_msg(parse(&wire, size, POINTERS) == JOB_WIRE_E_MALFORMED, "cut at %zu",
                              size);
        }
}
END_TEST

static const struct {
        const char *name;
        JobWire header;
} faults[] = {
        {"magic", {JOB_WIRE_MAGIC + 1, 2, 1, STRINGS_SIZE}},
        {"no command", {JOB_WIRE_MAGIC, 0, 3, STRINGS_SIZE}},
        {"a string too many in argv", {JOB_WIRE_MAGIC, 3, 1, STRINGS_SIZE}},
        {"a string too many in the environment", {JOB_WIRE_MAGIC, 2, 2, STRINGS_SIZE}},
        {"a string too few in argv", {JOB_WIRE_MAGIC, 1, 1, STRINGS_SIZE}},
        {"a string too few in the environment", {JOB_WIRE_MAGIC, 2, 0, STRINGS_SIZE}},
        {"argv above the limit", {JOB_WIRE_MAGIC, JOB_WIRE_STRINGS_MAX + 1, 1, STRINGS_SIZE}},
        {"environment above the limit",
         {JOB_WIRE_MAGIC, 2, JOB_WIRE_STRINGS_MAX + 1, STRINGS_SIZE}},
        {"both at the limit", {JOB_WIRE_MAGIC, JOB_WIRE_STRINGS_MAX, JOB_WIRE_STRINGS_MAX, 13}},
        {"counts that wrap", {JOB_WIRE_MAGIC, UINT32_MAX, 3, STRINGS_SIZE}},
        {"counts that wrap together", {JOB_WIRE_MAGIC, 2, UINT32_MAX - 1, STRINGS_SIZE}},
        {"smaller than said", {JOB_WIRE_MAGIC, 2, 1, STRINGS_SIZE + 1}},
        {"larger than said", {JOB_WIRE_MAGIC, 2, 1, STRINGS_SIZE - 1}},
        {"size that wraps", {JOB_WIRE_MAGIC, 2, 1, UINT32_MAX}},
};

START_TEST(test_faults) {
        Wire wire = good;

        ck_assert_int_eq(parse(&wire, WIRE_SIZE, POINTERS), 0);
        wire.header = faults[_i].header;
        ck_assert_msg(parse(&wire, WIRE_SIZE, POINTERS) == JOB_WIRE_E_MALFORMED, "%s",
                      faults[_i].name);
}
END_TEST

/* Each NUL is the end of one string; another one, or one less, is a fault. */
START_TEST(test_nuls) {
        for (size_t i = 0; i < STRINGS_SIZE; i++) {
                Wire wire = good;

                wire.strings[i] = wire.strings[i] ? 0 : 'x';
                ck_assert_msg(parse(&wire, WIRE_SIZE, POINTERS) == JOB_WIRE_E_MALFORMED, "at %zu",
                              i);
        }
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("job-wire");

        tcase_add_loop_test(tcase, test_round_trip, 0, ELEMENTSOF(jobs));
        tcase_add_test(tcase, test_many);
        tcase_add_test(tcase, test_large);
        tcase_add_test(tcase, test_no_command);
        tcase_add_test(tcase, test_pointers);
        tcase_add_test(tcase, test_truncation);
        tcase_add_loop_test(tcase, test_faults, 0, ELEMENTSOF(faults));
        tcase_add_test(tcase, test_nuls);
        return suite_run("job-wire", tcase);
}
