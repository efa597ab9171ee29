/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/attach.h"

#include <errno.h>
#include <nettle/base64.h>
#include <nettle/hmac.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "basic/error.h"
#include "egress/sigv4.h"

static void string_wipe(char *text) {
        if (text)
                secret_wipe(text, strlen(text));
        free(text);
}

void attached_done(Attached *attached) {
        for (size_t i = 0; i < attached->n_headers; i++)
                string_wipe(attached->headers[i]);
        string_wipe(attached->query);
        string_wipe(attached->also);
        *attached = (Attached){};
}

bool attached_has_header(const Attached *attached, const char *name, size_t size) {
        for (size_t i = 0; i < attached->n_headers; i++)
                if (strncasecmp(attached->headers[i], name, size) == 0 &&
                    attached->headers[i][size] == ':')
                        return true;
        return false;
}

/* One piece of memory of the right size at once, so that nothing is left behind by growing. */
static _printf_(2, 3) int add_header(Attached *attached, const char *format, ...) {
        char *text = NULL;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vsnprintf(NULL, 0, format, ap);
        va_end(ap);
        text = n < 0 ? NULL : malloc((size_t) n + 1);
        if (!text)
                return error_origin(-ENOMEM);
        va_start(ap, format);
        (void) vsnprintf(text, (size_t) n + 1, format, ap);
        va_end(ap);
        attached->headers[attached->n_headers++] = text;
        return 0;
}

/* --- said as it is --- */

static int attach_basic(const Attach *attach, const Secret *secret, Attached *attached) {
        _cleanup_(secret_done) Secret plain = SECRET_NULL;
        size_t user = strlen(attach->user), size = user + 1 + secret->size;
        int r;

        r = secret_new(size, &plain);
        if (r < 0)
                return error_trace(r);
        memcpy(plain.data, attach->user, user);
        plain.data[user] = ':';
        memcpy(plain.data + user + 1, secret->data, secret->size);
        attached->also = calloc(1, BASE64_ENCODE_RAW_LENGTH(size) + 1);
        if (!attached->also)
                return error_origin(-ENOMEM);
        base64_encode_raw(attached->also, size, (const uint8_t *) plain.data);
        return error_trace(add_header(attached, "Authorization: Basic %s", attached->also));
}

static int attach_query(const Attach *attach, const Secret *secret, Attached *attached) {
        size_t name = strlen(attach->name), at = name + 1;

        attached->query = calloc(1, at + 3 * secret->size + 1);
        if (!attached->query)
                return error_origin(-ENOMEM);
        memcpy(attached->query, attach->name, name);
        attached->query[name] = '=';
        for (size_t i = 0; i < secret->size; i++) {
                unsigned char c = (unsigned char) secret->data[i];

                if (isalnum(c) || strchr("-_.~", c))
                        attached->query[at++] = (char) c;
                else
                        at += (size_t) snprintf(attached->query + at, 4, "%%%02X", c);
        }
        return 0;
}

/* --- a keyed digest --- */

typedef union HmacContext {
        struct hmac_sha1_ctx sha1;
        struct hmac_sha256_ctx sha256;
        struct hmac_sha512_ctx sha512;
} HmacContext;

static void mac_add(AttachAlgorithm algorithm, HmacContext *context, const char *data,
                    size_t size) {
        if (size == 0)
                return;
        if (algorithm == ATTACH_SHA1)
                hmac_sha1_update(&context->sha1, size, (const uint8_t *) data);
        else if (algorithm == ATTACH_SHA256)
                hmac_sha256_update(&context->sha256, size, (const uint8_t *) data);
        else
                hmac_sha512_update(&context->sha512, size, (const uint8_t *) data);
}

