/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "basic/json-scan.h"
#include "basic/macros.h"
#include "basic/parse-util.h"
#include "basic/string-util.h"
#include "basic/time-util.h"

#define MIB (1024ULL * 1024)
#define GIB (1024ULL * MIB)

typedef struct LimitInfo {
        const char *name;
        LimitUnit unit;
        uint64_t initial;
        uint64_t minimum;
} LimitInfo;

static const LimitInfo limit_table[_LIMIT_MAX] = {
        [LIMIT_MEMORY] = {"memory", LIMIT_UNIT_BYTES, 2 * GIB, 2 * MIB},
        [LIMIT_PIDS] = {"pids", LIMIT_UNIT_COUNT, 512, 1},
        [LIMIT_CPUS] = {"cpus", LIMIT_UNIT_MILLI, LIMIT_UNLIMITED, 1},
        [LIMIT_CPU_TIME] = {"cpu_time", LIMIT_UNIT_USEC, LIMIT_UNLIMITED, 1},
        [LIMIT_WALL_TIME] = {"wall_time", LIMIT_UNIT_USEC, 120 * USEC_PER_SEC, 1},
        [LIMIT_DISK] = {"disk", LIMIT_UNIT_BYTES, GIB, 65536},
        [LIMIT_INODES] = {"inodes", LIMIT_UNIT_COUNT, 100000, 64},
        [LIMIT_OPEN_FILES] = {"open_files", LIMIT_UNIT_COUNT, 1024, 32},
        [LIMIT_FILE_SIZE] = {"file_size", LIMIT_UNIT_BYTES, LIMIT_UNLIMITED, 1},
        [LIMIT_OUTPUT] = {"output", LIMIT_UNIT_BYTES, 64 * MIB, 1},
        [LIMIT_IO_READ_BPS] = {"io_read_bps", LIMIT_UNIT_BYTES, LIMIT_UNLIMITED, 1},
        [LIMIT_IO_WRITE_BPS] = {"io_write_bps", LIMIT_UNIT_BYTES, LIMIT_UNLIMITED, 1},
};

typedef struct UnitInfo {
        int (*parse)(const char *s, uint64_t *ret_value);
        const char *remedy;      /* on a command line */
        const char *json_remedy; /* in a file or a tool call */
} UnitInfo;

static const UnitInfo unit_table[] = {
        [LIMIT_UNIT_BYTES] = {parse_size, "give bytes such as 4096, 64M or 1G",
                              "give bytes as a number, or with a suffix such as \"64M\" or "
                              "\"1G\""},
        [LIMIT_UNIT_COUNT] = {parse_count, "give a whole number such as 512",
                              "give a whole number such as 512"},
        [LIMIT_UNIT_MILLI] = {parse_milli, "give a number such as 2 or 1.5",
                              "give a number such as 2 or 1.5"},
        [LIMIT_UNIT_USEC] = {parse_time_usec, "give a time such as 500ms, 10s or 5m",
                             "give milliseconds as a number, or a time such as \"500ms\", "
                             "\"10s\" or \"5m\""},
};

/* The kernel's own figures are signed; above this nothing could be set, and the largest number of
 * all means unlimited here. */
static const uint64_t value_max = INT64_MAX;

const char *limit_to_string(LimitName name) {
        return limit_table[name].name;
}

LimitName limit_from_string(const char *s) {
        for (LimitName name = 0; name < _LIMIT_MAX; name++)
                if (string_equal(limit_table[name].name, s))
                        return name;
        return _LIMIT_INVALID;
}

LimitUnit limit_unit(LimitName name) {
        return limit_table[name].unit;
}

