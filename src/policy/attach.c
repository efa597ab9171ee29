/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/attach.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "basic/error.h"

#define TEXT_MAX 128U

const char *const attach_kinds[] = {"bearer",    "basic", "header", "query",
                                    "aws-sigv4", "hmac",  NULL};
const char *const attach_algorithms[] = {"sha256", "sha1", "sha512", NULL};
const char *const attach_overs[] = {"body", "method+path+body", NULL};

_Static_assert(ELEMENTSOF(attach_kinds) == _ATTACH_KIND_MAX + 1, "a kind has no word");
_Static_assert(ELEMENTSOF(attach_algorithms) == _ATTACH_ALGORITHM_MAX + 1,
               "an algorithm has no word");
_Static_assert(ELEMENTSOF(attach_overs) == _ATTACH_OVER_MAX + 1, "what is signed has no word");

void attach_done(Attach *attach) {
        free(attach->user);
        free(attach->name);
        free(attach->prefix);
        free(attach->region);
        free(attach->service);
        free(attach->access_key_id);
        *attach = (Attach){};
}

bool attach_is_header_name(const char *name) {
        static const char *const others[] = {
                "connection",
                "content-encoding",
                "content-length",
                "expect",
                "host",
                "keep-alive",
                "proxy-connection",
                "te",
                "trailer",
                "upgrade",
                "via",
                "transfer-encoding",
        };
        size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_");

        if (n == 0 || n > TEXT_MAX || name[n])
                return false;
        for (size_t i = 0; i < ELEMENTSOF(others); i++)
                if (strcasecmp(name, others[i]) == 0)
                        return false;
        return true;
}

/* --- keys --- */

/* Which kinds a key is for. */
static const struct {
        const char *name;
        unsigned kinds, needed; /* bits of AttachKind */
} member_keys[] = {
        {"user", 1U << ATTACH_BASIC, 1U << ATTACH_BASIC},
        {"name", 1U << ATTACH_HEADER | 1U << ATTACH_QUERY,
         1U << ATTACH_HEADER | 1U << ATTACH_QUERY},
        {"prefix", 1U << ATTACH_HEADER | 1U << ATTACH_HMAC, 0},
        {"region", 1U << ATTACH_SIGV4, 1U << ATTACH_SIGV4},
        {"service", 1U << ATTACH_SIGV4, 1U << ATTACH_SIGV4},
        {"access_key_id", 1U << ATTACH_SIGV4, 1U << ATTACH_SIGV4},
        {"algorithm", 1U << ATTACH_HMAC, 1U << ATTACH_HMAC},
        {"header", 1U << ATTACH_HMAC, 1U << ATTACH_HMAC},
        {"over", 1U << ATTACH_HMAC, 1U << ATTACH_HMAC},
};

/* What goes into a line of the request: printable ASCII, so that it can begin no other. */
static int read_text(const Reader *reader, const JsonNode *node, char **ret_text) {
        _cleanup_(freep) char *text = NULL;
        int r;

        r = reader_string(reader, node, &text);
        if (r < 0)
                return error_trace(r);
        if (!text)
                return 0;
        if (!*text || strlen(text) > TEXT_MAX)
                return error_trace(
                        reader_fault_value(reader, node, "is empty or longer than 128 bytes"));
        for (const char *p = text; *p; p++)
                if (*p < ' ' || *p > '~')
                        return error_trace(reader_fault_value(
                                reader, node, "holds a character that is not printable ASCII"));
        free(*ret_text);
        *ret_text = TAKE_PTR(text);
        return 0;
}

static int read_as(const Reader *reader, const JsonNode *node, void *target) {
        Attach *attach = target;
        size_t index = attach->kind;
        int r;

        r = reader_choice(reader, node, attach_kinds, &index);
        attach->kind = (AttachKind) index;
        return error_trace(r);
}

static int read_user(const Reader *reader, const JsonNode *node, void *target) {
        Attach *attach = target;
        int r;

        r = read_text(reader, node, &attach->user);
        if (r == 0 && attach->user && strchr(attach->user, ':'))
                r = reader_fault_value(reader, node,
                                       "has a colon, which ends the user's name in HTTP");
        return error_trace(r);
}

