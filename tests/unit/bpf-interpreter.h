/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Runs a seccomp filter as the kernel would, without the kernel. */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* False if the program is not one that the kernel would take, or leaves its own end. */
static inline bool bpf_run(const struct sock_filter *code, size_t n_code,
                           const struct seccomp_data *data, uint32_t *ret_action) {
        uint32_t a = 0;

        for (size_t pc = 0; pc < n_code; pc++) {
                const struct sock_filter *op = &code[pc];
                bool yes;

                switch (op->code) {
                case BPF_LD | BPF_W | BPF_ABS:
                        if (op->k % sizeof(a) != 0 || op->k > sizeof(*data) - sizeof(a))
                                return false;
                        memcpy(&a, (const uint8_t *) data + op->k, sizeof(a));
                        continue;
                case BPF_ALU | BPF_AND | BPF_K:
                        a &= op->k;
                        continue;
                case BPF_JMP | BPF_JA:
                        pc += op->k;
                        continue;
                case BPF_JMP | BPF_JEQ | BPF_K:
                        yes = a == op->k;
                        break;
                case BPF_JMP | BPF_JGT | BPF_K:
                        yes = a > op->k;
                        break;
                case BPF_JMP | BPF_JGE | BPF_K:
                        yes = a >= op->k;
                        break;
                case BPF_JMP | BPF_JSET | BPF_K:
                        yes = (a & op->k) != 0;
                        break;
                case BPF_RET | BPF_K:
                        *ret_action = op->k;
                        return true;
                default:
                        return false;
                }
                pc += yes ? op->jt : op->jf;
        }
        return false;
}