static size_t mac_finish(AttachAlgorithm algorithm, HmacContext *context,
                         uint8_t digest[static SHA512_DIGEST_SIZE]) {
        switch (algorithm) {
        case ATTACH_SHA1:
                hmac_sha1_digest(&context->sha1, SHA1_DIGEST_SIZE, digest);
                return SHA1_DIGEST_SIZE;
        case ATTACH_SHA256:
                hmac_sha256_digest(&context->sha256, SHA256_DIGEST_SIZE, digest);
                return SHA256_DIGEST_SIZE;
        default:
                hmac_sha512_digest(&context->sha512, SHA512_DIGEST_SIZE, digest);
                return SHA512_DIGEST_SIZE;
        }
}

static void mac_begin(AttachAlgorithm algorithm, HmacContext *context, const Secret *secret) {
        const uint8_t *key = (const uint8_t *) secret->data;

        if (algorithm == ATTACH_SHA1)
                hmac_sha1_set_key(&context->sha1, secret->size, key);
        else if (algorithm == ATTACH_SHA256)
                hmac_sha256_set_key(&context->sha256, secret->size, key);
        else
                hmac_sha512_set_key(&context->sha512, secret->size, key);
}

static int attach_hmac(const Attach *attach, const Secret *secret, const AttachRequest *request,
                       Attached *attached) {
        uint8_t digest[SHA512_DIGEST_SIZE];
        char hex[2 * SHA512_DIGEST_SIZE + 1];
        HmacContext context;
        size_t size;

        mac_begin(attach->algorithm, &context, secret);
        if (attach->over == ATTACH_OVER_REQUEST) {
                mac_add(attach->algorithm, &context, request->method, strlen(request->method));
                mac_add(attach->algorithm, &context, request->path, strlen(request->path));
                if (*request->query) {
                        mac_add(attach->algorithm, &context, "?", 1);
                        mac_add(attach->algorithm, &context, request->query,
                                strlen(request->query));
                }
        }
        mac_add(attach->algorithm, &context, request->body, request->body_size);
        size = mac_finish(attach->algorithm, &context, digest);
        secret_wipe(&context, sizeof(context));
        for (size_t i = 0; i < size; i++)
                (void) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
        return error_trace(
                add_header(attached, "%s: %s%s", attach->name, attach->prefix ?: "", hex));
}

/* --- a signature --- */

static int attach_sigv4(const Attach *attach, const Secret *secret, const AttachRequest *request,
                        Attached *attached) {
        Sigv4Signature signature;
        int r;

        r = sigv4_sign(attach->region, attach->service, secret, request, &signature);
        if (r == 0)
                r = add_header(attached, "X-Amz-Date: %s", signature.date);
        if (r == 0 && *signature.content)
                r = add_header(attached, "X-Amz-Content-Sha256: %s", signature.content);
        if (r == 0)
                r = add_header(attached,
                               "Authorization: AWS4-HMAC-SHA256 Credential=%s/%.8s/%s/%s/"
                               "aws4_request, SignedHeaders=%s, Signature=%s",
                               attach->access_key_id, signature.date, attach->region,
                               attach->service, signature.headers, signature.signature);
        return error_trace(r);
}

int attach_apply(const Attach *attach, const Secret *secret, const AttachRequest *request,
                 Attached *ret_attached) {
        _cleanup_(attached_done) Attached attached = {};
        int r;

        switch (attach->kind) {
        case ATTACH_BEARER:
                r = add_header(&attached, "Authorization: Bearer %s", secret->data);
                break;
        case ATTACH_BASIC:
                r = attach_basic(attach, secret, &attached);
                break;
        case ATTACH_HEADER:
                r = add_header(&attached, "%s: %s%s", attach->name, attach->prefix ?: "",
                               secret->data);
                break;
        case ATTACH_QUERY:
                r = attach_query(attach, secret, &attached);
                break;
        case ATTACH_SIGV4:
                r = attach_sigv4(attach, secret, request, &attached);
                break;
        case ATTACH_HMAC:
                r = attach_hmac(attach, secret, request, &attached);
                break;
        default:
                r = -EINVAL;
        }
        if (r < 0)
                return error_trace(r);
        *ret_attached = attached;
        attached = (Attached){};
        return 0;
}
