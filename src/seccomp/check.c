/* SPDX-License-Identifier: Apache-2.0 */

/* What can only be said about a profile as a whole. */

#include <errno.h>
#include <linux/seccomp.h>

#include "basic/error.h"
#include "seccomp/parser.h"

static int check_call(SeccompParser *parser, const SeccompCall *call) {
        const SeccompSource *source = parser->source;

        for (size_t i = 0; i < call->n_rules; i++) {
                const SeccompRule *rule = &call->rules[i];
                SeccompWord place = {.line = rule->line, .column = 1};
                int newest = 0, r = 0;

                for (size_t j = 0; j < _SECCOMP_ARCH_MAX; j++)
                        newest = call->nr[j] > newest ? call->nr[j] : newest;
                parser->file = rule->file;
                if (newest > source->newest && rule->action != (SECCOMP_RET_ERRNO | ENOSYS))
                        r = seccomp_fault(parser, &place,
                                          "'%s' is number %i, and above @newest %i all is "
                                          "ENOSYS",
                                          call->name, newest, source->newest);
                else if (i == 0 && rule->n_conds == 0 && !call->late &&
                         rule->action == source->otherwise)
                        r = seccomp_fault(parser, &place,
                                          "no rule needed: '%s' gets this by @otherwise",
                                          call->name);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

/* Two names of one call would hide each other's rules. */
static int check_aliases(SeccompParser *parser, size_t index) {
        const SeccompSource *source = parser->source;
        const SeccompCall *call = &source->calls[index];
        SeccompWord place = {.line = call->n_rules > 0 ? call->rules[0].line : 0, .column = 1};
        int r;

        for (size_t i = 0; i < index; i++)
                for (size_t j = 0; j < _SECCOMP_ARCH_MAX; j++) {
                        if (call->nr[j] == SECCOMP_NR_NONE || call->n_rules == 0 ||
                            source->calls[i].n_rules == 0 || call->nr[j] != source->calls[i].nr[j])
                                continue;
                        parser->file = call->rules[0].file;
                        r = seccomp_fault(parser, &place, "'%s' and '%s' are one system call",
                                          call->name, source->calls[i].name);
                        if (r < 0)
                                return error_trace(r);
                        break;
                }
        return 0;
}

int seccomp_check_source(SeccompParser *parser) {
        const char *missing = !parser->source->description ? "@description"
                              : !parser->has_otherwise     ? "@otherwise"
                              : !parser->has_newest        ? "@newest"
                                                           : NULL;
        int r;

        parser->file = parser->source->files[0];
        if (missing)
                return seccomp_fault(parser, &(SeccompWord){}, "has no %s", missing);

        for (size_t i = 0; i < parser->source->n_calls; i++) {
                r = check_call(parser, &parser->source->calls[i]);
                if (r >= 0)
                        r = check_aliases(parser, i);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}
