/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"

#include <limits.h>
#include <stdarg.h>

#include "basic/error.h"
#include "basic/host-path.h"

void complain(const char *format, ...) {
        _cleanup_(freep) char *text = NULL;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&text, format, ap);
        va_end(ap);
        if (n < 0)
                text = NULL;
        (void) dprintf(STDERR_FILENO, "agentcrate: %s\n", text ?: "out of memory");
}

void common_options_done(CommonOptions *options) {
        free(options->socket);
        free(options->workspace);
        *options = (CommonOptions){};
}

int common_take_workspace(const Option *option _unused_, const char *value, void *target,
                          char **ret_text) {
        _cleanup_(freep) char *given = NULL, *path = NULL;
        CommonOptions *options = target;
        int r;

        r = host_path_parse_workspace(value, &given, &options->workspace_ro, ret_text);
        if (r == 0)
                r = host_path_resolve("--workspace", given, HOST_PATH_FOLDER | HOST_PATH_NO_LINK,
                                      PATH_MAX, &path, NULL, ret_text);
        if (r != 0)
                return r < 0 ? error_trace(r) : OPTION_E_INVALID;
        free(options->workspace);
        options->workspace = TAKE_PTR(path);
        return 0;
}

static int print_help(const Command *command) {
        printf("Usage: agentcrate %s [OPTIONS]%s%s\n%c%s.\n\n", command->name,
               *command->arguments ? " " : "", command->arguments, toupper(command->summary[0]),
               command->summary + 1);
        option_table_print(command->options, stdout);
        return EXIT_SUCCESS;
}

int command_parse(const Command *command, int argc, char *const *argv, size_t words_min,
                  size_t words_max, CommonOptions *options, StrV *ret_words, int *ret_status) {
        _cleanup_(strv_done) StrV words = STRV_NULL;
        _cleanup_(freep) char *text = NULL;
        int r;

        r = option_table_parse(command->options, argc, argv, options, &words, &text);
        if (r < 0)
                return error_trace(r);
        if (r == OPTION_E_INVALID) {
                *ret_status = complain_status(EXIT_USAGE, "%s: %s", command->name, text);
                return COMMAND_E_DONE;
        }
        if (options->help) {
                *ret_status = print_help(command);
                return COMMAND_E_DONE;
        }
        if (words.n_items < words_min || words.n_items > words_max) {
                *ret_status = complain_status(
                        EXIT_USAGE, "%s: %s; usage: agentcrate %s [OPTIONS]%s%s", command->name,
                        words.n_items < words_min ? "an argument is missing"
                                                  : "there are too many arguments",
                        command->name, *command->arguments ? " " : "", command->arguments);
                return COMMAND_E_DONE;
        }
        *ret_words = words;
        words = STRV_NULL;
        return 0;
}
