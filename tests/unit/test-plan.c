/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <linux/filter.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "basic/macros.h"
#include "basic/memfd-util.h"
#include "plan/plan-internal.h"
#include "tests/unit/plan-text.h"
#include "tests/unit/suite.h"

static const struct sock_filter filter[] = {
        {.code = BPF_LD | BPF_W | BPF_ABS, .k = 0},
        {.code = BPF_RET | BPF_K, .k = 0x7fff0000},
};

#define BIND_FLAGS (PLAN_RDONLY | PLAN_NOEXEC | PLAN_OPTIONAL | PLAN_RECURSIVE | PLAN_DIRECTORY)

/* One of each type, with all that it may carry. */
static const PlanOp samples[_PLAN_OP_MAX] = {
        [PLAN_OP_DIR] = {.type = PLAN_OP_DIR, .path = "/a", .mode = 01777},
        [PLAN_OP_FILE] = {.type = PLAN_OP_FILE,
                          .path = "/etc/x",
                          .mode = 0644,
                          .data = "te\0xt",
                          .data_size = 5},
        [PLAN_OP_SYMLINK] = {.type = PLAN_OP_SYMLINK, .path = "/bin", .source = "../usr//bin/"},
        [PLAN_OP_BIND] = {.type = PLAN_OP_BIND,
                          .path = "/usr",
                          .source = "/srv/root/usr",
                          .flags = BIND_FLAGS},
        [PLAN_OP_DEVICE] = {.type = PLAN_OP_DEVICE, .path = "/dev/null"},
        [PLAN_OP_HOST_PROC] = {.type = PLAN_OP_HOST_PROC, .path = "/proc"},
        [PLAN_OP_HIDE] = {.type = PLAN_OP_HIDE, .path = "/usr/x", .flags = PLAN_DIRECTORY},
        [PLAN_OP_LATE_BIND] = {.type = PLAN_OP_LATE_BIND,
                               .path = "/workspace",
                               .source = "/home/me",
                               .flags = BIND_FLAGS},
        [PLAN_OP_LATE_HIDE] = {.type = PLAN_OP_LATE_HIDE,
                               .path = "/workspace/.git",
                               .flags = PLAN_DIRECTORY},
        [PLAN_OP_LATE_COVER] = {.type = PLAN_OP_LATE_COVER, .path = "/etc/x", .source = "/.x"},
        [PLAN_OP_LATE_PRIVATE] = {.type = PLAN_OP_LATE_PRIVATE,
                                  .path = "/workspace/tmp",
                                  .mode = 0755,
                                  .a = 7},
        [PLAN_OP_HOSTNAME] = {.type = PLAN_OP_HOSTNAME, .source = "crate"},
        [PLAN_OP_PROC] = {.type = PLAN_OP_PROC, .path = "/proc", .flags = PLAN_SUBSET_PID},
        [PLAN_OP_PROC_MASK] = {.type = PLAN_OP_PROC_MASK,
                               .path = "/proc/keys",
                               .flags = PLAN_DIRECTORY},
        [PLAN_OP_PROC_RDONLY] = {.type = PLAN_OP_PROC_RDONLY, .path = "/proc/sys"},
        [PLAN_OP_TMPFS] = {.type = PLAN_OP_TMPFS, .path = "/tmp", .a = 1U << 30, .b = 100000},
        [PLAN_OP_PRIVATE] = {.type = PLAN_OP_PRIVATE,
                             .path = "/tmp",
                             .mode = 01777,
                             .a = 3,
                             .flags = PLAN_NOEXEC},
        [PLAN_OP_MOUNTPOINT] = {.type = PLAN_OP_MOUNTPOINT,
                                .path = "/tmp/x",
                                .flags = PLAN_DIRECTORY},
        [PLAN_OP_DEVPTS] = {.type = PLAN_OP_DEVPTS, .path = "/dev/pts"},
        [PLAN_OP_MQUEUE] = {.type = PLAN_OP_MQUEUE, .path = "/dev/mqueue"},
        [PLAN_OP_RLIMIT] = {.type = PLAN_OP_RLIMIT, .a = RLIMIT_NOFILE, .b = 1024},
        [PLAN_OP_USERNS_MAX] = {.type = PLAN_OP_USERNS_MAX},
        [PLAN_OP_INOTIFY_MAX] = {.type = PLAN_OP_INOTIFY_MAX, .a = 16, .b = 65536},
        [PLAN_OP_LANDLOCK_PATH] = {.type = PLAN_OP_LANDLOCK_PATH,
                                   .path = "/",
                                   .flags = PLAN_RDONLY},
        [PLAN_OP_LANDLOCK_SCOPE] = {.type = PLAN_OP_LANDLOCK_SCOPE},
        [PLAN_OP_SECCOMP] = {.type = PLAN_OP_SECCOMP,
                             .source = "strict",
                             .data = filter,
                             .data_size = sizeof(filter)},
        [PLAN_OP_LISTEN] = {.type = PLAN_OP_LISTEN,
                            .source = "198.18.0.2",
                            .a = 443,
                            .data = "a.example",
                            .data_size = 9},
};

