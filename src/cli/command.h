/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The subcommands of agentcrate, one file each. A command gets its own argv, with its name as
 * argv[0], and returns the exit status or a negative errno.
 */

#include "basic/option-table.h"

#define EXIT_TOOL_ERROR 1
#define EXIT_USAGE 2
#define EXIT_NO_BROKER 125

typedef struct Command {
        const char *name;
        const char *arguments; /* for --help */
        const char *summary;
        const OptionTable *options;
        int (*run)(const struct Command *command, int argc, char **argv);
} Command;

extern const Command command_audit;
extern const Command command_call;
extern const Command command_doctor;
extern const Command command_policy;
extern const Command command_stdio;
extern const Command command_tools;

/* "agentcrate: TEXT" and a newline to standard error. */
void complain(const char *format, ...) _printf_(1, 2);
/* The same, and gives the exit status. */
#define complain_status(status, ...) (complain(__VA_ARGS__), (int) (status))

/* What all commands take. */
typedef struct CommonOptions {
        bool help;
        char *socket;
        char *workspace; /* absolute; NULL if none */
        bool workspace_ro;
        bool json;
        bool progress;
} CommonOptions;

void common_options_done(CommonOptions *options);

#define OPTION_ROW_WORKSPACE                                                                       \
        {                                                                                          \
                "workspace", 'w', "DIR[:ro]", common_take_workspace, 0,                            \
                        "the host's folder DIR is /workspace of the jobs of this connection, and " \
                        "the only "                                                                \
                        "folder of the host that they may have; :ro makes it read-only"            \
        }
#define OPTION_ROW_SOCKET                                                                          \
        {                                                                                          \
                "socket", 0, "PATH", option_take_string, offsetof(CommonOptions, socket),          \
                        "the broker's socket; default is $AGENTCRATE_SOCKET, else the system's "   \
                        "for root and the "                                                        \
                        "user's own otherwise"                                                     \
        }
#define OPTION_ROW_JSON(text)                                                                      \
        { "json", 0, NULL, option_take_flag, offsetof(CommonOptions, json), text }
#define OPTION_ROW_HELP                                                                            \
        { "help", 'h', NULL, option_take_stop, offsetof(CommonOptions, help), "print this text" }

int common_take_workspace(const Option *option, const char *value, void *target, char **ret_text);

enum {
        _COMMAND_E_SUCCESS,
        COMMAND_E_DONE, /* *ret_status is the exit status: help was printed, or the usage is wrong
                         */
};

/* Parses the command's options and counts its words. 0, COMMAND_E_DONE or a negative errno. */
int command_parse(const Command *command, int argc, char *const *argv, size_t words_min,
                  size_t words_max, CommonOptions *options, StrV *ret_words, int *ret_status);
