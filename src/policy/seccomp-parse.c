/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Text to rules. The text is cut into statements (a line and those that go on with it), a statement
 * into words, and a table says what each first word means. A statement that is at fault is left out
 * and reading goes on, so that all faults are told at once; a source is only handed out when there
 * were none.
 */

#include "policy/seccomp-parse.h"

#include <linux/seccomp.h>
#include <string.h>

#include "basic/error.h"
#include "basic/string-util.h"
#include "policy/seccomp-words.h"

#define INCLUDE_DEPTH_MAX 8U
#define TEXT_SIZE_MAX (1U << 20)
#define WORD_SIZE_MAX 255U

typedef struct Word {
        char *s;
        uint32_t line, column;
} Word;

typedef struct Statement {
        Word *words;
        size_t n_words;
} Statement;

typedef struct Parser Parser;
struct Parser {
        SeccompSource *source;
        SeccompLoad load;
        void *userdata;
        DiagList *diags;
        size_t n_faults;
        const char *file; /* owned by source->files */
        unsigned depth;
        const char *files_open[INCLUDE_DEPTH_MAX]; /* to see a file that includes itself */
        bool has_otherwise, has_newest;
};

SeccompSource *seccomp_source_free(SeccompSource *source) {
        if (!source)
                return NULL;

        for (size_t i = 0; i < source->n_calls; i++) {
                free(source->calls[i].name);
                free(source->calls[i].rules);
        }
        for (size_t i = 0; i < source->n_groups; i++) {
                free(source->groups[i].name);
                free(source->groups[i].calls);
        }
        for (size_t i = 0; i < source->n_files; i++)
                free(source->files[i]);
        free(source->calls);
        free(source->groups);
        free(source->files);
        free(source->description);
        free(source);
        return NULL;
}

static void statement_done(Statement *statement) {
        for (size_t i = 0; i < statement->n_words; i++)
                free(statement->words[i].s);
        free(statement->words);
        *statement = (Statement){};
}

/* Grows an array by one zeroed element and counts it. */
static int array_add(void *array, size_t *n, size_t size) {
        void **items = array;
        void *p;

        p = reallocarray(*items, *n + 1, size);
        if (!p)
                return error_origin(-ENOMEM);
        *items = p;
        memset((char *) p + *n * size, 0, size);
        (*n)++;
        return 0;
}

#define fault(parser, word, ...)                                                                   \
        ((parser)->n_faults++, diag_add((parser)->diags, (parser)->file, (word)->line,             \
                                        (word)->column, NULL, __VA_ARGS__))

/* --- calls and groups --- */

static int source_find_call(const SeccompSource *source, const char *name, size_t *ret_index) {
        for (size_t i = 0; i < source->n_calls; i++)
                if (string_equal(source->calls[i].name, name)) {
                        *ret_index = i;
                        return 1;
                }
        return 0;
}

/* Takes the number of NAME=NUMBER, and holds it against what libseccomp says. */
static int parse_call_number(Parser *parser, const Word *word, const char *name, const char *number,
                             int nr[static _SECCOMP_ARCH_MAX]) {
        uint32_t value;

        if (seccomp_value_lookup(number, &value) != 0 || value > INT16_MAX)
                return fault(parser, word, "'%s' is no system call number", number);

        if (seccomp_call_lookup(name, nr) != 0) {
                /* Since 5.1 new calls have one number for all architectures. */
                for (size_t i = 0; i < _SECCOMP_ARCH_MAX; i++)
                        nr[i] = (int) value;
                return 0;
        }
        for (size_t i = 0; i < _SECCOMP_ARCH_MAX; i++)
                if (nr[i] != (int) value)
                        return fault(parser, word,
                                     "'%s' is number %i, not %s: leave the number out", name, nr[i],
                                     number);
        return 0;
}

/* A call by name: the index of its entry, which is made if need be. Nothing is written when there
 * is a fault. */
static int parse_call(Parser *parser, const Word *word, size_t *ret_index) {
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
                r = fault(parser, word,
                          "unknown system call '%s' (write '%s=NUMBER' for one that is newer than "
                          "libseccomp)",
                          name, name);
        else
                r = 0;
        if (r < 0)
                return error_trace(r);
        if (parser->n_faults > n_faults)
                return 0;

        r = array_add(&source->calls, &source->n_calls, sizeof(SeccompCall));
        if (r < 0)
                return error_trace(r);
        source->calls[source->n_calls - 1].name = TAKE_PTR(name);
        memcpy(source->calls[source->n_calls - 1].nr, nr, sizeof(nr));
        *ret_index = source->n_calls - 1;
        return 0;
}