void limit_format(LimitName name, uint64_t value, char *ret, size_t size) {
        static const char suffixes[] = {'K', 'M', 'G'};
        int i = -1;

        switch (limit_unit(name)) {
        case LIMIT_UNIT_USEC:
                (void) snprintf(ret, size, "%.15gs", (double) value / USEC_PER_SEC);
                return;
        case LIMIT_UNIT_MILLI:
                (void) snprintf(ret, size, "%.15g", (double) value / 1000);
                return;
        case LIMIT_UNIT_COUNT:
                (void) snprintf(ret, size, "%" PRIu64, value);
                return;
        case LIMIT_UNIT_BYTES:
                break;
        }
        while (i < 2 && value >= 1024 && value % 1024 == 0) {
                value /= 1024;
                i++;
        }
        if (i < 0)
                (void) snprintf(ret, size, "%" PRIu64 " bytes", value);
        else
                (void) snprintf(ret, size, "%" PRIu64 "%c", value, suffixes[i]);
}

uint64_t limit_minimum(LimitName name) {
        return limit_table[name].minimum;
}

void limits_init(Limits *limits) {
        *limits = (Limits){};
        for (LimitName name = 0; name < _LIMIT_MAX; name++)
                limits->max[name] = limit_table[name].initial;
}

void limits_set(Limits *limits, LimitName name, uint64_t value) {
        limits->max[name] = value;
        limits->given |= 1U << name;
}

void limits_merge(Limits *limits, const Limits *over) {
        for (LimitName name = 0; name < _LIMIT_MAX; name++)
                if (over->given & 1U << name)
                        limits_set(limits, name, over->max[name]);
}

int limits_fit_disk(Limits *limits, StrV *notes) {
        uint64_t memory = limits->max[LIMIT_MEMORY], asked = limits->max[LIMIT_DISK];
        char wanted[LIMIT_TEXT_SIZE], most[LIMIT_TEXT_SIZE];

        if (memory == LIMIT_UNLIMITED || asked <= memory / 2)
                return 0;
        limits->max[LIMIT_DISK] = memory / 2;
        if (!(limits->given & 1U << LIMIT_DISK))
                return 0;
        limit_format(LIMIT_DISK, asked, wanted, sizeof(wanted));
        limit_format(LIMIT_DISK, memory / 2, most, sizeof(most));
        return error_trace(strv_appendf(notes,
                                        "limit disk: %s was asked for, and it is %s: private files "
                                        "lie in memory, of which they get half",
                                        wanted, most));
}

/* "a, b and c" of all limits. */
static char *all_names(void) {
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;

        for (LimitName name = 0; name < _LIMIT_MAX; name++)
                if (strbuf_appendf(&buf, "%s%s",
                                   name == 0                ? ""
                                   : name == _LIMIT_MAX - 1 ? " and "
                                                            : ", ",
                                   limit_to_string(name)) < 0)
                        return NULL;
        return strbuf_steal(&buf);
}

/* The text about a name that is no limit. */
static int name_refusal(const char *given, char **ret_text) {
        _cleanup_(freep) char *known = all_names(), *quoted = diag_quote(given);

        if (!known || !quoted ||
            asprintf(ret_text, "limit %s is unknown; known are %s", quoted, known) < 0)
                return error_origin(-ENOMEM);
        return 0;
}

static int value_refusal(LimitName name, const char *value, const char *wrong, char **ret_text) {
        _cleanup_(freep) char *quoted = diag_quote(value);

        if (!quoted || asprintf(ret_text, "limit %s: %s %s; %s", limit_to_string(name), quoted,
                                wrong, unit_table[limit_unit(name)].remedy) < 0)
                return error_origin(-ENOMEM);
        return -EINVAL;
}

/* A value of the command line; PARSE_E_X. */
static int value_parse(LimitName name, const char *value, uint64_t *ret_value) {
        uint64_t v;
        int r;

        r = unit_table[limit_unit(name)].parse(value, &v);
        if (r != 0)
                return r;
        if (v > value_max)
                return PARSE_E_OVERFLOW;
        *ret_value = v;
        return 0;
}

