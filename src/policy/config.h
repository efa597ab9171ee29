/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The broker's own configuration, agentcrated.json. Keys whose feature is not built yet are known
 * and their type is checked, but they may only ask for what happens anyway.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "basic/diag.h"
#include "basic/string-util.h"
#include "policy/ceilings.h"
#include "policy/listen-address.h"

/* What holds for whatever any job reaches. */
typedef struct ConfigEgress {
        StrV deny;            /* CIDRs and names in their one form, which nothing leads to */
        StrV resolver;        /* "ADDRESS:PORT"; empty: the system's */
        uint64_t connections; /* of one job at a time, default 256 */
        uint64_t idle_usec;   /* of a connection, default 15 min */
        uint64_t bytes;       /* of one job, both ways; 0, the default: unlimited */
} ConfigEgress;

typedef struct Config {
        char *file;           /* NULL: built-in defaults */
        uint64_t message_max; /* bytes of one MCP message, default 16 MiB */
        uint64_t idle_usec;   /* idle exit when socket-activated, default 60 s */
        size_t crates_max;    /* instance.crates, default 64 */
        Ceilings instance;    /* of all jobs */
        bool enforce_given;
        Enforce enforce;                    /* default sampled; of a system's broker strict */
        uint64_t subuid_base, subuid_count; /* default 1879048192, 65536 */
        ListenAddress listen_metrics;       /* default: nowhere */
        char *audit_path;                   /* NULL: the default place */
        bool audit_fail_open;               /* audit.on_failure is "continue", default "refuse" */
        bool audit_payloads;                /* default false */
        char *otlp;                         /* where traces go; NULL: nowhere */
        ConfigEgress egress;
} Config;

enum {
        _CONFIG_E_SUCCESS,
        CONFIG_E_INVALID, /* diags tell */
};

void config_init(Config *config);
void config_done(Config *config);
/* Adds the keys, those of nested objects as "instance.crates". */
int config_key_names(StrV *names);
/* Parses the file's text into an initialised config, which is unchanged unless this returns 0. */
int config_parse(const char *file, const char *text, size_t size, DiagList *diags, Config *config);