#define FIRST_OP (_PLAN_OP_INVALID + 1)

/* As plan_add() has it: no string is "". */
static PlanOp op_complete(const PlanOp *op) {
        PlanOp copy = *op;

        copy.path = copy.path ?: "";
        copy.source = copy.source ?: "";
        return copy;
}

static void assert_same_op(const PlanOp *got, const PlanOp *want) {
        ck_assert_int_eq(got->type, want->type);
        ck_assert_uint_eq(got->flags, want->flags);
        ck_assert_uint_eq(got->mode, want->mode);
        ck_assert_uint_eq(got->a, want->a);
        ck_assert_uint_eq(got->b, want->b);
        ck_assert_str_eq(got->path, want->path ?: "");
        ck_assert_str_eq(got->source, want->source ?: "");
        ck_assert_uint_eq(got->data_size, want->data_size);
        if (want->data_size > 0)
                ck_assert_mem_eq(got->data, want->data, want->data_size);
}

static CratePlan *make_plan(const PlanOp *ops, size_t n_ops) {
        CratePlan *plan = NULL;

        ck_assert_int_eq(plan_new(&plan), 0);
        for (size_t i = 0; i < n_ops; i++)
                ck_assert_int_eq(plan_add(plan, &ops[i]), 0);
        return plan;
}

/* A copy of a plan's bytes that ends where it ends, for the sanitizers. */
static uint8_t *copy_wire(const CratePlan *plan, size_t *ret_size) {
        const void *data = plan_data(plan, ret_size);
        uint8_t *copy = malloc(*ret_size);

        ck_assert_ptr_nonnull(copy);
        memcpy(copy, data, *ret_size);
        return copy;
}

static int read_all(const void *data, size_t size) {
        PlanReader reader;
        PlanOp op;
        int r;

        r = plan_reader_init(&reader, data, size);
        if (r != 0)
                return r;
        while ((r = plan_reader_next(&reader, &op)) == 0)
                ck_assert_int_eq(plan_op_check(&op), 0);
        /* What init found good is good to the end. */
        ck_assert_int_eq(r, PLAN_E_END);
        return 0;
}

START_TEST(test_round_trip) {
        _cleanup_(plan_freep) CratePlan *plan = make_plan(&samples[_i], 1);
        PlanReader reader;
        const void *data;
        size_t size;
        PlanOp op;

        data = plan_data(plan, &size);
        ck_assert_uint_eq(size % PLAN_ALIGN, 0);
        ck_assert_int_eq(plan_reader_init(&reader, data, size), 0);
        ck_assert_int_eq(plan_reader_next(&reader, &op), 0);
        assert_same_op(&op, &samples[_i]);
        ck_assert_int_eq(plan_reader_next(&reader, &op), PLAN_E_END);
        ck_assert_int_eq(plan_reader_next(&reader, &op), PLAN_E_END);
}
END_TEST

START_TEST(test_all_types) {
        size_t n = _PLAN_OP_MAX - FIRST_OP;
        _cleanup_(plan_freep) CratePlan *plan = make_plan(&samples[FIRST_OP], n);
        PlanReader reader;
        const void *data;
        size_t size;
        PlanOp op;

        data = plan_data(plan, &size);
        ck_assert_int_eq(plan_reader_init(&reader, data, size), 0);
        for (size_t i = 0; i < n; i++) {
                ck_assert_int_eq(plan_reader_next(&reader, &op), 0);
                assert_same_op(&op, &samples[FIRST_OP + i]);
        }
        ck_assert_int_eq(plan_reader_next(&reader, &op), PLAN_E_END);
}
END_TEST

START_TEST(test_empty_plan) {
        _cleanup_(plan_freep) CratePlan *plan = make_plan(NULL, 0);
        _cleanup_(freep) char *text = plan_text(plan);
        const void *data;
        size_t size;

        data = plan_data(plan, &size);
        ck_assert_uint_eq(size, sizeof(PlanHeader));
        ck_assert_int_eq(read_all(data, size), 0);
        ck_assert_str_eq(text, "");
        ck_assert_ptr_null(plan_free(NULL));
}
END_TEST

/* Each type has a name of its own and a stage. */
START_TEST(test_names) {
        const char *name = plan_op_type_to_string((PlanOpType) _i);

        ck_assert_ptr_nonnull(name);
        for (int other = FIRST_OP; other < _i; other++)
                ck_assert_str_ne(name, plan_op_type_to_string((PlanOpType) other));
        ck_assert_int_eq(plan_op_stage((PlanOpType) _i),
                         _i <= PLAN_OP_HIDE           ? PLAN_STAGE_TREE
                         : _i <= PLAN_OP_LATE_PRIVATE ? PLAN_STAGE_LATE
                         : _i == PLAN_OP_LATE_COVER   ? PLAN_STAGE_LATE
                         : _i == PLAN_OP_LISTEN       ? PLAN_STAGE_NET
                                                      : PLAN_STAGE_CRATE);
}
END_TEST

