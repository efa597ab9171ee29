/* SPDX-License-Identifier: Apache-2.0 */
#include "basic/option-table.h"

#include <stdarg.h>

#include "basic/diag.h"
#include "basic/error.h"

#define SPELLED_MAX 40

int option_invalid(char **ret_text, const char *format, ...) {
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(ret_text, format, ap);
        va_end(ap);
        if (n < 0) {
                *ret_text = NULL;
                return error_origin(-ENOMEM);
        }
        return OPTION_E_INVALID;
}

/* "--limit" or "-w", as messages name it. */
static const char *option_spell(const Option *option, char buf[static SPELLED_MAX]) {
        if (option->name)
                (void) snprintf(buf, SPELLED_MAX, "--%s", option->name);
        else
                (void) snprintf(buf, SPELLED_MAX, "-%c", option->letter);
        return buf;
}

int option_take_flag(const Option *option, const char *value _unused_, void *target,
                     char **ret_text _unused_) {
        *(bool *) ((char *) target + option->offset) = true;
        return 0;
}

int option_take_stop(const Option *option, const char *value _unused_, void *target,
                     char **ret_text _unused_) {
        *(bool *) ((char *) target + option->offset) = true;
        return OPTION_E_STOP;
}

int option_take_string(const Option *option, const char *value, void *target, char **ret_text) {
        char **string = (char **) ((char *) target + option->offset);
        char spelled[SPELLED_MAX], *copy;

        if (string_empty(value))
                return option_invalid(ret_text, "%s has an empty value; give %s",
                                      option_spell(option, spelled), option->argument);
        copy = strdup(value);
        if (!copy)
                return error_origin(-ENOMEM);
        free(*string);
        *string = copy;
        return 0;
}

/* --- the parser --- */

typedef struct Parser {
        const OptionTable *table;
        int argc, i;
        char *const *argv;
        void *target;
        char **ret_text;
} Parser;

static const Option *option_find(const OptionTable *table, const char *name, size_t size) {
        for (size_t i = 0; i < table->n_options; i++) {
                const char *known = table->options[i].name;

                if (known && strlen(known) == size && memcmp(known, name, size) == 0)
                        return &table->options[i];
        }
        return NULL;
}

static const Option *option_find_letter(const OptionTable *table, char letter) {
        for (size_t i = 0; i < table->n_options; i++)
                if (table->options[i].letter && table->options[i].letter == letter)
                        return &table->options[i];
        return NULL;
}

static int option_unknown(Parser *parser, const char *argument) {
        _cleanup_(strbuf_done) StrBuf known = STRBUF_NULL;
        _cleanup_(freep) char *quoted = diag_quote(argument);

        for (size_t i = 0; i < parser->table->n_options; i++) {
                char spelled[SPELLED_MAX];

                if (strbuf_appendf(&known, "%s%s", i > 0 ? ", " : "",
                                   option_spell(&parser->table->options[i], spelled)) < 0)
                        return error_origin(-ENOMEM);
        }
        return option_invalid(parser->ret_text, "option %s is unknown; known are %s", quoted ?: "",
                              known.data ?: "none");
}

/* Hands the option its value: what is attached to it, else the next argument. */
static int option_apply(Parser *parser, const Option *option, const char *attached) {
        const char *value = attached;
        char spelled[SPELLED_MAX];

        if (!option->argument && attached)
                return option_invalid(parser->ret_text, "option %s takes no value",
                                      option_spell(option, spelled));
        if (option->argument && !attached) {
                if (parser->i >= parser->argc)
                        return option_invalid(parser->ret_text, "option %s needs a value: %s",
                                              option_spell(option, spelled), option->argument);
                value = parser->argv[parser->i++];
        }
        return option->take(option, value, parser->target, parser->ret_text);
}

static int parse_option(Parser *parser, const char *argument) {
        const Option *option;

        if (argument[1] == '-') {
                const char *name = argument + 2;
                const char *equals = strchr(name, '=');

                option = option_find(parser->table, name,
                                     equals ? (size_t) (equals - name) : strlen(name));
                return option ? option_apply(parser, option, equals ? equals + 1 : NULL)
                              : option_unknown(parser, argument);
        }
        option = option_find_letter(parser->table, argument[1]);
        return option ? option_apply(parser, option, argument[2] ? argument + 2 : NULL)
                      : option_unknown(parser, argument);
}

int option_table_parse(const OptionTable *table, int argc, char *const *argv, void *target,
                       StrV *ret_words, char **ret_text) {
        _cleanup_(strv_done) StrV words = STRV_NULL;
        Parser parser = {
                .table = table,
                .argc = argc,
                .i = 1,
                .argv = argv,
                .target = target,
                .ret_text = ret_text,
        };
        bool only_words = false;
        int r = 0;

        while (r == 0 && parser.i < argc) {
                const char *argument = argv[parser.i++];

                if (only_words || argument[0] != '-' || !argument[1]) {
                        only_words = only_words || !table->interleaved;
                        r = strv_append(&words, argument);
                } else if (string_equal(argument, "--"))
                        only_words = true;
                else
                        r = parse_option(&parser, argument);
        }
        if (r != 0 && r != OPTION_E_STOP)
                return r < 0 ? error_trace(r) : r;

        *ret_words = words;
        words = STRV_NULL;
        return 0;
}

/* --- help --- */

#define HELP_COLUMN 26U
#define HELP_WIDTH 78U

/* The words of text in lines, the first of which begins at the present column. */
static void print_folded(FILE *out, const char *text) {
        size_t column = HELP_COLUMN;

        while (*text) {
                size_t word = strcspn(text, " ");

                if (column > HELP_COLUMN && column + 1 + word > HELP_WIDTH) {
                        fprintf(out, "\n%*s", (int) HELP_COLUMN, "");
                        column = HELP_COLUMN;
                } else if (column > HELP_COLUMN) {
                        fputc(' ', out);
                        column++;
                }
                fprintf(out, "%.*s", (int) word, text);
                column += word;
                text += word + strspn(text + word, " ");
        }
        fputc('\n', out);
}

static void print_option(const Option *option, FILE *out) {
        char letter[8] = "    ", left[2 * SPELLED_MAX];

        if (option->letter)
                (void) snprintf(letter, sizeof(letter), "-%c%s", option->letter,
                                option->name ? ", " : "");
        (void) snprintf(left, sizeof(left), "  %s%s%s%s%s", letter, option->name ? "--" : "",
                        option->name ?: "", option->argument ? " " : "", option->argument ?: "");
        fputs(left, out);
        if (strlen(left) + 2 > HELP_COLUMN)
                fprintf(out, "\n%*s", (int) HELP_COLUMN, "");
        else
                fprintf(out, "%*s", (int) (HELP_COLUMN - strlen(left)), "");
        print_folded(out, option->help);
}

void option_table_print(const OptionTable *table, FILE *out) {
        for (size_t i = 0; i < table->n_options; i++)
                print_option(&table->options[i], out);
}
