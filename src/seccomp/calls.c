/* SPDX-License-Identifier: Apache-2.0 */

/* Names of system calls and of groups of them. */

#include <string.h>

#include "basic/error.h"
#include "basic/string-util.h"
#include "seccomp/parser.h"
#include "seccomp/words.h"

static int source_find_call(const SeccompSource *source, const char *name, size_t *ret_index) {
        for (size_t i = 0; i < source->n_calls; i++)
                if (string_equal(source->calls[i].name, name)) {
                        *ret_index = i;
                        return 1;
                }
        return 0;
}

/* Takes the number of NAME=NUMBER, and holds it against what libseccomp says. */
static int parse_call_number(SeccompParser *parser, const SeccompWord *word, const char *name,
                             const char *number, int nr[static _SECCOMP_ARCH_MAX]) {
        uint32_t value;

        if (seccomp_value_lookup(number, &value) != 0 || value > INT16_MAX)
                return seccomp_fault(parser, word, "'%s' is no system call number", number);

        if (seccomp_call_lookup(name, nr) != 0) {
                /* Since 5.1 new calls have one number for all architectures. */
                for (size_t i = 0; i < _SECCOMP_ARCH_MAX; i++)
                        nr[i] = (int) value;
                return 0;
        }
        for (size_t i = 0; i < _SECCOMP_ARCH_MAX; i++)
                if (nr[i] != (int) value)
                        return seccomp_fault(parser, word,
                                             "'%s' is number %i, not %s: leave the number out",
                                             name, nr[i], number);
        return 0;
}

/* A call by name: the index of its entry, which is made if need be. Nothing is written when there
 * is a fault. */
static int parse_call(SeccompParser *parser, const SeccompWord *word, size_t *ret_index) {
        _cleanup_(freep) char *name = NULL;
        size_t n_faults = parser->n_faults;
        const char *equal = strchr(word->s, '=');
        int nr[_SECCOMP_ARCH_MAX];
        SeccompSource *source = parser->source;
        int r;

        name = strndup(word->s, equal ? (size_t) (equal - word->s) : strlen(word->s));
        if (!name)
                return error_origin(-ENOMEM);
        if (source_find_call(source, name, ret_index) > 0)
                return 0;

        if (equal)
                r = parse_call_number(parser, word, name, equal + 1, nr);
        else if (seccomp_call_lookup(name, nr) != 0)
                r = seccomp_fault(
                        parser, word,
                        "unknown system call '%s' (write '%s=NUMBER' for one that is newer than "
                        "libseccomp)",
                        name, name);
        else
                r = 0;
        if (r < 0)
                return error_trace(r);
        if (parser->n_faults > n_faults)
                return 0;

        r = seccomp_array_add(&source->calls, &source->n_calls, sizeof(SeccompCall));
        if (r < 0)
                return error_trace(r);
        source->calls[source->n_calls - 1].name = TAKE_PTR(name);
        memcpy(source->calls[source->n_calls - 1].nr, nr, sizeof(nr));
        *ret_index = source->n_calls - 1;
        return 0;
}

int seccomp_parse_calls(SeccompParser *parser, const SeccompWord *words, size_t n_words,
                        size_t **calls, size_t *n_calls) {
        int r;

        for (size_t i = 0; i < n_words; i++) {
                const SeccompGroup *group = NULL;
                size_t n_faults = parser->n_faults, call = 0, n;

                if (words[i].s[0] == '@') {
                        group = seccomp_source_find_group(parser->source, words[i].s + 1);
                        r = group ? 0
                                  : seccomp_fault(parser, &words[i], "unknown group '%s'",
                                                  words[i].s);
                } else
                        r = parse_call(parser, &words[i], &call);
                if (r < 0)
                        return error_trace(r);
                if (parser->n_faults > n_faults)
                        continue;

                n = group ? group->n_calls : 1;
                for (size_t j = 0; j < n; j++) {
                        r = seccomp_array_add(calls, n_calls, sizeof(size_t));
                        if (r < 0)
                                return error_trace(r);
                        (*calls)[*n_calls - 1] = group ? group->calls[j] : call;
                }
        }
        return 0;
}