START_TEST(test_no_names) {
        ck_assert_ptr_null(plan_op_type_to_string(_PLAN_OP_INVALID));
        ck_assert_ptr_null(plan_op_type_to_string(_PLAN_OP_MAX));
        ck_assert_ptr_null(plan_op_type_to_string((PlanOpType) 65535));
}
END_TEST

/* --- what an operation may be --- */

/* What each type has, it must have; what it has not, it must not have. */
START_TEST(test_check_parts) {
        const PlanOpInfo *info = plan_op_info((PlanOpType) _i);
        PlanOp good = op_complete(&samples[_i]), op;

        ck_assert_int_eq(plan_op_check(&good), 0);

        op = good;
        op.path = info->has_path ? "" : "/x";
        ck_assert_int_eq(plan_op_check(&op), PLAN_E_MALFORMED);
        op = good;
        op.source = info->has_source ? "" : "/x";
        ck_assert_int_eq(plan_op_check(&op), PLAN_E_MALFORMED);
        if (!info->has_data && !info->may_have_data) {
                op = good;
                op.data = "x";
                op.data_size = 1;
                ck_assert_int_eq(plan_op_check(&op), PLAN_E_MALFORMED);
        }
        op = good;
        op.mode = 010000;
        ck_assert_int_eq(plan_op_check(&op), PLAN_E_MALFORMED);
        for (unsigned bit = 0; bit < 32; bit++) {
                op = good;
                op.flags = 1U << bit;
                ck_assert_int_eq(plan_op_check(&op),
                                 (info->flags & op.flags) ? 0 : PLAN_E_MALFORMED);
        }
}
END_TEST

START_TEST(test_check_types) {
        static const int types[] = {_PLAN_OP_INVALID, _PLAN_OP_MAX, _PLAN_OP_MAX + 1, 65535};

        for (size_t i = 0; i < ELEMENTSOF(types); i++) {
                PlanOp op = {.type = (PlanOpType) types[i], .path = "", .source = ""};

                ck_assert_int_eq(plan_op_check(&op), PLAN_E_MALFORMED);
                op.path = "/a";
                ck_assert_int_eq(plan_op_check(&op), PLAN_E_MALFORMED);
        }
}
END_TEST

/* Only what is local in every crate, and a port. */
static const struct {
        const char *source;
        uint64_t port;
        bool good;
} listens[] = {
        {"198.18.0.1", 1, true},
        {"198.19.255.255", 65535, true},
        {"198.18.0.0", 53, true},
        {"198.17.255.255", 1, false},
        {"198.20.0.0", 1, false},
        {"127.0.0.1", 80, false},
        {"0.0.0.0", 80, false},
        {"198.18.0.1", 0, false},
        {"198.18.0.1", 65536, false},
        {"fd00:ac::1", 53, true},
        {"fd00:ac::ffff:1", 53, true},
        {"fd00:ac:0:1::1", 53, false},
        {"::1", 53, false},
        {"::", 53, false},
        {"198.18.0.1 ", 53, false},
        {"a.example", 53, false},
        {"::ffff:198.18.0.1", 53, false},
};

START_TEST(test_check_listen) {
        PlanOp op = {.type = PLAN_OP_LISTEN,
                     .path = "",
                     .source = listens[_i].source,
                     .a = listens[_i].port};

        ck_assert_msg(plan_op_check(&op) == (listens[_i].good ? 0 : PLAN_E_MALFORMED), "%s %llu",
                      op.source, (unsigned long long) op.a);
}
END_TEST

START_TEST(test_check_listen_data) {
        static const char data[PLAN_PATH_MAX + 1];
        PlanOp op = samples[PLAN_OP_LISTEN];

        op.path = "";
        op.data = data;
        op.data_size = sizeof(data) - 1;
        ck_assert_int_eq(plan_op_check(&op), 0);
        op.data_size++;
        ck_assert_int_eq(plan_op_check(&op), PLAN_E_MALFORMED);
}
END_TEST

static const struct {
        const char *path;
        bool good;
} paths[] = {
        {"/", true},      {"/a", true},       {"/a/b", true},    {"/...", true},   {"/.a", true},
        {"/..a", true},   {"/a b\n", true},   {"/\xff", true},   {"", false},      {"a", false},
        {"./a", false},   {"//", false},      {"//a", false},    {"/a/", false},   {"/a//b", false},
        {"/.", false},    {"/..", false},     {"/./a", false},   {"/../a", false}, {"/a/.", false},
        {"/a/..", false}, {"/a/../b", false}, {"/a/./b", false},
};

START_TEST(test_check_paths) {
        int r = paths[_i].good ? 0 : PLAN_E_MALFORMED;
        PlanOp op = op_complete(&samples[PLAN_OP_DIR]);

        op.path = paths[_i].path;
        ck_assert_msg(plan_op_check(&op) == r, "path %s", paths[_i].path);
        /* The source of a bind is such a path too, that of a link is what links are. */
        op = samples[PLAN_OP_BIND];
        op.source = paths[_i].path;
        ck_assert_msg(plan_op_check(&op) == r, "source %s", paths[_i].path);
        op = samples[PLAN_OP_LATE_BIND];
        op.source = paths[_i].path;
        ck_assert_msg(plan_op_check(&op) == r, "late source %s", paths[_i].path);
        op = samples[PLAN_OP_SYMLINK];
        op.source = paths[_i].path;
        ck_assert_int_eq(plan_op_check(&op), paths[_i].path[0] ? 0 : PLAN_E_MALFORMED);
}
END_TEST

