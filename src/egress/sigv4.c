/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/sigv4.h"

#include <errno.h>
#include <nettle/hmac.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>

#include "basic/error.h"

static void to_hex(const uint8_t digest[static SHA256_DIGEST_SIZE], char ret_text[static 65]) {
        for (size_t i = 0; i < SHA256_DIGEST_SIZE; i++)
                (void) snprintf(ret_text + 2 * i, 3, "%02x", digest[i]);
}

static void hash(const char *data, size_t size, char ret_text[static 65]) {
        uint8_t digest[SHA256_DIGEST_SIZE];
        struct sha256_ctx context;

        sha256_init(&context);
        if (size > 0)
                sha256_update(&context, size, (const uint8_t *) data);
        sha256_digest(&context, sizeof(digest), digest);
        to_hex(digest, ret_text);
}

/* The key of one step is the digest of the step before. */
static void step(uint8_t key[static SHA256_DIGEST_SIZE], const char *data, size_t size) {
        struct hmac_sha256_ctx context;

        hmac_sha256_set_key(&context, SHA256_DIGEST_SIZE, key);
        hmac_sha256_update(&context, size, (const uint8_t *) data);
        hmac_sha256_digest(&context, SHA256_DIGEST_SIZE, key);
        secret_wipe(&context, sizeof(context));
}

static int first_key(const Secret *secret, const char *day, uint8_t ret_key[static 32]) {
        _cleanup_(secret_done) Secret text = SECRET_NULL;
        struct hmac_sha256_ctx context;
        int r;

        r = secret_new(secret->size + 4, &text);
        if (r < 0)
                return error_trace(r);
        memcpy(text.data, "AWS4", 4);
        memcpy(text.data + 4, secret->data, secret->size);
        hmac_sha256_set_key(&context, secret->size + 4, (const uint8_t *) text.data);
        hmac_sha256_update(&context, 8, (const uint8_t *) day);
        hmac_sha256_digest(&context, SHA256_DIGEST_SIZE, ret_key);
        secret_wipe(&context, sizeof(context));
        return 0;
}

/* All services but S3 encode the path once more; everything but letters, digits and -_.~ is. */
static int append_path(const char *path, bool is_s3, StrBuf *out) {
        int r = 0;

        for (; *path && r == 0; path++) {
                unsigned char c = (unsigned char) *path;
                bool plain = isalnum(c) || strchr("-_.~/", c) || (is_s3 && c == '%');

                r = plain ? strbuf_append_byte(out, *path) : strbuf_appendf(out, "%%%02X", c);
        }
        return error_trace(r);
}

static int compare_pairs(const void *a, const void *b) {
        return strcmp(*(char *const *) a, *(char *const *) b);
}

/* In the order of keys, then values. An equal sign sorts before no character of a key but -, ., and
 * digits, so that the pairs are compared with a lower byte in its place. */
static int append_query(const char *query, StrBuf *out) {
        _cleanup_(strv_done) StrV pairs = STRV_NULL;
        int r = 0;

        while (*query && r == 0) {
                size_t n = strcspn(query, "&");
                const char *equal = memchr(query, '=', n);

                r = strv_appendf(&pairs, "%.*s\1%.*s", (int) (equal ? equal - query : (long) n),
                                 query, equal ? (int) (n - (size_t) (equal - query) - 1) : 0,
                                 equal ? equal + 1 : "");
                query += n;
                query += *query == '&';
        }
        if (pairs.n_items > 0)
                qsort(pairs.items, pairs.n_items, sizeof(char *), compare_pairs);
        for (size_t i = 0; i < pairs.n_items && r == 0; i++) {
                *strchr(pairs.items[i], '\1') = '=';
                r = strbuf_appendf(out, "%s%s", i > 0 ? "&" : "", pairs.items[i]);
        }
        return error_trace(r);
}

static int append_request(const AttachRequest *request, bool is_s3, const Sigv4Signature *signature,
                          StrBuf *out) {
        char body[65];
        int r;

        hash(request->body, request->body_size, body);
        r = strbuf_appendf(out, "%s\n", request->method);
        if (r == 0)
                r = append_path(request->path, is_s3, out);
        if (r == 0)
                r = strbuf_append_byte(out, '\n');
        if (r == 0)
                r = append_query(request->query, out);
        if (r == 0)
                r = strbuf_appendf(out, "\nhost:%s\n", request->host);
        if (r == 0 && is_s3)
                r = strbuf_appendf(out, "x-amz-content-sha256:%s\n", body);
        if (r == 0)
                r = strbuf_appendf(out, "x-amz-date:%s\n\n%s\n%s", signature->date,
                                   signature->headers, body);
        return error_trace(r);
}

int sigv4_sign(const char *region, const char *service, const Secret *secret,
               const AttachRequest *request, Sigv4Signature *ret_signature) {
        _cleanup_(strbuf_done) StrBuf canonical = STRBUF_NULL, text = STRBUF_NULL;
        bool is_s3 = string_equal(service, "s3");
        Sigv4Signature signature = {.headers = is_s3 ? "host;x-amz-content-sha256;x-amz-date"
                                                     : "host;x-amz-date"};
        uint8_t key[SHA256_DIGEST_SIZE];
        char digest[65];
        struct tm tm;
        int r;

        if (!gmtime_r(&request->now, &tm) ||
            strftime(signature.date, sizeof(signature.date), "%Y%m%dT%H%M%SZ", &tm) != 16)
                return error_origin(-EOVERFLOW);
        if (is_s3)
                hash(request->body, request->body_size, signature.content);
        r = append_request(request, is_s3, &signature, &canonical);
        if (r < 0)
                return error_trace(r);
        hash(canonical.data, canonical.size, digest);
        r = strbuf_appendf(&text, "AWS4-HMAC-SHA256\n%s\n%.8s/%s/%s/aws4_request\n%s",
                           signature.date, signature.date, region, service, digest);
        if (r == 0)
                r = first_key(secret, signature.date, key);
        if (r < 0)
                return error_trace(r);
        step(key, region, strlen(region));
        step(key, service, strlen(service));
        step(key, "aws4_request", strlen("aws4_request"));
        step(key, text.data, text.size);
        to_hex(key, signature.signature);
        secret_wipe(key, sizeof(key));
        *ret_signature = signature;
        return 0;
}
