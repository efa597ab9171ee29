/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Statements to rules: a table says what each first word means. A statement that is at
 * fault is left out and reading goes on, so that all faults are told at once; a source is
 * only handed out when there were none.
 */

#include "seccomp/parse.h"

#include <linux/seccomp.h>
#include <string.h>

#include "basic/error.h"
#include "basic/string-util.h"
#include "seccomp/parser.h"
#include "seccomp/words.h"
#define TEXT_SIZE_MAX (1U << 20)

/* False, after telling, unless the statement has at least n words behind its first. */
static bool statement_check(SeccompParser *parser, const SeccompStatement *statement, size_t n,
                            bool exactly, const char *usage, int *ret_r) {
        size_t have = statement->n_words - 1;

        *ret_r = 0;
        if (exactly ? have == n : have >= n)
                return true;
        *ret_r = seccomp_fault(parser, &statement->words[0], "expected '%s'", usage);
        return false;
}

static int parse_action(SeccompParser *parser, const SeccompWord *word, uint32_t *ret_action) {
        if (seccomp_action_lookup(word->s, ret_action) != 0)
                return seccomp_fault(parser, word,
                                     "unknown action '%s' (allow, kill or an errno name)", word->s);
        return 0;
}

static int call_add_rule(SeccompParser *parser, const SeccompWord *word, SeccompCall *call,
                         const SeccompRule *rule) {
        int r;

        if (call->late)
                return seccomp_fault(parser, word, "'%s' is @late and can have no other rule",
                                     call->name);
        if (call->n_rules > 0 && call->rules[call->n_rules - 1].n_conds == 0) {
                const SeccompRule *last = &call->rules[call->n_rules - 1];

                return seccomp_fault(parser, word,
                                     "never reached: %s:%u decides every '%s' already", last->file,
                                     last->line, call->name);
        }

        r = seccomp_array_add(&call->rules, &call->n_rules, sizeof(SeccompRule));
        if (r < 0)
                return error_trace(r);
        call->rules[call->n_rules - 1] = *rule;
        return 0;
}