START_TEST(test_check_long_paths) {
        char path[PLAN_PATH_MAX + 2];
        PlanOp op = op_complete(&samples[PLAN_OP_DIR]);

        memset(path, 'x', sizeof(path));
        path[0] = '/';
        path[PLAN_PATH_MAX] = 0;
        op.path = path;
        ck_assert_int_eq(plan_op_check(&op), 0);
        op = samples[PLAN_OP_SYMLINK];
        op.source = path;
        ck_assert_int_eq(plan_op_check(&op), 0);

        path[PLAN_PATH_MAX] = 'x';
        path[PLAN_PATH_MAX + 1] = 0;
        ck_assert_int_eq(plan_op_check(&op), PLAN_E_MALFORMED);
        op = op_complete(&samples[PLAN_OP_DIR]);
        op.path = path;
        ck_assert_int_eq(plan_op_check(&op), PLAN_E_MALFORMED);
}
END_TEST

START_TEST(test_check_seccomp) {
        static const struct sock_filter program[BPF_MAXINSNS + 1];
        static const struct {
                size_t size;
                int r;
        } cases[] = {
                {0, PLAN_E_MALFORMED},
                {1, PLAN_E_MALFORMED},
                {sizeof(struct sock_filter) - 1, PLAN_E_MALFORMED},
                {sizeof(struct sock_filter), 0},
                {sizeof(struct sock_filter) + 1, PLAN_E_MALFORMED},
                {sizeof(struct sock_filter) * BPF_MAXINSNS, 0},
                {sizeof(program), PLAN_E_MALFORMED},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                PlanOp op = op_complete(&samples[PLAN_OP_SECCOMP]);

                op.data = program;
                op.data_size = cases[i].size;
                ck_assert_msg(plan_op_check(&op) == cases[i].r, "%zu bytes", cases[i].size);
        }
}
END_TEST

/* A refused operation leaves the plan as it was. */
START_TEST(test_add_refuses) {
        _cleanup_(plan_freep) CratePlan *plan = make_plan(&samples[PLAN_OP_DIR], 1);
        char before[PLAN_DIGEST_SIZE], after[PLAN_DIGEST_SIZE];
        const CratePlan *plans[] = {plan};
        PlanOp op = {.type = PLAN_OP_DIR, .path = "/a/../b"};

        plan_digest(plans, 1, before);
        ck_assert_int_eq(plan_add(plan, &op), -EINVAL);
        ck_assert_int_eq(plan_add(plan, &(PlanOp){.type = PLAN_OP_DIR}), -EINVAL);
        ck_assert_int_eq(plan_add(plan, &(PlanOp){}), -EINVAL);
        op = (PlanOp){.type = PLAN_OP_FILE, .path = "/a", .data = "", .data_size = SIZE_MAX};
        ck_assert_int_eq(plan_add(plan, &op), -E2BIG);
        plan_digest(plans, 1, after);
        ck_assert_str_eq(before, after);
}
END_TEST

START_TEST(test_maxima) {
        _cleanup_(plan_freep) CratePlan *many = make_plan(NULL, 0), *large = make_plan(NULL, 0);
        _cleanup_(freep) char *data = calloc(1, PLAN_SIZE_MAX);
        PlanOp op = {.type = PLAN_OP_FILE, .path = "/a", .data = data};
        const void *wire;
        size_t size;

        for (size_t i = 0; i < PLAN_OPS_MAX; i++)
                ck_assert_int_eq(plan_add(many, &samples[PLAN_OP_USERNS_MAX]), 0);
        ck_assert_int_eq(plan_add(many, &samples[PLAN_OP_USERNS_MAX]), -E2BIG);
        wire = plan_data(many, &size);
        ck_assert_int_eq(read_all(wire, size), 0);

        ck_assert_ptr_nonnull(data);
        op.data_size = PLAN_SIZE_MAX;
        ck_assert_int_eq(plan_add(large, &op), -E2BIG);
        op.data_size = PLAN_SIZE_MAX / 4;
        for (size_t i = 0; i < 3; i++)
                ck_assert_int_eq(plan_add(large, &op), 0);
        ck_assert_int_eq(plan_add(large, &op), -E2BIG);
        wire = plan_data(large, &size);
        ck_assert_int_eq(read_all(wire, size), 0);
}
END_TEST

/* --- bytes that are no plan --- */

