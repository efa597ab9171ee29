/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Text to statements: a statement is a line and those that go on with it, and is cut into words.
 * One with a fault in a word is left out, so that faults do not follow from each other.
 */

#include <string.h>

#include "basic/error.h"
#include "seccomp/parser.h"

static void statement_done(SeccompStatement *statement) {
        for (size_t i = 0; i < statement->n_words; i++)
                free(statement->words[i].s);
        free(statement->words);
        *statement = (SeccompStatement){};
}

static int statement_add_word(SeccompParser *parser, SeccompStatement *statement, const char *s,
                              size_t size, uint32_t line, uint32_t column) {
        SeccompWord place = {.line = line, .column = column};
        SeccompWord *word;
        int r;

        if (size > SECCOMP_WORD_SIZE_MAX)
                return seccomp_fault(parser, &place, "a word of more than %u bytes",
                                     SECCOMP_WORD_SIZE_MAX);
        for (size_t i = 0; i < size; i++)
                if (s[i] <= ' ' || s[i] > '~')
                        return seccomp_fault(parser, &place, "a byte that is not printable ASCII");

        r = seccomp_array_add(&statement->words, &statement->n_words, sizeof(SeccompWord));
        if (r < 0)
                return error_trace(r);
        word = &statement->words[statement->n_words - 1];
        *word = place;
        word->s = strndup(s, size);
        return word->s ? 0 : error_origin(-ENOMEM);
}

static bool is_blank(char c) {
        return c == ' ' || c == '\t';
}

static int statement_add_line(SeccompParser *parser, SeccompStatement *statement, const char *s,
                              size_t size, uint32_t line) {
        size_t i = 0;
        int r;

        while (i < size) {
                size_t begin;

                while (i < size && is_blank(s[i]))
                        i++;
                if (i == size || s[i] == '#')
                        break;
                begin = i;
                while (i < size && !is_blank(s[i]))
                        i++;
                r = statement_add_word(parser, statement, s + begin, i - begin, line,
                                       (uint32_t) begin + 1);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

/* Carries out what was gathered, unless a word of it was at fault, and begins anew. */
static int statement_finish(SeccompParser *parser, SeccompStatement *statement, size_t *n_faults,
                            SeccompStatementFn fn) {
        int r = 0;

        if (statement->n_words > 0 && parser->n_faults == *n_faults)
                r = fn(parser, statement);
        statement_done(statement);
        *n_faults = parser->n_faults;
        return error_trace(r);
}

int seccomp_parse_lines(SeccompParser *parser, const char *text, size_t size,
                        SeccompStatementFn fn) {
        _cleanup_(statement_done) SeccompStatement statement = {};
        size_t n_faults = parser->n_faults;
        uint32_t line = 1;
        int r;

        for (size_t i = 0; i < size; line++) {
                const char *end = memchr(text + i, '\n', size - i);
                size_t n = end ? (size_t) (end - (text + i)) : size - i;

                if (n > 0 && !is_blank(text[i])) {
                        r = statement_finish(parser, &statement, &n_faults, fn);
                        if (r < 0)
                                return error_trace(r);
                }
                r = statement_add_line(parser, &statement, text + i, n, line);
                if (r < 0)
                        return error_trace(r);
                i += n + 1;
        }
        return error_trace(statement_finish(parser, &statement, &n_faults, fn));
}