static int parse_rule(SeccompParser *parser, const SeccompStatement *statement) {
        _cleanup_(freep) size_t *calls = NULL;
        const SeccompWord *words = statement->words;
        size_t n_faults = parser->n_faults, n_calls = 0, n_names = 0;
        SeccompRule rule = {.file = parser->file, .line = words[0].line};
        int r;

        r = parse_action(parser, &words[0], &rule.action);
        if (r < 0)
                return error_trace(r);

        while (1 + n_names < statement->n_words && !string_equal(words[1 + n_names].s, "if"))
                n_names++;
        if (n_names == 0)
                return seccomp_fault(parser, &words[0], "no system call behind '%s'", words[0].s);
        r = seccomp_parse_calls(parser, words + 1, n_names, &calls, &n_calls);
        if (r < 0)
                return error_trace(r);
        if (1 + n_names < statement->n_words) {
                r = seccomp_parse_conds(parser, words + n_names + 2,
                                        statement->n_words - n_names - 2, &rule);
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

static int parse_late(SeccompParser *parser, const SeccompStatement *statement) {
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
                r = seccomp_fault(parser, &statement->words[1],
                                  "@late takes an errno name, not '%s'", statement->words[1].s);
        if (r >= 0)
                r = seccomp_parse_calls(parser, statement->words + 2, statement->n_words - 2,
                                        &calls, &n_calls);
        if (r < 0 || parser->n_faults > n_faults)
                return error_trace(r);

        for (size_t i = 0; i < n_calls; i++) {
                SeccompCall *call = &parser->source->calls[calls[i]];

                if (call->n_rules > 0)
                        return seccomp_fault(parser, &statement->words[0],
                                             "'%s' has a rule already and cannot be @late",
                                             call->name);
                r = call_add_rule(parser, &statement->words[0], call, &rule);
                if (r < 0)
                        return error_trace(r);
                call->late = true;
                call->late_action = action;
        }
        return 0;
}

static int parse_reset(SeccompParser *parser, const SeccompStatement *statement) {
        _cleanup_(freep) size_t *calls = NULL;
        size_t n_calls = 0;
        int r;

        if (!statement_check(parser, statement, 1, false, "@reset CALL...", &r))
                return r;
        r = seccomp_parse_calls(parser, statement->words + 1, statement->n_words - 1, &calls,
                                &n_calls);
        if (r < 0)
                return error_trace(r);

        for (size_t i = 0; i < n_calls; i++) {
                SeccompCall *call = &parser->source->calls[calls[i]];

                if (call->n_rules == 0) {
                        r = seccomp_fault(parser, &statement->words[0],
                                          "'%s' has no rule to forget", call->name);
                        if (r < 0)
                                return error_trace(r);
                }
                call->n_rules = 0;
                call->late = false;
        }
        return 0;
}

static int parse_group(SeccompParser *parser, const SeccompStatement *statement) {
        _cleanup_(freep) size_t *calls = NULL;
        SeccompSource *source = parser->source;
        SeccompGroup *group;
        size_t n_calls = 0;
        int r;

        if (!statement_check(parser, statement, 2, false, "@group NAME CALL...", &r))
                return r;
        if (seccomp_source_find_group(source, statement->words[1].s))
                return seccomp_fault(parser, &statement->words[1], "group '%s' is given twice",
                                     statement->words[1].s);
        r = seccomp_parse_calls(parser, statement->words + 2, statement->n_words - 2, &calls,
                                &n_calls);
        if (r < 0)
                return error_trace(r);

        r = seccomp_array_add(&source->groups, &source->n_groups, sizeof(SeccompGroup));
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

static int parse_description(SeccompParser *parser, const SeccompStatement *statement) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        int r;

        if (!statement_check(parser, statement, 1, false, "@description WORD...", &r))
                return r;
        if (parser->depth > 1)
                return 0;
        if (parser->source->description)
                return seccomp_fault(parser, &statement->words[0], "@description is given twice");

        for (size_t i = 1; i < statement->n_words; i++) {
                r = strbuf_appendf(&text, "%s%s", i > 1 ? " " : "", statement->words[i].s);
                if (r < 0)
                        return error_trace(r);
        }
        parser->source->description = strbuf_steal(&text);
        return parser->source->description ? 0 : error_origin(-ENOMEM);
}

static int parse_otherwise(SeccompParser *parser, const SeccompStatement *statement) {
        int r;

        if (!statement_check(parser, statement, 1, true, "@otherwise ACTION", &r))
                return r;
        if (parser->has_otherwise)
                return seccomp_fault(parser, &statement->words[0], "@otherwise is given twice");
        parser->has_otherwise = true;
        return parse_action(parser, &statement->words[1], &parser->source->otherwise);
}

static int parse_newest(SeccompParser *parser, const SeccompStatement *statement) {
        uint32_t value;
        int r;

        if (!statement_check(parser, statement, 1, true, "@newest NUMBER", &r))
                return r;
        if (parser->has_newest)
                return seccomp_fault(parser, &statement->words[0], "@newest is given twice");
        if (seccomp_value_lookup(statement->words[1].s, &value) != 0 || value > 4095)
                return seccomp_fault(parser, &statement->words[1], "'%s' is no system call number",
                                     statement->words[1].s);
        parser->has_newest = true;
        parser->source->newest = (int) value;
        return 0;
}

static int parse_landlock(SeccompParser *parser, const SeccompStatement *statement) {
        int r;

        if (!statement_check(parser, statement, 0, true, "@landlock", &r))
                return r;
        parser->source->landlock = true;
        return 0;
}

static int parse_proc_subset(SeccompParser *parser, const SeccompStatement *statement) {
        int r;

        if (!statement_check(parser, statement, 0, true, "@proc-subset", &r))
                return r;
        parser->source->proc_subset = true;
        return 0;
}

static int parse_text(SeccompParser *parser, char *file, const char *text, size_t size);

static int parse_include(SeccompParser *parser, const SeccompStatement *statement) {
        _cleanup_(freep) char *file = NULL, *text = NULL;
        const SeccompWord *word = &statement->words[statement->n_words - 1];
        const char *outer = parser->file;
        size_t size;
        int r;

        if (!statement_check(parser, statement, 1, true, "@include NAME", &r))
                return r;
        r = parser->load ? parser->load(parser->userdata, word->s, &file, &text, &size) : -ENOENT;
        if (r == -ENOMEM)
                return error_trace(r);
        if (r < 0)
                return seccomp_fault(parser, word, "cannot read profile '%s': %s", word->s,
                                     strerror(-r));

        for (unsigned i = 0; i < parser->depth; i++)
                if (string_equal(parser->files_open[i], file))
                        return seccomp_fault(parser, word, "'%s' includes itself", word->s);
        if (parser->depth == SECCOMP_INCLUDE_DEPTH_MAX)
                return seccomp_fault(parser, word, "more than %u profiles inside of each other",
                                     SECCOMP_INCLUDE_DEPTH_MAX);

        r = parse_text(parser, TAKE_PTR(file), text, size);
        parser->file = outer;
        return error_trace(r);
}

static const struct {
        const char *word;
        int (*parse)(SeccompParser *parser, const SeccompStatement *statement);
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

static int parse_statement(SeccompParser *parser, const SeccompStatement *statement) {
        const SeccompWord *word = &statement->words[0];

        if (word->s[0] != '@')
                return parse_rule(parser, statement);

        for (size_t i = 0; i < ELEMENTSOF(directives); i++)
                if (string_equal(word->s, directives[i].word))
                        return directives[i].parse(parser, statement);

        return seccomp_fault(parser, word, "unknown statement '%s'", word->s);
}

/* Consumes file, also on failure. */
static int parse_text(SeccompParser *parser, char *file, const char *text, size_t size) {
        _cleanup_(freep) char *name = file;
        SeccompSource *source = parser->source;
        int r;

        r = seccomp_array_add(&source->files, &source->n_files, sizeof(char *));
        if (r < 0)
                return error_trace(r);
        source->files[source->n_files - 1] = TAKE_PTR(name);
        parser->file = file;
        if (size > TEXT_SIZE_MAX)
                return seccomp_fault(parser, &(SeccompWord){}, "larger than %u bytes",
                                     TEXT_SIZE_MAX);

        parser->files_open[parser->depth++] = file;
        r = seccomp_parse_lines(parser, text, size, parse_statement);
        parser->depth--;
        return error_trace(r);
}

int seccomp_parse(const char *file, const char *text, size_t size, SeccompLoad load, void *userdata,
                  DiagList *diags, SeccompSource **ret_source) {
        _cleanup_(seccomp_source_freep) SeccompSource *source = NULL;
        SeccompParser parser = {.load = load, .userdata = userdata, .diags = diags};
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
                r = seccomp_check_source(&parser);
                if (r < 0)
                        return error_trace(r);
        }
        if (parser.n_faults > 0)
                return SECCOMP_PARSE_E_INVALID;

        *ret_source = TAKE_PTR(source);
        return 0;
}