/* Cut anywhere, whether or not the header owns up to it, it is no plan. */
START_TEST(test_truncation) {
        size_t n = _PLAN_OP_MAX - FIRST_OP, size;
        _cleanup_(plan_freep) CratePlan *plan = make_plan(&samples[FIRST_OP], n);
        _cleanup_(freep) uint8_t *whole = copy_wire(plan, &size);

        ck_assert_int_eq(read_all(whole, size), 0);
        for (size_t cut = 0; cut < size; cut++) {
                _cleanup_(freep) uint8_t *part = malloc(cut > 0 ? cut : 1);
                PlanHeader header;

                ck_assert_ptr_nonnull(part);
                memcpy(part, whole, cut);
                ck_assert_msg(read_all(part, cut) == PLAN_E_MALFORMED, "cut at %zu", cut);
                if (cut < sizeof(header))
                        continue;
                memcpy(&header, part, sizeof(header));
                header.size = (uint32_t) (cut - sizeof(header));
                memcpy(part, &header, sizeof(header));
                ck_assert_msg(read_all(part, cut) == PLAN_E_MALFORMED, "cut at %zu, fixed", cut);
        }
}
END_TEST

/* Each byte replaced by others: never read beyond the end; and what is still taken for a plan is
 * one. */
START_TEST(test_mutation) {
        static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
        size_t n = _PLAN_OP_MAX - FIRST_OP, size;
        _cleanup_(plan_freep) CratePlan *plan = make_plan(&samples[FIRST_OP], n);
        _cleanup_(freep) uint8_t *wire = copy_wire(plan, &size);

        for (size_t i = 0; i < size; i++) {
                uint8_t saved = wire[i];

                for (size_t k = 0; k < ELEMENTSOF(values); k++) {
                        wire[i] = values[k];
                        (void) read_all(wire, size);
                }
                wire[i] = saved;
        }
        ck_assert_int_eq(read_all(wire, size), 0);
}
END_TEST

typedef struct Fault {
        const char *name;
        size_t offset;
        uint32_t value;
        size_t size; /* of value: 2 or 4 */
} Fault;

#define IN_HEADER(field) offsetof(PlanHeader, field)
#define IN_RECORD(field) (sizeof(PlanHeader) + offsetof(PlanRecord, field))
/* The wire of the test below: header, record, "/a\0", "b\0", padding. */
#define STRINGS (sizeof(PlanHeader) + sizeof(PlanRecord))

static const Fault faults[] = {
        {"magic", IN_HEADER(magic), PLAN_MAGIC + 1, 4},
        {"no operations, yet bytes", IN_HEADER(n_ops), 0, 4},
        {"more operations than bytes", IN_HEADER(n_ops), 2, 4},
        {"operations above the limit", IN_HEADER(n_ops), PLAN_OPS_MAX + 1, 4},
        {"endless operations", IN_HEADER(n_ops), UINT32_MAX, 4},
        {"size 0", IN_HEADER(size), 0, 4},
        {"size of all", IN_HEADER(size), STRINGS + 8, 4},
        {"size that wraps", IN_HEADER(size), UINT32_MAX, 4},
        {"reserved of the header", IN_HEADER(reserved), 1, 4},
        {"type 0", IN_RECORD(type), 0, 2},
        {"type above the last", IN_RECORD(type), _PLAN_OP_MAX, 2},
        {"another type", IN_RECORD(type), PLAN_OP_DIR, 2},
        {"reserved of the record", IN_RECORD(reserved), 1, 2},
        {"flag", IN_RECORD(flags), PLAN_RDONLY, 4},
        {"unknown flag", IN_RECORD(flags), 1U << 31, 4},
        {"mode", IN_RECORD(mode), 010000, 4},
        {"no path", IN_RECORD(path_size), 0, 4},
        {"path without its NUL", IN_RECORD(path_size), 2, 4},
        {"path with a NUL within", IN_RECORD(path_size), 5, 4},
        {"path beyond the end", IN_RECORD(path_size), 100, 4},
        {"path above the limit", IN_RECORD(path_size), PLAN_PATH_MAX + 2, 4},
        {"path that wraps", IN_RECORD(path_size), UINT32_MAX, 4},
        {"no source", IN_RECORD(source_size), 0, 4},
        {"empty source", IN_RECORD(source_size), 1, 4},
        {"source beyond the end", IN_RECORD(source_size), 100, 4},
        {"source that wraps", IN_RECORD(source_size), UINT32_MAX, 4},
        {"data where there is none", IN_RECORD(data_size), 1, 4},
        {"data beyond the end", IN_RECORD(data_size), 100, 4},
        {"data above the limit", IN_RECORD(data_size), PLAN_SIZE_MAX + 1, 4},
        {"data that wraps", IN_RECORD(data_size), UINT32_MAX, 4},
        {"path that is not absolute", STRINGS, 'x' | 'a' << 8, 2},
        {"path without an end", STRINGS + 2, 'x', 2},
        {"source without an end", STRINGS + 4, 'x', 2},
};

START_TEST(test_faults) {
        PlanOp op = {.type = PLAN_OP_SYMLINK, .path = "/a", .source = "b"};
        _cleanup_(plan_freep) CratePlan *plan = make_plan(&op, 1);
        const Fault *fault = &faults[_i];
        uint16_t narrow = (uint16_t) fault->value;
        size_t size;
        _cleanup_(freep) uint8_t *wire = copy_wire(plan, &size);

        ck_assert_uint_eq(size, STRINGS + 8);
        ck_assert_int_eq(read_all(wire, size), 0);
        memcpy(wire + fault->offset,
               fault->size == 2 ? (const void *) &narrow : (const void *) &fault->value,
               fault->size);
        ck_assert_msg(read_all(wire, size) == PLAN_E_MALFORMED, "%s", fault->name);
}
END_TEST

