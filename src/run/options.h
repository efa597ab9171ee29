/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The command line of agentcrate-run. One table holds the options: it parses them and it prints
 * --help, and a test holds the man page against it.
 */

#include <stdbool.h>
#include <stdio.h>

#include "basic/string-util.h"
#include "policy/destination.h"
#include "policy/limits.h"

typedef struct RunBind {
        char *path; /* as given */
        bool writable;
} RunBind;

typedef enum RunAction {
        RUN_ACTION_RUN,
        RUN_ACTION_PRINT_PLAN,
        RUN_ACTION_HELP,
        RUN_ACTION_VERSION,
} RunAction;

typedef struct RunOptions {
        RunAction action;
        StrV argv;
        char *workspace; /* as given, without its mode; NULL if none */
        bool workspace_ro;
        RunBind *binds;
        size_t n_binds;
        char *cwd;      /* absolute, in the crate; NULL: the default */
        StrV env;       /* NAME=VALUE */
        char *template; /* NULL: host */
        char *profile;  /* NULL: the template's */
        Limits limits;  /* only what was given counts */
        DestinationList allow;
        StrV operations; /* CRED.OP or CRED.* */
        char *timeout;   /* as given */
        Enforce enforce;
        OnHit on_hit;
        bool on_hit_given;
        size_t capture;
        bool capture_given;
        char *result; /* file for the record; NULL if none */
        bool json;
        bool tty;
} RunOptions;

void run_options_done(RunOptions *options);

enum {
        _RUN_OPTIONS_E_SUCCESS,
        RUN_OPTIONS_E_INVALID, /* ret_text tells, in one sentence */
};

/*
 * Parses the arguments. argv is borrowed. 0, RUN_OPTIONS_E_INVALID with *ret_text set (owned by the
 * caller), or a negative errno.
 */
int run_options_parse(int argc, char *const *argv, RunOptions *ret_options, char **ret_text);

void run_options_print_help(FILE *out);
