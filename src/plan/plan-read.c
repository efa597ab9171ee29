/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reading a plan without heap. The launcher and init use this on bytes that a broker may have made
 * up, so a plan is checked from end to end before its first operation is carried out.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <string.h>

#include "basic/error.h"
#include "basic/memfd-util.h"
#include "plan/plan-internal.h"

/* clang-format off */
static const PlanOpInfo op_infos[_PLAN_OP_MAX] = {
        [PLAN_OP_DIR]            = { "dir",            PLAN_STAGE_TREE,  0, true },
        [PLAN_OP_FILE]           = { "file",           PLAN_STAGE_TREE,  0, true, .may_have_data = true },
        [PLAN_OP_SYMLINK]        = { "symlink",        PLAN_STAGE_TREE,  0, true, true },
        [PLAN_OP_BIND]           = { "bind",           PLAN_STAGE_TREE,
                                     PLAN_RDONLY | PLAN_NOEXEC | PLAN_OPTIONAL | PLAN_RECURSIVE | PLAN_DIRECTORY, true, true },
        [PLAN_OP_DEVICE]         = { "device",         PLAN_STAGE_TREE,  0, true },
        [PLAN_OP_HOST_PROC]      = { "host-proc",      PLAN_STAGE_TREE,  0, true },
        [PLAN_OP_HIDE]           = { "hide",           PLAN_STAGE_TREE,  PLAN_DIRECTORY | PLAN_OPTIONAL, true },
        [PLAN_OP_LATE_BIND]      = { "late-bind",      PLAN_STAGE_LATE,
                                     PLAN_RDONLY | PLAN_NOEXEC | PLAN_OPTIONAL | PLAN_RECURSIVE | PLAN_DIRECTORY, true, true },
        [PLAN_OP_LATE_HIDE]      = { "late-hide",      PLAN_STAGE_LATE,  PLAN_DIRECTORY | PLAN_OPTIONAL, true },
        [PLAN_OP_LATE_COVER]     = { "late-cover",     PLAN_STAGE_LATE,  0, true, true },
        [PLAN_OP_LATE_PRIVATE]   = { "late-private",   PLAN_STAGE_LATE,  0, true },
        [PLAN_OP_LISTEN]         = { "listen",         PLAN_STAGE_NET,   PLAN_DATAGRAM | PLAN_OPTIONAL, false, true,
                                     .may_have_data = true },
        [PLAN_OP_HOSTNAME]       = { "hostname",       PLAN_STAGE_CRATE, 0, false, true },
        [PLAN_OP_PROC]           = { "proc",           PLAN_STAGE_CRATE, PLAN_SUBSET_PID, true },
        [PLAN_OP_PROC_MASK]      = { "proc-mask",      PLAN_STAGE_CRATE, PLAN_DIRECTORY, true },
        [PLAN_OP_PROC_RDONLY]    = { "proc-rdonly",    PLAN_STAGE_CRATE, 0, true },
        [PLAN_OP_TMPFS]          = { "tmpfs",          PLAN_STAGE_CRATE, 0, true },
        [PLAN_OP_PRIVATE]        = { "private",        PLAN_STAGE_CRATE, PLAN_NOEXEC, true },
        [PLAN_OP_MOUNTPOINT]     = { "mountpoint",     PLAN_STAGE_CRATE, PLAN_DIRECTORY, true },
        [PLAN_OP_DEVPTS]         = { "devpts",         PLAN_STAGE_CRATE, 0, true },
        [PLAN_OP_MQUEUE]         = { "mqueue",         PLAN_STAGE_CRATE, 0, true },
        [PLAN_OP_RLIMIT]         = { "rlimit",         PLAN_STAGE_CRATE, 0, false },
        [PLAN_OP_USERNS_MAX]     = { "userns-max",     PLAN_STAGE_CRATE, 0, false },
        [PLAN_OP_INOTIFY_MAX]    = { "inotify-max",    PLAN_STAGE_CRATE, 0, false },
        [PLAN_OP_LANDLOCK_PATH]  = { "landlock-path",  PLAN_STAGE_CRATE, PLAN_RDONLY, true },
        [PLAN_OP_LANDLOCK_SCOPE] = { "landlock-scope", PLAN_STAGE_CRATE, 0, false },
        [PLAN_OP_SECCOMP]        = { "seccomp",        PLAN_STAGE_CRATE, 0, false, true, true },
};
/* clang-format on */

const PlanOpInfo *plan_op_info(PlanOpType type) {
        if (type <= _PLAN_OP_INVALID || type >= _PLAN_OP_MAX)
                return NULL;
        return &op_infos[type];
}

const char *plan_op_type_to_string(PlanOpType type) {
        const PlanOpInfo *info = plan_op_info(type);

        return info ? info->name : NULL;
}

PlanStage plan_op_stage(PlanOpType type) {
        const PlanOpInfo *info = plan_op_info(type);

        return info ? info->stage : PLAN_STAGE_CRATE;
}

/* Absolute, no empty, "." or ".." component, no trailing slash; "/" itself is allowed. */
static bool path_is_normal(const char *path) {
        const char *p = path;

        if (*p != '/' || strlen(path) > PLAN_PATH_MAX)
                return false;
        if (!p[1])
                return true;

        while (*p == '/') {
                size_t n = strcspn(++p, "/");

                if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
                        return false;
                p += n;
        }
        return true;
}