int limit_parse_value(LimitName name, const char *value, uint64_t *ret_value, char **ret_text) {
        int r;

        r = value_parse(name, value, ret_value);
        if (r == 0)
                return 0;
        return value_refusal(name, value,
                             string_empty(value) ? "is empty" : parse_error_to_string(r), ret_text);
}

int limits_parse_option(Limits *limits, const char *option, char **ret_text) {
        _cleanup_(freep) char *name = NULL, *quoted = NULL;
        const char *equals = strchr(option, '=');
        LimitName limit;
        uint64_t value;
        int r;

        if (!equals) {
                quoted = diag_quote(option);
                if (!quoted || asprintf(ret_text,
                                        "limit %s has no value; give NAME=VALUE such as "
                                        "wall_time=10s",
                                        quoted) < 0)
                        return error_origin(-ENOMEM);
                return -EINVAL;
        }

        name = strndup(option, (size_t) (equals - option));
        if (!name)
                return error_origin(-ENOMEM);
        limit = limit_from_string(name);
        if (limit == _LIMIT_INVALID) {
                r = name_refusal(name, ret_text);
                return r < 0 ? error_trace(r) : -EINVAL;
        }

        r = limit_parse_value(limit, equals + 1, &value, ret_text);
        if (r < 0)
                return r;
        limits_set(limits, limit, value);
        return 0;
}

/* --- JSON --- */

/* A string, which in a file needs a suffix if it is a time: a bare number means milliseconds there
 * and seconds on a command line, and in quotes it could be taken for either. */
static int json_string_value(LimitName name, const JsonDoc *doc, const JsonNode *node,
                             uint64_t *ret_value, const char **ret_wrong) {
        _cleanup_(freep) char *s = NULL;
        LimitUnit unit = limit_unit(name);
        int r;

        if (unit != LIMIT_UNIT_BYTES && unit != LIMIT_UNIT_USEC) {
                *ret_wrong = "is a string";
                return 0;
        }

        r = json_node_string(doc, node, &s, NULL);
        if (r < 0)
                return error_trace(r);
        if (r > 0 || string_empty(s))
                *ret_wrong = r > 0 ? "holds U+0000" : "is empty";
        else if (unit == LIMIT_UNIT_USEC && s[strspn(s, "0123456789.")] == 0)
                *ret_wrong = "has no suffix";
        else {
                r = value_parse(name, s, ret_value);
                if (r > 0)
                        *ret_wrong = parse_error_to_string(r);
        }
        return 0;
}

static int json_milli_value(const JsonDoc *doc, const JsonNode *node, uint64_t *ret_value,
                            const char **ret_wrong) {
        double value;
        int r;

        r = json_node_double(doc, node, &value);
        if (r < 0)
                return error_trace(r);

        value *= 1000;
        if (r > 0 || value >= (double) value_max)
                *ret_wrong = "is too large";
        else if (value < 0)
                *ret_wrong = "is negative";
        else if (value < 1)
                *ret_wrong = fpclassify(value) == FP_ZERO ? "is zero" : "is too small";
        else
                *ret_value = (uint64_t) (value + 0.5);
        return 0;
}

static int json_number_value(LimitName name, const JsonDoc *doc, const JsonNode *node,
                             uint64_t *ret_value, const char **ret_wrong) {
        const char *slice = json_node_slice(doc, node);
        uint64_t unit = limit_unit(name) == LIMIT_UNIT_USEC ? USEC_PER_MSEC : 1, value;

        if (limit_unit(name) == LIMIT_UNIT_MILLI)
                return json_milli_value(doc, node, ret_value, ret_wrong);

        if (slice[0] == '-')
                *ret_wrong = "is negative";
        else if (memchr(slice, '.', node->size) || memchr(slice, 'e', node->size) ||
                 memchr(slice, 'E', node->size))
                *ret_wrong = "is no whole number";
        else if (json_node_uint64(doc, node, &value) != 0 ||
                 __builtin_mul_overflow(value, unit, &value) || value > value_max)
                *ret_wrong = "is too large";
        else if (value == 0)
                *ret_wrong = "is zero";
        else
                *ret_value = value;
        return 0;
}

