/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The program that is written:
 *
 *      foreign architecture                     kill the process
 *      number above @newest                     ENOSYS; x32 calls have bit 30 set and so are above
 *      binary search over ranges of numbers     neighbours that are treated alike are one range
 *      for a call with conditions: its rules, each a chain of comparisons
 *
 * It is written from its end: a BPF jump goes forward only and has 8 bits, so a place must be known
 * before the jump to it, and where it is too far, a nearer copy of it (for an answer) or a longer
 * jump to it is put in between.
 */

#include "seccomp/emit.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>

#include "basic/error.h"

#define NR_MAX 4096U /* numbers run from 0 to @newest, which is less */
#define ANSWERS_MAX 256U
#define JUMP_MAX 255U

/* An instruction's distance from the end of the program, counted from 1. 0 is none. */
typedef size_t Place;

typedef struct Emitter {
        const SeccompSource *source;
        SeccompArch arch;
        struct sock_filter code[BPF_MAXINSNS]; /* backwards: code[0] is the last instruction */
        size_t n_code;
        bool too_long;
        struct {
                uint32_t action;
                Place place;
        } answers[ANSWERS_MAX]; /* the newest return instruction of each action */
        size_t n_answers;
        Place *blocks;                    /* for each call with rules */
        const SeccompCall *calls[NR_MAX]; /* by number; NULL: @otherwise */
        Place targets[NR_MAX];            /* a block, or 0: then the action decides */
        uint32_t actions[NR_MAX];
} Emitter;

static const uint32_t audit_arch[_SECCOMP_ARCH_MAX] = {
        [SECCOMP_ARCH_X86_64] = AUDIT_ARCH_X86_64,
        [SECCOMP_ARCH_AARCH64] = AUDIT_ARCH_AARCH64,
};

static Place emit(Emitter *e, uint16_t code, uint32_t k, size_t jt, size_t jf) {
        if (e->n_code == BPF_MAXINSNS) {
                e->too_long = true;
                return e->n_code;
        }
        e->code[e->n_code] = (struct sock_filter){
                .code = code,
                .jt = (uint8_t) jt,
                .jf = (uint8_t) jf,
                .k = k,
        };
        return ++e->n_code;
}

/* How far a jump from the next but extra instructions to place is. */
static size_t distance(const Emitter *e, Place place, size_t extra) {
        return e->n_code + extra - place;
}

/* A return of this action that the next few instructions can reach. */
static Place emit_answer(Emitter *e, uint32_t action) {
        size_t i;

        for (i = 0; i < e->n_answers; i++)
                if (e->answers[i].action == action)
                        break;
        /* Two instructions of slack: emit_jump() may put long jumps before its own. */
        if (i < e->n_answers && distance(e, e->answers[i].place, 2) <= JUMP_MAX)
                return e->answers[i].place;
        if (i == ANSWERS_MAX) {
                e->too_long = true;
                return e->n_code;
        }

        if (i == e->n_answers)
                e->n_answers++;
        e->answers[i].action = action;
        e->answers[i].place = emit(e, BPF_RET | BPF_K, action, 0, 0);
        return e->answers[i].place;
}

/* A conditional jump; either way may be any distance off. */
static Place emit_jump(Emitter *e, uint16_t test, uint32_t k, Place yes, Place no) {
        if (distance(e, yes, 1) > JUMP_MAX)
                yes = emit(e, BPF_JMP | BPF_JA, (uint32_t) distance(e, yes, 0), 0, 0);
        if (distance(e, no, 0) > JUMP_MAX)
                no = emit(e, BPF_JMP | BPF_JA, (uint32_t) distance(e, no, 0), 0, 0);

        return emit(e, (uint16_t) (BPF_JMP | BPF_K | test), k, distance(e, yes, 0),
                    distance(e, no, 0));
}

/* --- the rules of a call --- */