/* An absent string has one form only, so that one plan has one digest. */
START_TEST(test_empty_string) {
        _cleanup_(plan_freep) CratePlan *plan = make_plan(&samples[PLAN_OP_USERNS_MAX], 1);
        size_t size;
        _cleanup_(freep) uint8_t *wire = copy_wire(plan, &size);
        _cleanup_(freep) uint8_t *longer = calloc(1, size + PLAN_ALIGN);

        ck_assert_ptr_nonnull(longer);
        memcpy(longer, wire, size);
        longer[IN_HEADER(size)] = (uint8_t) (size + PLAN_ALIGN - sizeof(PlanHeader));
        longer[IN_RECORD(path_size)] = 1;
        ck_assert_int_eq(read_all(longer, size + PLAN_ALIGN), PLAN_E_MALFORMED);
        longer[IN_RECORD(path_size)] = 0;
        longer[IN_RECORD(source_size)] = 1;
        ck_assert_int_eq(read_all(longer, size + PLAN_ALIGN), PLAN_E_MALFORMED);
}
END_TEST

START_TEST(test_too_large) {
        static uint8_t data[PLAN_SIZE_MAX + 1];
        PlanHeader header = {.magic = PLAN_MAGIC, .size = sizeof(data) - sizeof(header)};

        memcpy(data, &header, sizeof(header));
        ck_assert_int_eq(read_all(data, sizeof(data)), PLAN_E_MALFORMED);
        ck_assert_int_eq(read_all(data, 0), PLAN_E_MALFORMED);
}
END_TEST

/* --- memfds --- */

START_TEST(test_memfd) {
        _cleanup_(plan_freep) CratePlan *plan = make_plan(&samples[FIRST_OP], 5);
        _cleanup_(fd_closep) int fd = -EBADF;
        const void *data, *mapped;
        size_t size, mapped_size;

        data = plan_data(plan, &size);
        ck_assert_int_eq(plan_to_memfd(plan, &fd), 0);
        ck_assert_int_eq(plan_map(fd, &mapped, &mapped_size), 0);
        ck_assert_uint_eq(mapped_size, size);
        ck_assert_mem_eq(mapped, data, size);
        ck_assert_int_eq(munmap((void *) mapped, mapped_size), 0);
}
END_TEST

/* A broker that keeps a way to change a plan after it was checked must not get it accepted. */
START_TEST(test_unsealed_memfd) {
        static const int partial[] = {
                0,
                F_SEAL_SEAL,
                F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE,
                F_SEAL_SEAL | F_SEAL_GROW | F_SEAL_WRITE,
                F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_WRITE,
                F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW,
                F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE,
        };
        _cleanup_(plan_freep) CratePlan *plan = make_plan(&samples[FIRST_OP], 5);
        const void *data, *mapped;
        size_t size, mapped_size;

        data = plan_data(plan, &size);
        for (size_t i = 0; i < ELEMENTSOF(partial); i++) {
                _cleanup_(fd_closep) int fd = memfd_create("plan", MFD_ALLOW_SEALING);

                ck_assert_int_eq(write(fd, data, size), (ssize_t) size);
                ck_assert(partial[i] == 0 || fcntl(fd, F_ADD_SEALS, partial[i]) == 0);
                ck_assert_int_eq(plan_map(fd, &mapped, &mapped_size), -EPERM);
        }
}
END_TEST

START_TEST(test_no_memfd) {
        _cleanup_(fd_closep) int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
                                 large = -EBADF;
        _cleanup_(freep) char *data = calloc(1, PLAN_SIZE_MAX + 1);
        const void *mapped;
        size_t size;
        int pair[2];

        ck_assert_int_lt(plan_map(file, &mapped, &size), 0);
        ck_assert_int_eq(pipe(pair), 0);
        ck_assert_int_lt(plan_map(pair[0], &mapped, &size), 0);
        ck_assert_int_eq(plan_map(-1, &mapped, &size), -EBADF);
        ck_assert_int_eq(memfd_new_sealed("large", data, PLAN_SIZE_MAX + 1, &large), 0);
        ck_assert_int_eq(plan_map(large, &mapped, &size), -EFBIG);
}
END_TEST

/* --- digest --- */

static void digest_of(const PlanOp *op, char *ret_digest) {
        _cleanup_(plan_freep) CratePlan *plan = make_plan(op, 1);

        plan_digest((const CratePlan *const[]){plan}, 1, ret_digest);
}

