/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A template: what a crate sees. Read from templates.d/NAME.json, checked completely before use,
 * immutable afterwards.
 */

#include <stdbool.h>
#include <stddef.h>

#include "basic/diag.h"
#include "basic/string-util.h"
#include "policy/destination.h"
#include "policy/limits.h"

typedef struct TemplateBind {
        char *from; /* host path */
        char *to;   /* path in the crate */
} TemplateBind;

typedef struct Template {
        char *name;
        char *file; /* where it was read from */
        char *description;
        char *root; /* NULL: the host's; else an absolute folder */
        TemplateBind *ro;
        size_t n_ro;
        TemplateBind *rw;
        size_t n_rw;
        StrV hide;
        StrV tmpfs;
        bool etc_minimal; /* true: generated; false: the root folder's own /etc ("root") */
        StrV env;         /* NAME=VALUE */
        StrV pass_env;    /* names taken from the host side's environment */
        char *seccomp;    /* profile name */
        Limits limits;
        OnHit on_hit;
        DestinationList egress;    /* what its jobs may reach */
        StrV operations;           /* rules of operations that they may call */
        size_t pool_min, pool_max; /* read and checked; the pool itself comes later */
} Template;

Template *template_free(Template *template);
DEFINE_CLEANUP(Template, template_free);

enum {
        _TEMPLATE_E_SUCCESS,
        TEMPLATE_E_INVALID, /* diags tell */
};

/* 1 to 32 of a-z, 0-9 and -. */
bool template_name_is_valid(const char *name);
/* Adds the keys that a template may have, those of nested objects as "pool.min". */
int template_key_names(StrV *names);

/* Parses one file's text. name is the file name without ".json". The fuzz target's entry. */
int template_parse(const char *name, const char *file, const char *text, size_t size,
                   DiagList *diags, Template **ret_template);
