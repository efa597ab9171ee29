/* SPDX-License-Identifier: Apache-2.0 */

/*
 * agentcrate: client of the broker. One subcommand a file.
 */

#include "basic/diag.h"
#include "basic/error.h"
#include "basic/shared-fd.h"
#include "cli/command.h"

static const Command *const commands[] = {
        &command_stdio, &command_tools,  &command_call,
        &command_audit, &command_policy, &command_doctor,
};

static int print_help(void) {
        fputs("Usage: agentcrate COMMAND [OPTIONS] [ARGUMENTS]\n"
              "Talk to the broker, agentcrated, or examine the host.\n\n",
              stdout);
        for (size_t i = 0; i < ELEMENTSOF(commands); i++)
                printf("  %s%s%s\n        %s\n", commands[i]->name,
                       *commands[i]->arguments ? " " : "", commands[i]->arguments,
                       commands[i]->summary);
        fputs("\nagentcrate COMMAND --help tells the options of a command.\n"
              "Exit status: 0 done; 1 the tool answered with an error; 2 wrong usage; 125 no "
              "broker.\n"
              "audit: 0 nothing was changed; 1 something was; 2 wrong usage; 125 it cannot be "
              "read.\n"
              "doctor: 0 crates run; 1 they run, but not with all limits; 2 they cannot run; 125 "
              "wrong usage.\n",
              stdout);
        return EXIT_SUCCESS;
}

static int print_version(void) {
        printf("agentcrate %s\n", PACKAGE_VERSION);
        return EXIT_SUCCESS;
}

static int unknown_word(const char *name) {
        _cleanup_(strbuf_done) StrBuf known = STRBUF_NULL;
        _cleanup_(freep) char *quoted = diag_quote(name);

        if (name[0] == '-')
                return complain_status(
                        EXIT_USAGE,
                        "option %s is unknown before a command; known are --help, -h "
                        "and --version; give a command's own options after it",
                        quoted ?: "");
        for (size_t i = 0; i < ELEMENTSOF(commands); i++)
                if (strbuf_appendf(&known, "%s%s", i > 0 ? ", " : "", commands[i]->name) < 0)
                        return error_origin(-ENOMEM);
        return complain_status(EXIT_USAGE, "command %s is unknown; known are %s", quoted ?: "",
                               known.data);
}

static int dispatch(int argc, char **argv) {
        if (argc < 2)
                return complain_status(EXIT_USAGE, "no command was given; see agentcrate --help");
        if (string_equal(argv[1], "--help") || string_equal(argv[1], "-h"))
                return print_help();
        if (string_equal(argv[1], "--version"))
                return print_version();
        for (size_t i = 0; i < ELEMENTSOF(commands); i++)
                if (string_equal(argv[1], commands[i]->name))
                        return commands[i]->run(commands[i], argc - 1, argv + 1);
        return unknown_word(argv[1]);
}

int main(int argc, char *argv[]) {
        const struct sigaction ignore = {.sa_handler = SIG_IGN};
        int r;

        /* A closed reader is an outcome of write. */
        (void) sigaction(SIGPIPE, &ignore, NULL);
        r = standard_fds_fill();
        if (r >= 0)
                r = dispatch(argc, argv);
        if (r < 0)
                return complain_status(EXIT_NO_BROKER, "%s", strerror(-r));
        if (fflush(stdout) != 0 || ferror(stdout))
                return complain_status(EXIT_FAILURE, "cannot write standard output: %s",
                                       strerror(errno));
        return r;
}