START_TEST(test_digest_fields) {
        PlanOp base = {.type = PLAN_OP_FILE,
                       .path = "/a",
                       .mode = 0644,
                       .a = 1,
                       .b = 2,
                       .data = "text",
                       .data_size = 4};
        PlanOp variants[10];
        char digests[ELEMENTSOF(variants)][PLAN_DIGEST_SIZE];
        size_t n = 0;

        variants[n++] = base;
        variants[n] = base, variants[n++].path = "/b";
        variants[n] = base, variants[n++].mode = 0645;
        variants[n] = base, variants[n++].a = 2;
        variants[n] = base, variants[n++].b = 1;
        variants[n] = base, variants[n++].data = "tex\0";
        variants[n] = base, variants[n++].data_size = 3;
        variants[n++] = samples[PLAN_OP_BIND];
        variants[n] = samples[PLAN_OP_BIND], variants[n++].source = "/srv/root/us";
        variants[n] = samples[PLAN_OP_BIND], variants[n++].flags = PLAN_RDONLY;
        ck_assert_uint_eq(n, ELEMENTSOF(variants));

        for (size_t i = 0; i < n; i++) {
                digest_of(&variants[i], digests[i]);
                ck_assert_uint_eq(strlen(digests[i]), PLAN_DIGEST_SIZE - 1);
                for (size_t k = 0; k < i; k++)
                        ck_assert_msg(strcmp(digests[i], digests[k]) != 0, "%zu and %zu", k, i);
        }
}
END_TEST

/* The figure is SHA-256 of the bytes that plan-internal.h describes, made without this code. */
START_TEST(test_digest_known) {
        static const PlanOp ops[] = {
                {.type = PLAN_OP_BIND,
                 .path = "/usr",
                 .source = "/usr",
                 .flags = PLAN_RDONLY | PLAN_RECURSIVE | PLAN_DIRECTORY},
                {.type = PLAN_OP_TMPFS, .path = "/tmp", .a = 1073741824, .b = 100000},
        };
        _cleanup_(plan_freep) CratePlan *plan = make_plan(ops, 2), *same = make_plan(ops, 2);
        char digest[PLAN_DIGEST_SIZE], again[PLAN_DIGEST_SIZE];

        plan_digest((const CratePlan *const[]){plan}, 1, digest);
        plan_digest((const CratePlan *const[]){same}, 1, again);
        ck_assert_str_eq(digest, again);
        ck_assert_str_eq(digest,
                         "sha256:7642329382fe8a6612a26523278632897022ba3035ebc195bc210b5adadcc9cd");
}
END_TEST

START_TEST(test_digest_order) {
        _cleanup_(plan_freep) CratePlan *a = make_plan(&samples[PLAN_OP_DIR], 1);
        _cleanup_(plan_freep) CratePlan *b = make_plan(&samples[PLAN_OP_FILE], 1);
        _cleanup_(plan_freep) CratePlan *both = make_plan(&samples[PLAN_OP_DIR], 2);
        char digests[4][PLAN_DIGEST_SIZE];

        plan_digest((const CratePlan *const[]){a, b}, 2, digests[0]);
        plan_digest((const CratePlan *const[]){b, a}, 2, digests[1]);
        plan_digest((const CratePlan *const[]){both}, 1, digests[2]);
        plan_digest((const CratePlan *const[]){a}, 1, digests[3]);
        for (size_t i = 0; i < ELEMENTSOF(digests); i++)
                for (size_t k = 0; k < i; k++)
                        ck_assert_str_ne(digests[i], digests[k]);
}
END_TEST

/* --- print --- */

START_TEST(test_print) {
        size_t n = _PLAN_OP_MAX - FIRST_OP, n_lines = 0;
        _cleanup_(plan_freep) CratePlan *plan = make_plan(&samples[FIRST_OP], n);
        _cleanup_(freep) char *text = plan_text(plan);
        char *p = text;

        for (char *line; (line = strsep(&p, "\n")) && p; n_lines++) {
                static const char *const stages[] = {"tree", "late", "crate", "net"};
                const char *stage = stages[plan_op_stage(FIRST_OP + n_lines)];
                const char *name = plan_op_type_to_string(FIRST_OP + n_lines);

                ck_assert_msg(strncmp(line, stage, strlen(stage)) == 0, "%s", line);
                ck_assert_msg(strncmp(line + 6, name, strlen(name)) == 0, "%s", line);
        }
        ck_assert_uint_eq(n_lines, n);
}
END_TEST

