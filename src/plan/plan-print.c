/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <string.h>
#include <sys/resource.h>

#include "basic/error.h"
#include "basic/utf8.h"
#include "plan/plan-internal.h"

static const char *const stage_names[] = {
        [PLAN_STAGE_TREE] = "tree",
        [PLAN_STAGE_LATE] = "late",
        [PLAN_STAGE_NET] = "net",
        [PLAN_STAGE_CRATE] = "crate",
};

static const struct {
        uint32_t flag;
        const char *name;
} flag_names[] = {
        {PLAN_RDONLY, "ro"},
        {PLAN_NOEXEC, "noexec"},
        {PLAN_OPTIONAL, "optional"},
        {PLAN_RECURSIVE, "recursive"},
        {PLAN_SUBSET_PID, "pids-only"},
        {PLAN_DIRECTORY, "directory"},
        {PLAN_DATAGRAM, "udp"},
};

static const struct {
        uint64_t resource;
        const char *name;
} rlimit_names[] = {
        {RLIMIT_CORE, "core"},         {RLIMIT_FSIZE, "fsize"}, {RLIMIT_NOFILE, "nofile"},
        {RLIMIT_MEMLOCK, "memlock"},   {RLIMIT_STACK, "stack"}, {RLIMIT_SIGPENDING, "sigpending"},
        {RLIMIT_MSGQUEUE, "msgqueue"}, {RLIMIT_NICE, "nice"},   {RLIMIT_RTPRIO, "rtprio"},
};

/* Whether these bytes, one character, can stand in a line on a terminal: the controls are those
 * below 0x20, 0x7f, and U+0080 to U+009F. */
static bool is_printable(const char *s, size_t size) {
        const unsigned char *c = (const unsigned char *) s;

        if (size == 1)
                return c[0] >= 0x20 && c[0] != 0x7f && c[0] != '\\';
        return size > 1 && !(c[0] == 0xc2 && c[1] < 0xa0);
}

/* Prints a path as it is, but for what would break the line or is no text. */
static void print_string(FILE *out, const char *s) {
        for (size_t left = strlen(s); left > 0;) {
                size_t n = utf8_sequence_size(s, left);

                if (is_printable(s, n))
                        (void) fwrite(s, 1, n, out);
                else
                        for (size_t i = 0; i < size_max(n, 1); i++)
                                fprintf(out, "\\x%02x", (unsigned char) s[i]);
                s += size_max(n, 1);
                left -= size_max(n, 1);
        }
}

static void print_amount(FILE *out, const char *label, uint64_t value) {
        if (value == UINT64_MAX)
                fprintf(out, " %s=unlimited", label);
        else
                fprintf(out, " %s=%" PRIu64, label, value);
}

static void print_purpose(FILE *out, const PlanOp *op) {
        char text[PLAN_PATH_MAX + 1];

        memcpy(text, op->data, op->data_size);
        text[op->data_size] = 0;
        fputs(" for ", out);
        print_string(out, text);
}

static void print_numbers(FILE *out, const PlanOp *op) {
        const char *name = "?";

        switch (op->type) {
        case PLAN_OP_TMPFS:
                print_amount(out, "bytes", op->a);
                print_amount(out, "inodes", op->b);
                break;
        case PLAN_OP_RLIMIT:
                for (size_t i = 0; i < ELEMENTSOF(rlimit_names); i++)
                        if (rlimit_names[i].resource == op->a)
                                name = rlimit_names[i].name;
                print_amount(out, name, op->b);
                break;
        case PLAN_OP_LISTEN:
                print_amount(out, "port", op->a);
                print_purpose(out, op);
                break;
        case PLAN_OP_USERNS_MAX:
                print_amount(out, "max", op->a);
                break;
        case PLAN_OP_INOTIFY_MAX:
                print_amount(out, "instances", op->a);
                print_amount(out, "watches", op->b);
                break;
        case PLAN_OP_SECCOMP:
                fprintf(out, " instructions=%zu", op->data_size / sizeof(struct sock_filter));
                break;
        case PLAN_OP_FILE:
                fprintf(out, " bytes=%zu", op->data_size);
                break;
        default:
                break;
        }
}

static void plan_op_print(const PlanOp *op, FILE *out) {
        fprintf(out, "%-5s %-14s", stage_names[plan_op_stage(op->type)],
                plan_op_type_to_string(op->type));
        if (*op->path) {
                fputc(' ', out);
                print_string(out, op->path);
        }
        if (*op->source) {
                fputs(op->type == PLAN_OP_SYMLINK ? " -> " : op->path[0] ? " from " : " ", out);
                print_string(out, op->source);
        }
        if (op->mode)
                fprintf(out, " mode=%04o", op->mode);
        print_numbers(out, op);
        for (size_t i = 0; i < ELEMENTSOF(flag_names); i++)
                if (op->flags & flag_names[i].flag)
                        fprintf(out, " %s", flag_names[i].name);
        fputc('\n', out);
}

int plan_print(const CratePlan *plan, FILE *out) {
        PlanReader reader;
        const void *data;
        size_t size;
        PlanOp op;
        int r;

        data = plan_data(plan, &size);
        r = plan_reader_init(&reader, data, size);
        if (r != 0)
                return error_fold(r);
        while ((r = plan_reader_next(&reader, &op)) == 0)
                plan_op_print(&op, out);
        return ferror(out) ? error_origin(-EIO) : 0;
}
