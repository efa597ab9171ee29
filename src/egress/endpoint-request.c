/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/endpoint-request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "basic/error.h"
#include "ipc/proto.h"

static bool host_is(const char *name, const HttpText *host) {
        size_t size = strlen(name);

        if (!host || host->size < size || strncasecmp(host->data, name, size) != 0)
                return false;
        return host->size == size ||
               (host->size == size + 3 && memcmp(host->data + size, ":80", 3) == 0);
}

const char *request_find_fault(const HttpRequest *request, const char *host, int *ret_status,
                               const char **ret_text) {
        const HttpText *expect = http_request_header(request, "expect");

        if (!host_is(host, http_request_header(request, "host"))) {
                *ret_status = 421;
                *ret_text = "the Host of the request is another one than it was sent to";
                return "request.host";
        }
        if (http_request_header(request, "upgrade")) {
                *ret_status = 400;
                *ret_text = "an operation is one request and one answer: it cannot be upgraded";
                return "request.upgrade";
        }
        if (expect && !(expect->size == 12 && strncasecmp(expect->data, "100-continue", 12) == 0)) {
                *ret_status = 417;
                *ret_text = "nothing but 100-continue can be expected here";
                return "request.expect";
        }
        return NULL;
}

/* Of a key in a query only what looks like one: else it may be a value. */
static bool is_word(OperationSpan part) {
        for (size_t i = 0; i < part.size; i++) {
                char c = part.text[i];

                if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      strchr("_-.[]", c)))
                        return false;
        }
        return part.size > 0 && part.size <= OPERATION_NAME_MAX;
}

void request_format_fault(const OperationFault *fault,
                          char ret_text[static REQUEST_FAULT_TEXT_MAX]) {
        bool named = is_word(fault->part);

        (void) snprintf(ret_text, REQUEST_FAULT_TEXT_MAX, "%s%s%.*s", fault->text,
                        named ? ": " : "", named ? (int) fault->part.size : 0,
                        named ? fault->part.text : "");
}

const char *request_format_limit(const Operation *operation, const char *limit,
                                 char ret_text[static REQUEST_FAULT_TEXT_MAX]) {
        if (string_equal(limit, "per_job")) {
                (void) snprintf(ret_text, REQUEST_FAULT_TEXT_MAX,
                                "the job has made all the calls of this operation that per_job "
                                "allows, %" PRIu64,
                                operation->per_job);
                return "limit.per_job";
        }
        (void) snprintf(ret_text, REQUEST_FAULT_TEXT_MAX,
                        "all the calls of this operation that per_minute allows, %" PRIu64
                        ", were made in the last minute: try again later",
                        operation->per_minute);
        return "limit.per_minute";
}

static bool header_passes(const StrV *more, HttpText name) {
        static const char *const names[] = {"accept",    "accept-language",   "content-type",
                                            "if-match",  "if-modified-since", "if-none-match",
                                            "user-agent"};

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (strlen(names[i]) == name.size &&
                    strncasecmp(names[i], name.data, name.size) == 0)
                        return true;
        for (size_t i = 0; i < more->n_items; i++)
                if (strlen(more->items[i]) == name.size &&
                    strncasecmp(more->items[i], name.data, name.size) == 0)
                        return true;
        return false;
}

static bool has_header(const StrV *headers, HttpText name) {
        for (size_t i = 0; i < headers->n_items; i++)
                if (strncasecmp(headers->items[i], name.data, name.size) == 0 &&
                    headers->items[i][name.size] == ':')
                        return true;
        return false;
}

int request_take_headers(const HttpRequest *request, const Credential *credential, StrV *headers) {
        int r = 0;

        for (size_t i = 0; i < request->n_headers && r == 0; i++) {
                HttpText name = request->headers[i].name, value = request->headers[i].value;

                if (!header_passes(&credential->headers, name) || has_header(headers, name) ||
                    value.size == 0)
                        continue;
                r = strv_appendf(headers, "%.*s: %.*s", (int) name.size, name.data,
                                 (int) value.size, value.data);
        }
        return error_trace(r);
}

static void digest_format(const struct sha256_ctx *done, char ret_hex[static REQUEST_DIGEST_SIZE]) {
        struct sha256_ctx context = *done;
        uint8_t digest[SHA256_DIGEST_SIZE];

        sha256_digest(&context, sizeof(digest), digest);
        for (size_t i = 0; i < sizeof(digest); i++)
                (void) snprintf(ret_hex + 2 * i, 3, "%02x", digest[i]);
}

static int add_parameter(StrBuf *out, const char *name, const char *value) {
        char hex[REQUEST_DIGEST_SIZE];
        struct sha256_ctx context;

        if (out->size + strlen(name) + sizeof(hex) + 3 > PROTO_EGRESS_PARAMETERS_MAX)
                return 0;
        sha256_init(&context);
        sha256_update(&context, strlen(value), (const uint8_t *) value);
        digest_format(&context, hex);
        return error_trace(strbuf_appendf(out, "%s%s %s", out->size > 0 ? " " : "", name, hex));
}

int request_digest_parameters(const OperationMatch *match, StrBuf *parameters) {
        const Operation *operation = match->operation;
        size_t value = 0;
        int r = 0;

        strbuf_done(parameters);
        for (size_t i = 0; r == 0 && i < operation->n_segments; i++)
                if (!operation->segments[i].literal)
                        r = add_parameter(parameters, operation->segments[i].parameter.name,
                                          match->path.items[value++]);
        for (size_t i = 0; r == 0 && i < operation->n_query; i++)
                if (*match->query.items[i])
                        r = add_parameter(parameters, operation->query[i].name,
                                          match->query.items[i]);
        return error_trace(r);
}

void request_digest(const HttpRequest *request, char ret_hex[static REQUEST_DIGEST_SIZE]) {
        struct sha256_ctx context;

        sha256_init(&context);
        sha256_update(&context, request->method.size, (const uint8_t *) request->method.data);
        sha256_update(&context, 1, (const uint8_t *) " ");
        sha256_update(&context, request->target.size, (const uint8_t *) request->target.data);
        sha256_update(&context, 1, (const uint8_t *) "\n");
        if (request->body.size > 0)
                sha256_update(&context, request->body.size, (const uint8_t *) request->body.data);
        digest_format(&context, ret_hex);
}
