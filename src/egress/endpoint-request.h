/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What is taken of a job's request for an operation, and what the record keeps of it. */

#include <nettle/sha2.h>

#include "basic/string-util.h"
#include "http/parser.h"
#include "policy/credential.h"
#include "policy/operation.h"

#define REQUEST_DIGEST_SIZE (2 * SHA256_DIGEST_SIZE + 1)

/* What is wrong with how it asks the host of that name, whatever for: a reason of the record, with
 * the status and the text of the answer. NULL: nothing. */
const char *request_find_fault(const HttpRequest *request, const char *host, int *ret_status,
                               const char **ret_text);

#define REQUEST_FAULT_TEXT_MAX 256U

/* Why a request is no operation, in a sentence that names the method or the key of the query. */
void request_format_fault(const OperationFault *fault,
                          char ret_text[static REQUEST_FAULT_TEXT_MAX]);

/* The same of one that comes too often, by the limit that endpoint_count() names; returns the
 * reason in one word. */
const char *request_format_limit(const Operation *operation, const char *limit,
                                 char ret_text[static REQUEST_FAULT_TEXT_MAX]);

/* Appends the fields that may pass to the upstream, each name once. */
int request_take_headers(const HttpRequest *request, const Credential *credential, StrV *headers);

/* Of the method, the target and the body, in hexadecimal digits. */
void request_digest(const HttpRequest *request, char ret_hex[static REQUEST_DIGEST_SIZE]);

/* "NAME DIGEST…" of the parameters of the path, then of those of the query that were given, as many
 * as the record has room for. Values are not told, but who knows one can find it. */
int request_digest_parameters(const OperationMatch *match, StrBuf *parameters);