/* A header's name, or that of a key of the query: what is right for both can be said before the
 * kind is known. */
static int read_name(const Reader *reader, const JsonNode *node, void *target) {
        Attach *attach = target;
        int r;

        r = read_text(reader, node, &attach->name);
        if (r == 0 && attach->name && !attach_is_header_name(attach->name))
                r = reader_fault_value(reader, node,
                                       "cannot be set: give a name of letters, digits, - and _ "
                                       "that does not say how a request is carried");
        return error_trace(r);
}

static int read_prefix(const Reader *reader, const JsonNode *node, void *target) {
        return read_text(reader, node, &((Attach *) target)->prefix);
}

/* They stand between slashes in what is signed. */
static int read_scope_word(const Reader *reader, const JsonNode *node, char **ret_text) {
        int r;

        r = read_text(reader, node, ret_text);
        if (r == 0 && *ret_text && strpbrk(*ret_text, "/, ="))
                r = reader_fault_value(reader, node, "has one of \"/, =\", which no such name has");
        return error_trace(r);
}

static int read_region(const Reader *reader, const JsonNode *node, void *target) {
        return read_scope_word(reader, node, &((Attach *) target)->region);
}

static int read_service(const Reader *reader, const JsonNode *node, void *target) {
        return read_scope_word(reader, node, &((Attach *) target)->service);
}

static int read_access_key_id(const Reader *reader, const JsonNode *node, void *target) {
        return read_scope_word(reader, node, &((Attach *) target)->access_key_id);
}

static int read_algorithm(const Reader *reader, const JsonNode *node, void *target) {
        Attach *attach = target;
        size_t index = attach->algorithm;
        int r;

        r = reader_choice(reader, node, attach_algorithms, &index);
        attach->algorithm = (AttachAlgorithm) index;
        return error_trace(r);
}

static int read_over(const Reader *reader, const JsonNode *node, void *target) {
        Attach *attach = target;
        size_t index = attach->over;
        int r;

        r = reader_choice(reader, node, attach_overs, &index);
        attach->over = (AttachOver) index;
        return error_trace(r);
}

static const ReaderKey attach_keys[] = {
        {.name = "as", .read = read_as},
        {.name = "user", .read = read_user},
        {.name = "name", .read = read_name},
        {.name = "prefix", .read = read_prefix},
        {.name = "region", .read = read_region},
        {.name = "service", .read = read_service},
        {.name = "access_key_id", .read = read_access_key_id},
        {.name = "algorithm", .read = read_algorithm},
        {.name = "header", .read = read_name},
        {.name = "over", .read = read_over},
        {},
};

int attach_key_names(StrV *names) {
        int r = 0;

        for (const ReaderKey *key = attach_keys; key->name && r == 0; key++)
                r = strv_appendf(names, "attach.%s", key->name);
        return error_trace(r);
}

/* Each kind has its own keys. */
static int check_keys(const Reader *reader, const JsonNode *node, const Attach *attach) {
        unsigned kind = 1U << attach->kind;
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(member_keys) && r == 0; i++) {
                const JsonNode *member = json_node_member(reader->doc, node, member_keys[i].name);

                if (member && !(member_keys[i].kinds & kind))
                        r = reader_fault(reader, member, "is no key of \"%s\": remove it",
                                         attach_kinds[attach->kind]);
                else if (!member && member_keys[i].needed & kind)
                        r = reader_fault(reader, node, "\"%s\" needs the key %s",
                                         attach_kinds[attach->kind], member_keys[i].name);
        }
        return error_trace(r);
}

int attach_read(const Reader *reader, const JsonNode *node, Attach *attach) {
        size_t before = reader_n_faults(reader->diags);
        int r;

        r = reader_object(reader, node, attach_keys, attach);
        if (r < 0 || reader_n_faults(reader->diags) > before)
                return error_trace(r);
        if (!json_node_member(reader->doc, node, "as"))
                return error_trace(reader_fault(
                        reader, node,
                        "does not say how: give \"as\", such as {\"as\": \"bearer\"}"));
        return error_trace(check_keys(reader, node, attach));
}