static const SeccompGroup *source_find_group(const SeccompSource *source, const char *name) {
        for (size_t i = 0; i < source->n_groups; i++)
                if (string_equal(source->groups[i].name, name))
                        return &source->groups[i];
        return NULL;
}

/* The calls that words name, groups resolved, appended to a list. */
static int parse_calls(Parser *parser, const Word *words, size_t n_words, size_t **calls,
                       size_t *n_calls) {
        int r;

        for (size_t i = 0; i < n_words; i++) {
                const SeccompGroup *group = NULL;
                size_t n_faults = parser->n_faults, call = 0, n;

                if (words[i].s[0] == '@') {
                        group = source_find_group(parser->source, words[i].s + 1);
                        r = group ? 0 : fault(parser, &words[i], "unknown group '%s'", words[i].s);
                } else
                        r = parse_call(parser, &words[i], &call);
                if (r < 0)
                        return error_trace(r);
                if (parser->n_faults > n_faults)
                        continue;

                n = group ? group->n_calls : 1;
                for (size_t j = 0; j < n; j++) {
                        r = array_add(calls, n_calls, sizeof(size_t));
                        if (r < 0)
                                return error_trace(r);
                        (*calls)[*n_calls - 1] = group ? group->calls[j] : call;
                }
        }
        return 0;
}

/* --- conditions --- */

static int parse_value(Parser *parser, const Word *word, const char *s, size_t size,
                       uint32_t *ret_value) {
        uint32_t sum = 0;

        for (;;) {
                const char *bar = memchr(s, '|', size);
                size_t n = bar ? (size_t) (bar - s) : size;
                char item[WORD_SIZE_MAX + 1];
                uint32_t value;

                memcpy(item, s, n);
                item[n] = 0;
                if (seccomp_value_lookup(item, &value) != 0)
                        return fault(parser, word,
                                     "'%s' is neither a known constant nor a number of 32 bits",
                                     item);
                sum |= value;
                if (!bar)
                        break;
                s += n + 1;
                size -= n + 1;
        }

        *ret_value = sum;
        return 0;
}

static int parse_values(Parser *parser, const Word *word, SeccompCond *cond) {
        const char *s = word->s;
        int r;

        for (;;) {
                size_t n = strcspn(s, ",");

                if (cond->n_values == SECCOMP_VALUES_MAX)
                        return fault(parser, word, "more than %u values in one condition",
                                     SECCOMP_VALUES_MAX);
                r = parse_value(parser, word, s, n, &cond->values[cond->n_values]);
                if (r < 0)
                        return error_trace(r);
                cond->n_values++;
                if (!s[n])
                        return 0;
                s += n + 1;
        }
}

static bool parse_arg(const char *s, unsigned *ret_arg) {
        const char *digit = string_after(s, "arg");

        if (!digit || digit[0] < '0' || digit[0] > '5' || digit[1])
                return false;
        *ret_arg = (unsigned) (digit[0] - '0');
        return true;
}

/* What stands behind argN and its mask: the test and its values. */
static int parse_test(Parser *parser, const Word *test, const Word *value, SeccompCond *cond) {
        int r;

        if (string_equal(test->s, "is"))
                cond->test = SECCOMP_TEST_IS;
        else if (string_equal(test->s, "not"))
                cond->test = SECCOMP_TEST_NOT;
        else if (string_equal(test->s, "has"))
                cond->test = SECCOMP_TEST_HAS;
        else
                return fault(parser, test, "expected 'is', 'not', 'has' or 'without', not '%s'",
                             test->s);

        r = parse_values(parser, value, cond);
        if (r < 0)
                return error_trace(r);
        if (cond->test == SECCOMP_TEST_HAS && cond->n_values != 1)
                return fault(parser, value, "'has' takes one value: join bits by '|'");
        return 0;
}

