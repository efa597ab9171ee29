/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The text of one line, made and read; no files here.
 *
 * A line is made in two steps: its body when something happens, and the line when the body is
 * written, since only then its place in the chain is known.
 */

#include "basic/json-scan.h"
#include "record/audit.h"

/* The bytes of a client's text that are kept; what is cut ends with a mark and the whole size. */
#define AUDIT_NAME_MAX 256U
#define AUDIT_REASON_MAX 1024U
#define AUDIT_PAYLOAD_MAX 4096U

/* The last line of a chain. */
typedef struct AuditHead {
        uint64_t seq; /* 0: there is none, and hash is "" */
        char hash[AUDIT_HASH_SIZE];
        uint64_t n_open; /* only of the file of the head: decisions so far without an end */
} AuditHead;

typedef struct AuditStamp {
        uint64_t wall_usec; /* since 1970 */
        uint64_t mono_nsec;
} AuditStamp;

AuditStamp audit_stamp_now(void);

void audit_hash(const void *data, size_t size, char *ret_hash);

/* Everything behind "prev". All return 0 or -ENOMEM. */
int audit_body_decision(StrBuf *body, AuditStamp stamp, const AuditCall *call,
                        const AuditDecision *decision, bool payloads);
int audit_body_end(StrBuf *body, AuditStamp stamp, const AuditCall *call, const AuditEnd *end,
                   bool payloads);
int audit_body_operation(StrBuf *body, AuditStamp stamp, const AuditCall *call,
                         const AuditOperation *operation);
int audit_body_egress(StrBuf *body, AuditStamp stamp, const AuditCall *call,
                      const AuditEgress *egress);
/* The whole line with its newline, and the head of the chain behind it. */
int audit_line(StrBuf *line, const AuditHead *before, const StrBuf *body, AuditHead *ret_head);

/* A JSON string of foreign bytes: pure ASCII, cut at max bytes, behind which nothing is read but
 * one byte. NULL becomes null. */
int audit_append_text(StrBuf *out, const char *text, size_t size, size_t max);

typedef struct AuditRecord {
        JsonDoc *doc; /* of the line, which must outlive it */
        uint64_t seq;
        char prev[AUDIT_HASH_SIZE]; /* "": there is none */
} AuditRecord;

enum {
        _AUDIT_RECORD_E_SUCCESS,
        AUDIT_RECORD_E_INVALID, /* *ret_text, static, tells why it is no record */
};

/* line is without its newline. 0, AUDIT_RECORD_E_INVALID or -ENOMEM. */
int audit_record_parse(const char *line, size_t size, AuditRecord *ret_record,
                       const char **ret_text);
void audit_record_done(AuditRecord *record);
/* A string member of the record, NULL if there is none; owned. */
int audit_record_string(const AuditRecord *record, const char *name, char **ret_string);
/* Its time in microseconds since 1970. */
int audit_record_time(const AuditRecord *record, uint64_t *ret_usec);

/* "2026-11-29T10:00:00.000000Z": the fraction may be shorter or missing. AUDIT_RECORD_E_INVALID if
 * it is none. */
int audit_parse_time(const char *text, uint64_t *ret_usec);

/* "{"seq":…,"hash":…,"open":…}" of the file of the head. 0, AUDIT_RECORD_E_INVALID or -ENOMEM. */
int audit_head_parse(const char *text, size_t size, AuditHead *ret_head);
