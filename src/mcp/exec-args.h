/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The arguments of sandbox_exec: from the JSON of a call to plain values. Everything is checked
 * before anything is started; a fault is one text for the model that says what to send instead.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "basic/json-scan.h"
#include "basic/string-util.h"
#include "policy/destination.h"
#include "policy/limits.h"

#define EXEC_ARGS_CAPTURE_MAX (8U << 20)

typedef struct ExecArgs {
        StrV argv;     /* empty if command is set */
        char *command; /* NULL if argv is set */
        size_t command_size;
        char *stdin_data; /* NULL: /dev/null */
        size_t stdin_size;
        char *cwd;     /* NULL: the default */
        StrV env;      /* NAME=VALUE */
        Limits limits; /* only what was given, see Limits.given */
        bool capture_given;
        size_t capture;
        bool on_hit_given;
        OnHit on_hit;
        char *template;  /* NULL: the default */
        char *workspace; /* NULL: the connection's, if it has one */
        bool workspace_mode_given;
        bool workspace_ro;
        DestinationList egress; /* beside those of the template */
        StrV operations;        /* the same: "CRED.OP" or "CRED.*" */
} ExecArgs;

enum {
        _EXEC_ARGS_E_SUCCESS,
        EXEC_ARGS_E_INVALID, /* ret_text tells */
};

void exec_args_init(ExecArgs *args);
void exec_args_done(ExecArgs *args);

/*
 * Parses the object of arguments, NULL meaning that none were sent. ret_text is owned by the caller
 * and set for EXEC_ARGS_E_INVALID only.
 */
int exec_args_parse(const JsonDoc *doc, const JsonNode *object, ExecArgs *ret_args,
                    char **ret_text);

/* The i-th name of an argument that is taken, NULL behind the last: for the schema's test. */
const char *exec_args_name(size_t i);