static Place emit_cond(Emitter *e, const SeccompCond *cond, Place yes, Place no) {
        /* Both architectures are little-endian: the low half comes first. */
        uint32_t offset =
                (uint32_t) (offsetof(struct seccomp_data, args) + cond->arg * sizeof(uint64_t));
        uint16_t test = cond->test == SECCOMP_TEST_HAS ? BPF_JSET : BPF_JEQ;
        Place hit = cond->test == SECCOMP_TEST_NOT ? no : yes;
        Place next = cond->test == SECCOMP_TEST_NOT ? yes : no;

        for (size_t i = cond->n_values; i > 0; i--)
                next = emit_jump(e, test, cond->values[i - 1], hit, next);
        if (cond->mask != UINT32_MAX)
                next = emit(e, BPF_ALU | BPF_AND | BPF_K, cond->mask, 0, 0);

        /* What next names is the instruction right behind this one: it was just written. */
        return emit(e, BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
}

static Place emit_rules(Emitter *e, const SeccompCall *call) {
        uint32_t last = e->source->otherwise;
        size_t n = call->n_rules;
        Place next;

        if (call->rules[n - 1].n_conds == 0)
                last = call->rules[--n].action;

        next = emit_answer(e, last);
        for (; n > 0; n--) {
                const SeccompRule *rule = &call->rules[n - 1];
                Place yes = emit_answer(e, rule->action);

                for (size_t i = rule->n_conds; i > 0; i--)
                        yes = emit_cond(e, &rule->conds[i - 1], yes, next);
                next = yes;
        }
        return next;
}

static bool rules_equal(const SeccompCall *a, const SeccompCall *b) {
        if (a->n_rules != b->n_rules)
                return false;
        for (size_t i = 0; i < a->n_rules; i++)
                if (a->rules[i].action != b->rules[i].action ||
                    a->rules[i].n_conds != b->rules[i].n_conds ||
                    memcmp(a->rules[i].conds, b->rules[i].conds, sizeof(a->rules[i].conds)) != 0)
                        return false;
        return true;
}

/* Writes the conditional part of every call that has one, once for calls with the same rules. */
static void emit_blocks(Emitter *e) {
        const SeccompSource *source = e->source;

        for (size_t i = 0; i < source->n_calls; i++) {
                const SeccompCall *call = &source->calls[i];
                int nr = call->nr[e->arch];

                if (nr == SECCOMP_NR_NONE || nr > source->newest || call->n_rules == 0)
                        continue;
                e->calls[nr] = call;
                if (call->rules[0].n_conds == 0)
                        continue;
                for (size_t j = 0; j < i && e->blocks[i] == 0; j++)
                        if (e->blocks[j] != 0 && rules_equal(call, &source->calls[j]))
                                e->blocks[i] = e->blocks[j];
                if (e->blocks[i] == 0)
                        e->blocks[i] = emit_rules(e, call);
        }
}

/* --- the search --- */

static void target_numbers(Emitter *e) {
        for (size_t nr = 0; nr <= (size_t) e->source->newest; nr++) {
                const SeccompCall *call = e->calls[nr];

                e->actions[nr] = e->source->otherwise;
                if (call && call->rules[0].n_conds == 0)
                        e->actions[nr] = call->rules[0].action;
                else if (call) {
                        e->targets[nr] = e->blocks[call - e->source->calls];
                        e->actions[nr] = 0;
                }
        }
}

static size_t find_ranges(const Emitter *e, size_t starts[static NR_MAX]) {
        size_t n = 0;

        for (size_t nr = 0; nr <= (size_t) e->source->newest; nr++)
                if (nr == 0 || e->targets[nr] != e->targets[nr - 1] ||
                    e->actions[nr] != e->actions[nr - 1])
                        starts[n++] = nr;
        return n;
}

static Place emit_search(Emitter *e, const size_t *starts, size_t n) {
        Place low, high = 0;

        if (n == 1)
                return e->targets[starts[0]] != 0 ? e->targets[starts[0]]
                                                  : emit_answer(e, e->actions[starts[0]]);

        /* A single range writes little or nothing: last, its answer is close by. */
        if (n > 2)
                high = emit_search(e, starts + n / 2, n - n / 2);
        low = emit_search(e, starts, n / 2);
        if (n == 2)
                high = emit_search(e, starts + 1, 1);
        return emit_jump(e, BPF_JGE, (uint32_t) starts[n / 2], high, low);
}

static void emit_program(Emitter *e) {
        _cleanup_(freep) size_t *starts = NULL;
        Place search, enosys, kill;

        starts = calloc(NR_MAX, sizeof(size_t));
        if (!starts) {
                e->too_long = true;
                return;
        }

        emit_blocks(e);
        target_numbers(e);
        search = emit_search(e, starts, find_ranges(e, starts));

        enosys = emit_answer(e, SECCOMP_RET_ERRNO | ENOSYS);
        search = emit_jump(e, BPF_JGT, (uint32_t) e->source->newest, enosys, search);
        search = emit(e, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
        kill = emit_answer(e, SECCOMP_RET_KILL_PROCESS);
        (void) emit_jump(e, BPF_JEQ, audit_arch[e->arch], search, kill);
        (void) emit(e, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
}

int seccomp_emit(const SeccompSource *source, SeccompArch arch, struct sock_filter **ret_filter,
                 size_t *ret_n_filter) {
        _cleanup_(freep) struct sock_filter *filter = NULL;
        _cleanup_(freep) Place *blocks = NULL;
        _cleanup_(freep) Emitter *e = NULL;

        e = calloc(1, sizeof(Emitter));
        blocks = calloc(source->n_calls + 1, sizeof(Place));
        if (!e || !blocks)
                return error_origin(-ENOMEM);

        e->source = source;
        e->arch = arch;
        e->blocks = blocks;
        emit_program(e);
        if (e->too_long)
                return SECCOMP_EMIT_E_TOO_LONG;

        filter = calloc(e->n_code, sizeof(struct sock_filter));
        if (!filter)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < e->n_code; i++)
                filter[i] = e->code[e->n_code - 1 - i];

        *ret_filter = TAKE_PTR(filter);
        *ret_n_filter = e->n_code;
        return 0;
}