static const struct {
        PlanOp op;
        const char *line;
} lines[] = {
        {{.type = PLAN_OP_DIR, .path = "/a", .mode = 0755}, "tree  dir            /a mode=0755"},
        {{.type = PLAN_OP_FILE, .path = "/a", .mode = 0644, .data = "abc", .data_size = 3},
         "tree  file           /a mode=0644 bytes=3"},
        {{.type = PLAN_OP_SYMLINK, .path = "/bin", .source = "usr/bin"},
         "tree  symlink        /bin -> usr/bin"},
        {{.type = PLAN_OP_BIND,
          .path = "/a",
          .source = "/b",
          .flags = PLAN_RDONLY | PLAN_NOEXEC | PLAN_OPTIONAL | PLAN_RECURSIVE | PLAN_DIRECTORY},
         "tree  bind           /a from /b ro noexec optional recursive directory"},
        {{.type = PLAN_OP_HOSTNAME, .source = "crate"}, "crate hostname       crate"},
        {{.type = PLAN_OP_LISTEN,
          .source = "198.18.0.1",
          .a = 53,
          .data = "dns",
          .data_size = 3,
          .flags = PLAN_DATAGRAM},
         "net   listen         198.18.0.1 port=53 for dns udp"},
        {{.type = PLAN_OP_LISTEN,
          .source = "fd00:ac::2",
          .a = 443,
          .data = "a\n",
          .data_size = 2,
          .flags = PLAN_OPTIONAL},
         "net   listen         fd00:ac::2 port=443 for a\\x0a optional"},
        {{.type = PLAN_OP_PROC, .path = "/proc", .flags = PLAN_SUBSET_PID},
         "crate proc           /proc pids-only"},
        {{.type = PLAN_OP_TMPFS, .path = "/tmp", .a = 4096, .b = UINT64_MAX},
         "crate tmpfs          /tmp bytes=4096 inodes=unlimited"},
        {{.type = PLAN_OP_RLIMIT, .a = RLIMIT_NOFILE, .b = 1024},
         "crate rlimit         nofile=1024"},
        {{.type = PLAN_OP_RLIMIT, .a = 99, .b = UINT64_MAX}, "crate rlimit         ?=unlimited"},
        {{.type = PLAN_OP_USERNS_MAX}, "crate userns-max     max=0"},
        {{.type = PLAN_OP_INOTIFY_MAX, .a = 16, .b = 65536},
         "crate inotify-max    instances=16 watches=65536"},
        {{.type = PLAN_OP_SECCOMP, .source = "strict", .data = filter, .data_size = sizeof(filter)},
         "crate seccomp        strict instructions=2"},
        /* Nothing in a path can end its line or speak to the terminal. */
        {{.type = PLAN_OP_DIR, .path = "/a\nb\x1b[2J\t\x7f\\n"},
         "tree  dir            /a\\x0ab\\x1b[2J\\x09\\x7f\\x5cn"},
        {{.type = PLAN_OP_DIR, .path = "/\xc3\xa9\xe2\x82\xac \xc2\x9b\xff\xe2\x82z"},
         "tree  dir            /\xc3\xa9\xe2\x82\xac \\xc2\\x9b\\xff\\xe2\\x82z"},
        {{.type = PLAN_OP_SYMLINK, .path = "/a", .source = "x\ntree  dir            /b"},
         "tree  symlink        /a -> x\\x0atree  dir            /b"},
};

START_TEST(test_print_lines) {
        _cleanup_(plan_freep) CratePlan *plan = make_plan(&lines[_i].op, 1);
        _cleanup_(freep) char *text = plan_text(plan);

        ck_assert_msg(text_has_line(text, lines[_i].line), "%s", text);
        ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
}
END_TEST

START_TEST(test_print_fails) {
        _cleanup_(plan_freep) CratePlan *plan = make_plan(&samples[FIRST_OP], 5);
        FILE *full = fopen("/dev/full", "we");

        ck_assert_ptr_nonnull(full);
        setbuf(full, NULL);
        ck_assert_int_eq(plan_print(plan, full), -EIO);
        fclose(full);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("plan");

        tcase_add_loop_test(tcase, test_round_trip, FIRST_OP, _PLAN_OP_MAX);
        tcase_add_test(tcase, test_all_types);
        tcase_add_test(tcase, test_empty_plan);
        tcase_add_loop_test(tcase, test_names, FIRST_OP, _PLAN_OP_MAX);
        tcase_add_test(tcase, test_no_names);
        tcase_add_loop_test(tcase, test_check_listen, 0, ELEMENTSOF(listens));
        tcase_add_test(tcase, test_check_listen_data);
        tcase_add_loop_test(tcase, test_check_parts, FIRST_OP, _PLAN_OP_MAX);
        tcase_add_test(tcase, test_check_types);
        tcase_add_loop_test(tcase, test_check_paths, 0, ELEMENTSOF(paths));
        tcase_add_test(tcase, test_check_long_paths);
        tcase_add_test(tcase, test_check_seccomp);
        tcase_add_test(tcase, test_add_refuses);
        tcase_add_test(tcase, test_maxima);
        tcase_add_test(tcase, test_truncation);
        tcase_add_test(tcase, test_mutation);
        tcase_add_loop_test(tcase, test_faults, 0, ELEMENTSOF(faults));
        tcase_add_test(tcase, test_empty_string);
        tcase_add_test(tcase, test_too_large);
        tcase_add_test(tcase, test_memfd);
        tcase_add_test(tcase, test_unsealed_memfd);
        tcase_add_test(tcase, test_no_memfd);
        tcase_add_test(tcase, test_digest_fields);
        tcase_add_test(tcase, test_digest_known);
        tcase_add_test(tcase, test_digest_order);
        tcase_add_test(tcase, test_print);
        tcase_add_loop_test(tcase, test_print_lines, 0, ELEMENTSOF(lines));
        tcase_add_test(tcase, test_print_fails);
        return suite_run("plan", tcase);
}