/* One condition at the beginning of words; *ret_used says how many it took. */
static int parse_cond(Parser *parser, const Word *words, size_t n_words, SeccompCond *cond,
                      size_t *ret_used) {
        size_t i = 1;
        uint32_t mask;
        int r;

        *cond = (SeccompCond){.mask = UINT32_MAX};
        if (!parse_arg(words[0].s, &cond->arg))
                return fault(parser, &words[0], "expected an argument, 'arg0' to 'arg5', not '%s'",
                             words[0].s);

        if (n_words > 2 && string_equal(words[1].s, "without")) {
                size_t n_faults = parser->n_faults;

                r = parse_value(parser, &words[2], words[2].s, strlen(words[2].s), &mask);
                if (r < 0 || parser->n_faults > n_faults)
                        return error_trace(r);
                cond->mask = ~mask;
                i = 3;
        }
        if (n_words < i + 2)
                return fault(parser, &words[n_words - 1], "the condition ends too early");

        *ret_used = i + 2;
        return parse_test(parser, &words[i], &words[i + 1], cond);
}

/* Everything behind "if". */
static int parse_conds(Parser *parser, const Word *words, size_t n_words, SeccompRule *rule) {
        size_t n_faults = parser->n_faults, used = 0;
        int r;

        for (size_t i = 0;; i += used + 1) {
                if (rule->n_conds == SECCOMP_CONDS_MAX)
                        return fault(parser, &words[i], "more than %u conditions in one rule",
                                     SECCOMP_CONDS_MAX);
                if (i == n_words) {
                        /* For the first one this is the "if" itself, which stands before words. */
                        const Word *last = words + i - 1;

                        return fault(parser, last, "no condition behind '%s'", last->s);
                }
                r = parse_cond(parser, words + i, n_words - i, &rule->conds[rule->n_conds], &used);
                if (r < 0 || parser->n_faults > n_faults)
                        return error_trace(r);
                rule->n_conds++;
                if (i + used == n_words)
                        return 0;
                if (!string_equal(words[i + used].s, "and"))
                        return fault(parser, &words[i + used], "expected 'and', not '%s'",
                                     words[i + used].s);
        }
}

/* --- statements --- */

/* False, after telling, unless the statement has at least n words behind its first. */
static bool statement_check(Parser *parser, const Statement *statement, size_t n, bool exactly,
                            const char *usage, int *ret_r) {
        size_t have = statement->n_words - 1;

        *ret_r = 0;
        if (exactly ? have == n : have >= n)
                return true;
        *ret_r = fault(parser, &statement->words[0], "expected '%s'", usage);
        return false;
}

static int parse_action(Parser *parser, const Word *word, uint32_t *ret_action) {
        if (seccomp_action_lookup(word->s, ret_action) != 0)
                return fault(parser, word, "unknown action '%s' (allow, kill or an errno name)",
                             word->s);
        return 0;
}

static int call_add_rule(Parser *parser, const Word *word, SeccompCall *call,
                         const SeccompRule *rule) {
        int r;

        if (call->late)
                return fault(parser, word, "'%s' is @late and can have no other rule", call->name);
        if (call->n_rules > 0 && call->rules[call->n_rules - 1].n_conds == 0) {
                const SeccompRule *last = &call->rules[call->n_rules - 1];

                return fault(parser, word, "never reached: %s:%u decides every '%s' already",
                             last->file, last->line, call->name);
        }

        r = array_add(&call->rules, &call->n_rules, sizeof(SeccompRule));
        if (r < 0)
                return error_trace(r);
        call->rules[call->n_rules - 1] = *rule;
        return 0;
}

