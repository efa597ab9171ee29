/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The limits of a job: one table of names, units and defaults, for options, templates, tool
 * arguments and records alike.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum LimitName {
        LIMIT_MEMORY,
        LIMIT_PIDS,
        LIMIT_CPUS,
        LIMIT_CPU_TIME,
        LIMIT_WALL_TIME,
        LIMIT_DISK,
        LIMIT_INODES,
        LIMIT_OPEN_FILES,
        LIMIT_FILE_SIZE,
        LIMIT_OUTPUT,
        LIMIT_IO_READ_BPS,
        LIMIT_IO_WRITE_BPS,
        _LIMIT_MAX,
        _LIMIT_INVALID = -1,
} LimitName;

typedef enum LimitUnit {
        LIMIT_UNIT_BYTES, /* JSON: integer or "64M" */
        LIMIT_UNIT_COUNT, /* JSON: integer */
        LIMIT_UNIT_MILLI, /* thousandths; JSON: a number such as 1.5 */
        LIMIT_UNIT_USEC,  /* microseconds; JSON: integer milliseconds or "10s"; on the command line
                             bare numbers are seconds */
} LimitUnit;

#define LIMIT_UNLIMITED UINT64_MAX

typedef struct Limits {
        uint64_t max[_LIMIT_MAX]; /* LIMIT_UNLIMITED or a value in the unit's base */
        uint32_t given;           /* bit n: limit n was asked for, not a default */
} Limits;

typedef enum OnHit {
        ON_HIT_END,
        ON_HIT_REFUSE,
} OnHit;

/* Which means are strong enough. */
typedef enum Enforce {
        ENFORCE_SAMPLED, /* looking at the job from time to time, where there is nothing better */
        ENFORCE_STRICT,  /* only what the job cannot outrun */
} Enforce;

const char *limit_to_string(LimitName name);
LimitName limit_from_string(const char *s);
LimitUnit limit_unit(LimitName name);
/* With less a crate could not be made, or no command be started in it. 1 for most. */
uint64_t limit_minimum(LimitName name);
#define LIMIT_TEXT_SIZE 32U
/* "64M", "1.5s", "512": a value as it would be given on the command line. */
void limit_format(LimitName name, uint64_t value, char *ret, size_t size);

/* The defaults of jobs that come by MCP. agentcrate-run starts from these and sets wall_time and
 * output to unlimited. */
void limits_init(Limits *limits);
void limits_set(Limits *limits, LimitName name, uint64_t value);
/* Overrides limits by what is given in over. */
void limits_merge(Limits *limits, const Limits *over);
/* Private files lie in memory: lowers disk to half of the memory. Where disk was asked for, and not
 * a default, notes gets a sentence on it. 0 or -ENOMEM. */
struct StrV;
int limits_fit_disk(Limits *limits, struct StrV *notes);

/*
 * Parses "NAME=VALUE" of a command line. 0, or -EINVAL with *ret_text: one sentence that names the
 * limit, what is wrong and what would be right (owned by the caller).
 */
int limits_parse_option(Limits *limits, const char *option, char **ret_text);
/* Parses the VALUE alone, as it would stand on a command line, for that limit. */
int limit_parse_value(LimitName name, const char *value, uint64_t *ret_value, char **ret_text);

/* From JSON: the object of limits in a template or tool call. Adds to diags under the node's place.
 */
struct JsonDoc;
struct JsonNode;
struct DiagList;
int limits_parse_json(Limits *limits, const struct JsonDoc *doc, const struct JsonNode *object,
                      const char *file, struct DiagList *diags);
/* One limit of it. */
int limit_parse_json(Limits *limits, LimitName name, const struct JsonDoc *doc,
                     const struct JsonNode *node, const char *file, struct DiagList *diags);

/* 0 or -EINVAL */
int on_hit_from_string(const char *s, OnHit *ret_on_hit);
const char *on_hit_to_string(OnHit on_hit);
int enforce_from_string(const char *s, Enforce *ret_enforce);
const char *enforce_to_string(Enforce enforce);
