/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A menu of operations: the requests that may be sent with a credential, and no others. A request
 * is matched exactly and in one way only: its path is taken apart at the slashes that it was
 * written with, each part is decoded once, and is then either the word of the menu or a value of
 * the menu's type. What goes out is built anew from the menu and those values, never copied from
 * the request.
 *
 * Needs basic only, since agentcrate-egress links it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "basic/macros.h"
#include "basic/string-util.h"

#define OPERATION_NAME_MAX 64U
#define OPERATION_SEGMENTS_MAX 32U
#define OPERATION_QUERY_MAX 32U
#define OPERATION_SLUG_MAX 128U
#define OPERATION_MENU_MAX 256U

typedef enum OperationMethod {
        OPERATION_GET,
        OPERATION_HEAD,
        OPERATION_POST,
        OPERATION_PUT,
        OPERATION_PATCH,
        OPERATION_DELETE,
        _OPERATION_METHOD_MAX,
} OperationMethod;

typedef enum OperationType {
        OPERATION_SLUG, /* letters, digits, -, _, . and ~; neither . nor .. */
        OPERATION_INT,
        OPERATION_UUID,
        OPERATION_DATE, /* 2024-02-29 */
        OPERATION_ENUM,
        _OPERATION_TYPE_MAX,
} OperationType;

typedef enum OperationBody {
        OPERATION_BODY_NONE,
        OPERATION_BODY_JSON,
        OPERATION_BODY_FORM,
        OPERATION_BODY_RAW,
        _OPERATION_BODY_MAX,
} OperationBody;

typedef struct OperationParameter {
        char *name;
        OperationType type;
        int64_t minimum, maximum; /* of an int */
        StrV words;               /* of an enum */
        bool required;            /* of a query; what stands in a path always is */
} OperationParameter;

typedef struct OperationSegment {
        char *literal; /* NULL: the parameter */
        OperationParameter parameter;
} OperationSegment;

typedef struct Operation {
        char *name;
        char *description;
        OperationMethod method;
        char *path; /* as it was written */
        OperationSegment *segments;
        size_t n_segments;
        OperationParameter *query;
        size_t n_query;
        OperationBody body;
        uint64_t body_max;
        uint64_t response_max;
        uint64_t response_usec;
        uint64_t per_job, per_minute; /* 0: as many as one likes */
        bool expose;
        uint32_t line;
} Operation;

typedef struct OperationMenu {
        Operation *items; /* sorted by name */
        size_t n_items;
} OperationMenu;

void operation_parameter_done(OperationParameter *parameter);
void operation_done(Operation *operation);
void operation_menu_done(OperationMenu *menu);
/* Of its path or its query, by name; NULL: there is none. */
const OperationParameter *operation_find_parameter(const Operation *operation, const char *name);
void operation_menu_sort(OperationMenu *menu);
const Operation *operation_menu_find(const OperationMenu *menu, const char *name);

/* NULL-terminated lists of the words, in the order of the enumerations. */
extern const char *const operation_methods[], *const operation_types[], *const operation_bodies[];

bool operation_name_is_valid(const char *name);
/* Whether decoded text is a value of the parameter's type. */
bool operation_value_is_valid(const OperationParameter *parameter, const char *text, size_t size);

typedef struct OperationSpan {
        const char *text;
        size_t size;
} OperationSpan;

/* Parses "{name:type}" or a plain word, which is one part of a path. 0, OPERATION_E_TEMPLATE with a
 * static *ret_text, or -ENOMEM. */
int operation_segment_parse(const char *text, size_t size, OperationSegment *ret_segment,
                            const char **ret_text);
/* "int", "enum(open|closed)" … as it stands in a path or in the key "type". */
int operation_type_parse(const char *text, size_t size, OperationParameter *parameter,
                         const char **ret_text);
/* A whole path. */
int operation_path_parse(const char *text, Operation *operation, const char **ret_text);
/* Whether one request could be both. */
bool operation_overlaps(const Operation *a, const Operation *b);

enum {
        _OPERATION_E_SUCCESS,
        OPERATION_E_TEMPLATE,
        OPERATION_E_NO_MATCH,  /* no operation has that method and path */
        OPERATION_E_QUERY,     /* one has, but not with that query */
        OPERATION_E_METHOD,    /* a method that no operation can have */
        OPERATION_E_BODY_SIZE, /* of operation_check_body() */
        OPERATION_E_BODY_TYPE,
        OPERATION_E_BODY,
};

/* The values of one request, in the order of the menu. */
typedef struct OperationMatch {
        const Operation *operation;
        StrV path;
        StrV query; /* "": that key was not given */
} OperationMatch;

void operation_match_done(OperationMatch *match);

/* Why a request is none. */
typedef struct OperationFault {
        const char *text;           /* static; nothing of the request is in it */
        OperationSpan part;         /* that is meant: a method, or a key of the query; maybe none */
        const Operation *operation; /* NULL: it was not found */
} OperationFault;

/* Finds the operation that a request is. Behind OPERATION_E_X, *ret_fault tells. */
int operation_match(const OperationMenu *menu, OperationSpan method, OperationSpan target,
                    OperationMatch *ret_match, OperationFault *ret_fault);
/* Whether this content may be sent with it. type and coding are the request's Content-Type and
 * Content-Encoding; text NULL: not given. 0, OPERATION_E_BODY… or -ENOMEM. */
int operation_check_body(const Operation *operation, OperationSpan type, OperationSpan coding,
                         OperationSpan body, const char **ret_text);
/* Append the path, and what follows the ? (nothing if there is no query): the one form of that
 * request. 0 or -ENOMEM. */
int operation_append_path(const OperationMatch *match, StrBuf *out);
int operation_append_query(const OperationMatch *match, StrBuf *out);