static int parse_rule(Parser *parser, const Statement *statement) {
        _cleanup_(freep) size_t *calls = NULL;
        const Word *words = statement->words;
        size_t n_faults = parser->n_faults, n_calls = 0, n_names = 0;
        SeccompRule rule = {.file = parser->file, .line = words[0].line};
        int r;

        r = parse_action(parser, &words[0], &rule.action);
        if (r < 0)
                return error_trace(r);

        while (1 + n_names < statement->n_words && !string_equal(words[1 + n_names].s, "if"))
                n_names++;
        if (n_names == 0)
                return fault(parser, &words[0], "no system call behind '%s'", words[0].s);
        r = parse_calls(parser, words + 1, n_names, &calls, &n_calls);
        if (r < 0)
                return error_trace(r);
        if (1 + n_names < statement->n_words) {
                r = parse_conds(parser, words + n_names + 2, statement->n_words - n_names - 2,
                                &rule);
                if (r < 0)
                        return error_trace(r);
        }
        if (parser->n_faults > n_faults)
                return 0;

        for (size_t i = 0; i < n_calls; i++) {
                r = call_add_rule(parser, &words[0], &parser->source->calls[calls[i]], &rule);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

static int parse_late(Parser *parser, const Statement *statement) {
        _cleanup_(freep) size_t *calls = NULL;
        SeccompRule rule = {.action = SECCOMP_RET_ALLOW, .file = parser->file};
        size_t n_faults = parser->n_faults, n_calls = 0;
        uint32_t action = SECCOMP_RET_ALLOW;
        int r;

        if (!statement_check(parser, statement, 2, false, "@late ERRNO CALL...", &r))
                return r;
        rule.line = statement->words[0].line;
        r = parse_action(parser, &statement->words[1], &action);
        if (r >= 0 && parser->n_faults == n_faults &&
            (action & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_ERRNO)
                r = fault(parser, &statement->words[1], "@late takes an errno name, not '%s'",
                          statement->words[1].s);
        if (r >= 0)
                r = parse_calls(parser, statement->words + 2, statement->n_words - 2, &calls,
                                &n_calls);
        if (r < 0 || parser->n_faults > n_faults)
                return error_trace(r);

        for (size_t i = 0; i < n_calls; i++) {
                SeccompCall *call = &parser->source->calls[calls[i]];

                if (call->n_rules > 0)
                        return fault(parser, &statement->words[0],
                                     "'%s' has a rule already and cannot be @late", call->name);
                r = call_add_rule(parser, &statement->words[0], call, &rule);
                if (r < 0)
                        return error_trace(r);
                call->late = true;
                call->late_action = action;
        }
        return 0;
}

static int parse_reset(Parser *parser, const Statement *statement) {
        _cleanup_(freep) size_t *calls = NULL;
        size_t n_calls = 0;
        int r;

        if (!statement_check(parser, statement, 1, false, "@reset CALL...", &r))
                return r;
        r = parse_calls(parser, statement->words + 1, statement->n_words - 1, &calls, &n_calls);
        if (r < 0)
                return error_trace(r);

        for (size_t i = 0; i < n_calls; i++) {
                SeccompCall *call = &parser->source->calls[calls[i]];

                if (call->n_rules == 0) {
                        r = fault(parser, &statement->words[0], "'%s' has no rule to forget",
                                  call->name);
                        if (r < 0)
                                return error_trace(r);
                }
                call->n_rules = 0;
                call->late = false;
        }
        return 0;
}

static int parse_group(Parser *parser, const Statement *statement) {
        _cleanup_(freep) size_t *calls = NULL;
        SeccompSource *source = parser->source;
        SeccompGroup *group;
        size_t n_calls = 0;
        int r;

        if (!statement_check(parser, statement, 2, false, "@group NAME CALL...", &r))
                return r;
        if (source_find_group(source, statement->words[1].s))
                return fault(parser, &statement->words[1], "group '%s' is given twice",
                             statement->words[1].s);
        r = parse_calls(parser, statement->words + 2, statement->n_words - 2, &calls, &n_calls);
        if (r < 0)
                return error_trace(r);

        r = array_add(&source->groups, &source->n_groups, sizeof(SeccompGroup));
        if (r < 0)
                return error_trace(r);
        group = &source->groups[source->n_groups - 1];
        group->name = strdup(statement->words[1].s);
        if (!group->name)
                return error_origin(-ENOMEM);
        group->calls = TAKE_PTR(calls);
        group->n_calls = n_calls;
        return 0;
}

static int parse_description(Parser *parser, const Statement *statement) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        int r;

        if (!statement_check(parser, statement, 1, false, "@description WORD...", &r))
                return r;
        if (parser->depth > 1)
                return 0;
        if (parser->source->description)
                return fault(parser, &statement->words[0], "@description is given twice");

        for (size_t i = 1; i < statement->n_words; i++) {
                r = strbuf_appendf(&text, "%s%s", i > 1 ? " " : "", statement->words[i].s);
                if (r < 0)
                        return error_trace(r);
        }
        parser->source->description = strbuf_steal(&text);
        return parser->source->description ? 0 : error_origin(-ENOMEM);
}

static int parse_otherwise(Parser *parser, const Statement *statement) {
        int r;

        if (!statement_check(parser, statement, 1, true, "@otherwise ACTION", &r))
                return r;
        if (parser->has_otherwise)
                return fault(parser, &statement->words[0], "@otherwise is given twice");
        parser->has_otherwise = true;
        return parse_action(parser, &statement->words[1], &parser->source->otherwise);
}

static int parse_newest(Parser *parser, const Statement *statement) {
        uint32_t value;
        int r;

        if (!statement_check(parser, statement, 1, true, "@newest NUMBER", &r))
                return r;
        if (parser->has_newest)
                return fault(parser, &statement->words[0], "@newest is given twice");
        if (seccomp_value_lookup(statement->words[1].s, &value) != 0 || value > 4095)
                return fault(parser, &statement->words[1], "'%s' is no system call number",
                             statement->words[1].s);
        parser->has_newest = true;
        parser->source->newest = (int) value;
        return 0;
}

static int parse_landlock(Parser *parser, const Statement *statement) {
        int r;

        if (!statement_check(parser, statement, 0, true, "@landlock", &r))
                return r;
        parser->source->landlock = true;
        return 0;
}

static int parse_proc_subset(Parser *parser, const Statement *statement) {
        int r;

        if (!statement_check(parser, statement, 0, true, "@proc-subset", &r))
                return r;
        parser->source->proc_subset = true;
        return 0;
}

static int parse_text(Parser *parser, char *file, const char *text, size_t size);

static int parse_include(Parser *parser, const Statement *statement) {
        _cleanup_(freep) char *file = NULL, *text = NULL;
        const Word *word = &statement->words[statement->n_words - 1];
        const char *outer = parser->file;
        size_t size;
        int r;

        if (!statement_check(parser, statement, 1, true, "@include NAME", &r))
                return r;
        r = parser->load ? parser->load(parser->userdata, word->s, &file, &text, &size) : -ENOENT;
        if (r == -ENOMEM)
                return error_trace(r);
        if (r < 0)
                return fault(parser, word, "cannot read profile '%s': %s", word->s, strerror(-r));

        for (unsigned i = 0; i < parser->depth; i++)
                if (string_equal(parser->files_open[i], file))
                        return fault(parser, word, "'%s' includes itself", word->s);
        if (parser->depth == INCLUDE_DEPTH_MAX)
                return fault(parser, word, "more than %u profiles inside of each other",
                             INCLUDE_DEPTH_MAX);

        r = parse_text(parser, TAKE_PTR(file), text, size);
        parser->file = outer;
        return error_trace(r);
}

static const struct {
        const char *word;
        int (*parse)(Parser *parser, const Statement *statement);
} directives[] = {
        {"@description", parse_description},
        {"@group", parse_group},
        {"@include", parse_include},
        {"@landlock", parse_landlock},
        {"@late", parse_late},
        {"@newest", parse_newest},
        {"@otherwise", parse_otherwise},
        {"@proc-subset", parse_proc_subset},
        {"@reset", parse_reset},
};

static int parse_statement(Parser *parser, const Statement *statement) {
        const Word *word = &statement->words[0];

        if (word->s[0] != '@')
                return parse_rule(parser, statement);

        for (size_t i = 0; i < ELEMENTSOF(directives); i++)
                if (string_equal(word->s, directives[i].word))
                        return directives[i].parse(parser, statement);

        return fault(parser, word, "unknown statement '%s'", word->s);
}

/* --- lines and words --- */

static int statement_add_word(Parser *parser, Statement *statement, const char *s, size_t size,
                              uint32_t line, uint32_t column) {
        Word place = {.line = line, .column = column};
        Word *word;
        int r;

        if (size > WORD_SIZE_MAX)
                return fault(parser, &place, "a word of more than %u bytes", WORD_SIZE_MAX);
        for (size_t i = 0; i < size; i++)
                if (s[i] <= ' ' || s[i] > '~')
                        return fault(parser, &place, "a byte that is not printable ASCII");

        r = array_add(&statement->words, &statement->n_words, sizeof(Word));
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

static int statement_add_line(Parser *parser, Statement *statement, const char *s, size_t size,
                              uint32_t line) {
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
static int statement_finish(Parser *parser, Statement *statement, size_t *n_faults) {
        int r = 0;

        if (statement->n_words > 0 && parser->n_faults == *n_faults)
                r = parse_statement(parser, statement);
        statement_done(statement);
        *n_faults = parser->n_faults;
        return error_trace(r);
}

static int parse_lines(Parser *parser, const char *text, size_t size) {
        _cleanup_(statement_done) Statement statement = {};
        size_t n_faults = parser->n_faults;
        uint32_t line = 1;
        int r;

        for (size_t i = 0; i < size; line++) {
                const char *end = memchr(text + i, '\n', size - i);
                size_t n = end ? (size_t) (end - (text + i)) : size - i;

                if (n > 0 && !is_blank(text[i])) {
                        r = statement_finish(parser, &statement, &n_faults);
                        if (r < 0)
                                return error_trace(r);
                }
                r = statement_add_line(parser, &statement, text + i, n, line);
                if (r < 0)
                        return error_trace(r);
                i += n + 1;
        }
        return error_trace(statement_finish(parser, &statement, &n_faults));
}

/* Consumes file, also on failure. */
static int parse_text(Parser *parser, char *file, const char *text, size_t size) {
        _cleanup_(freep) char *name = file;
        SeccompSource *source = parser->source;
        int r;

        r = array_add(&source->files, &source->n_files, sizeof(char *));
        if (r < 0)
                return error_trace(r);
        source->files[source->n_files - 1] = TAKE_PTR(name);
        parser->file = file;
        if (size > TEXT_SIZE_MAX)
                return fault(parser, &(Word){}, "larger than %u bytes", TEXT_SIZE_MAX);

        parser->files_open[parser->depth++] = file;
        r = parse_lines(parser, text, size);
        parser->depth--;
        return error_trace(r);
}

/* --- what can only be said about the whole --- */

static int check_call(Parser *parser, const SeccompCall *call) {
        const SeccompSource *source = parser->source;

        for (size_t i = 0; i < call->n_rules; i++) {
                const SeccompRule *rule = &call->rules[i];
                Word place = {.line = rule->line, .column = 1};
                int newest = 0, r = 0;

                for (size_t j = 0; j < _SECCOMP_ARCH_MAX; j++)
                        newest = call->nr[j] > newest ? call->nr[j] : newest;
                parser->file = rule->file;
                if (newest > source->newest && rule->action != (SECCOMP_RET_ERRNO | ENOSYS))
                        r = fault(parser, &place,
                                  "'%s' is number %i, and above @newest %i all is "
                                  "ENOSYS",
                                  call->name, newest, source->newest);
                else if (i == 0 && rule->n_conds == 0 && !call->late &&
                         rule->action == source->otherwise)
                        r = fault(parser, &place, "no rule needed: '%s' gets this by @otherwise",
                                  call->name);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

/* Two names of one call would hide each other's rules. */
static int check_aliases(Parser *parser, size_t index) {
        const SeccompSource *source = parser->source;
        const SeccompCall *call = &source->calls[index];
        Word place = {.line = call->n_rules > 0 ? call->rules[0].line : 0, .column = 1};
        int r;

        for (size_t i = 0; i < index; i++)
                for (size_t j = 0; j < _SECCOMP_ARCH_MAX; j++) {
                        if (call->nr[j] == SECCOMP_NR_NONE || call->n_rules == 0 ||
                            source->calls[i].n_rules == 0 || call->nr[j] != source->calls[i].nr[j])
                                continue;
                        parser->file = call->rules[0].file;
                        r = fault(parser, &place, "'%s' and '%s' are one system call", call->name,
                                  source->calls[i].name);
                        if (r < 0)
                                return error_trace(r);
                        break;
                }
        return 0;
}

static int check_source(Parser *parser) {
        const char *missing = !parser->source->description ? "@description"
                              : !parser->has_otherwise     ? "@otherwise"
                              : !parser->has_newest        ? "@newest"
                                                           : NULL;
        int r;

        parser->file = parser->source->files[0];
        if (missing)
                return fault(parser, &(Word){}, "has no %s", missing);

        for (size_t i = 0; i < parser->source->n_calls; i++) {
                r = check_call(parser, &parser->source->calls[i]);
                if (r >= 0)
                        r = check_aliases(parser, i);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

int seccomp_parse(const char *file, const char *text, size_t size, SeccompLoad load, void *userdata,
                  DiagList *diags, SeccompSource **ret_source) {
        _cleanup_(seccomp_source_freep) SeccompSource *source = NULL;
        Parser parser = {.load = load, .userdata = userdata, .diags = diags};
        char *name;
        int r;

        source = calloc(1, sizeof(SeccompSource));
        name = strdup(file);
        if (!source || !name) {
                free(name);
                return error_origin(-ENOMEM);
        }

        parser.source = source;
        r = parse_text(&parser, name, text, size);
        if (r < 0)
                return error_trace(r);
        if (parser.n_faults == 0) {
                r = check_source(&parser);
                if (r < 0)
                        return error_trace(r);
        }
        if (parser.n_faults > 0)
                return SECCOMP_PARSE_E_INVALID;

        *ret_source = TAKE_PTR(source);
        return 0;
}