/* One of those that are local in every crate, and nothing else of the crate's. */
static bool address_is_synthetic(const char *s) {
        uint8_t address[16], net[16];

        if (inet_pton(AF_INET, s, address) == 1)
                return inet_pton(AF_INET, PLAN_NET4, net) == 1 && address[0] == net[0] &&
                       (address[1] & 0xfe) == net[1];
        return inet_pton(AF_INET6, s, address) == 1 && inet_pton(AF_INET6, PLAN_NET6, net) == 1 &&
               memcmp(address, net, PLAN_NET6_PREFIX / 8) == 0;
}

static bool seccomp_data_is_sound(size_t size) {
        return size > 0 && size % sizeof(struct sock_filter) == 0 &&
               size / sizeof(struct sock_filter) <= BPF_MAXINSNS;
}

int plan_op_check(const PlanOp *op) {
        const PlanOpInfo *info = plan_op_info(op->type);

        if (!info || (op->flags & ~info->flags) != 0 || op->mode > 07777)
                return PLAN_E_MALFORMED;
        if (info->has_path ? !path_is_normal(op->path) : *op->path != 0)
                return PLAN_E_MALFORMED;
        if (info->has_source ? (*op->source == 0 || strlen(op->source) > PLAN_PATH_MAX)
                             : *op->source != 0)
                return PLAN_E_MALFORMED;
        if (!info->has_data && !info->may_have_data && op->data_size != 0)
                return PLAN_E_MALFORMED;

        switch (op->type) {
        case PLAN_OP_BIND:
        case PLAN_OP_LATE_BIND:
        case PLAN_OP_LATE_COVER:
                return path_is_normal(op->source) ? 0 : PLAN_E_MALFORMED;
        case PLAN_OP_LISTEN:
                return address_is_synthetic(op->source) && op->a >= 1 && op->a <= UINT16_MAX &&
                                       op->data_size <= PLAN_PATH_MAX
                               ? 0
                               : PLAN_E_MALFORMED;
        case PLAN_OP_SECCOMP:
                return seccomp_data_is_sound(op->data_size) ? 0 : PLAN_E_MALFORMED;
        default:
                return 0;
        }
}

/* A string of that size at p, NUL-terminated and without another NUL; "" for size 0, which is the
 * only form that it has. */
static const char *record_string(const uint8_t *p, uint32_t size) {
        if (size == 0)
                return "";
        if (size == 1 || memchr(p, 0, size) != p + size - 1)
                return NULL;
        return (const char *) p;
}

static size_t align_up(size_t n) {
        return (n + PLAN_ALIGN - 1) & ~(size_t) (PLAN_ALIGN - 1);
}

int plan_reader_next(PlanReader *reader, PlanOp *ret_op) {
        PlanRecord record;
        const uint8_t *p;
        size_t left, size;
        PlanOp op;

        if (reader->i_op == reader->n_ops)
                return reader->position == reader->size ? PLAN_E_END : PLAN_E_MALFORMED;

        left = reader->size - reader->position;
        if (left < sizeof(record))
                return PLAN_E_MALFORMED;
        p = reader->data + reader->position;
        memcpy(&record, p, sizeof(record));
        p += sizeof(record);
        left -= sizeof(record);

        if (record.reserved != 0 || record.path_size > PLAN_PATH_MAX + 1 ||
            record.source_size > PLAN_PATH_MAX + 1 || record.data_size > PLAN_SIZE_MAX)
                return PLAN_E_MALFORMED;
        size = align_up((size_t) record.path_size + record.source_size + record.data_size);
        if (size > left)
                return PLAN_E_MALFORMED;

        op = (PlanOp){
                .type = (PlanOpType) record.type,
                .flags = record.flags,
                .mode = record.mode,
                .a = record.a,
                .b = record.b,
                .path = record_string(p, record.path_size),
                .source = record_string(p + record.path_size, record.source_size),
                .data = p + record.path_size + record.source_size,
                .data_size = record.data_size,
        };
        if (!op.path || !op.source || plan_op_check(&op) != 0)
                return PLAN_E_MALFORMED;

        reader->position += sizeof(record) + size;
        reader->i_op++;
        *ret_op = op;
        return 0;
}

int plan_reader_init(PlanReader *reader, const void *data, size_t size) {
        PlanHeader header;
        PlanReader scan;
        PlanOp op;
        int r;

        if (size < sizeof(header) || size > PLAN_SIZE_MAX)
                return PLAN_E_MALFORMED;
        memcpy(&header, data, sizeof(header));
        if (header.magic != PLAN_MAGIC || header.reserved != 0 || header.n_ops > PLAN_OPS_MAX ||
            header.size != size - sizeof(header))
                return PLAN_E_MALFORMED;

        scan = (PlanReader){
                .data = (const uint8_t *) data + sizeof(header),
                .size = header.size,
                .n_ops = header.n_ops,
        };
        *reader = scan;
        do
                r = plan_reader_next(&scan, &op);
        while (r == 0);
        return r == PLAN_E_END ? 0 : PLAN_E_MALFORMED;
}

int plan_map(int memfd, const void **ret_data, size_t *ret_size) {
        return memfd_map_sealed(memfd, PLAN_SIZE_MAX, ret_data, ret_size);
}