int limit_parse_json(Limits *limits, LimitName name, const JsonDoc *doc, const JsonNode *node,
                     const char *file, DiagList *diags) {
        _cleanup_(freep) char *excerpt = NULL, *path = NULL;
        const char *wrong = NULL;
        uint64_t value = 0;
        int r = 0;

        if (node->type == JSON_NODE_STRING)
                r = json_string_value(name, doc, node, &value, &wrong);
        else if (node->type == JSON_NODE_NUMBER)
                r = json_number_value(name, doc, node, &value, &wrong);
        else
                wrong = "is no number";
        if (r < 0)
                return error_trace(r);
        if (!wrong) {
                limits_set(limits, name, value);
                return 0;
        }

        excerpt = diag_excerpt(json_node_slice(doc, node), node->size);
        path = json_node_path(doc, node);
        if (!excerpt || !path)
                return error_origin(-ENOMEM);
        return error_trace(diag_add(diags, file, node->line, node->column, path, "%s %s; %s",
                                    excerpt, wrong, unit_table[limit_unit(name)].json_remedy));
}

static int json_member(Limits *limits, const JsonDoc *doc, const JsonNode *node, const char *file,
                       DiagList *diags) {
        _cleanup_(freep) char *key = NULL, *path = NULL, *text = NULL;
        LimitName name;
        int r;

        r = json_node_key(doc, node, &key);
        if (r < 0)
                return error_trace(r);
        name = limit_from_string(key);
        if (name != _LIMIT_INVALID)
                return error_trace(limit_parse_json(limits, name, doc, node, file, diags));

        path = json_node_path(doc, node);
        if (!path)
                return error_origin(-ENOMEM);

        r = name_refusal(key, &text);
        if (r < 0)
                return error_trace(r);
        return error_trace(diag_add(diags, file, node->line, node->column, path, "%s", text));
}

int limits_parse_json(Limits *limits, const JsonDoc *doc, const JsonNode *object, const char *file,
                      DiagList *diags) {
        _cleanup_(freep) char *path = NULL;
        int r;

        if (object->type != JSON_NODE_OBJECT) {
                path = json_node_path(doc, object);
                if (!path)
                        return error_origin(-ENOMEM);
                return error_trace(diag_add(diags, file, object->line, object->column, path,
                                            "limits are an object such as {\"memory\": \"1G\"}"));
        }

        for (const JsonNode *node = object->first; node; node = node->next) {
                r = json_member(limits, doc, node, file, diags);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

static const char *const on_hit_table[] = {
        [ON_HIT_END] = "end",
        [ON_HIT_REFUSE] = "refuse",
};

int on_hit_from_string(const char *s, OnHit *ret_on_hit) {
        for (OnHit on_hit = 0; on_hit < ELEMENTSOF(on_hit_table); on_hit++)
                if (string_equal(on_hit_table[on_hit], s)) {
                        *ret_on_hit = on_hit;
                        return 0;
                }
        return -EINVAL;
}

const char *on_hit_to_string(OnHit on_hit) {
        return on_hit_table[on_hit];
}

static const char *const enforce_table[] = {
        [ENFORCE_SAMPLED] = "sampled",
        [ENFORCE_STRICT] = "strict",
};

int enforce_from_string(const char *s, Enforce *ret_enforce) {
        for (Enforce enforce = 0; enforce < ELEMENTSOF(enforce_table); enforce++)
                if (string_equal(enforce_table[enforce], s)) {
                        *ret_enforce = enforce;
                        return 0;
                }
        return -EINVAL;
}

const char *enforce_to_string(Enforce enforce) {
        return enforce_table[enforce];
}
