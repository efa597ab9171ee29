/* SPDX-License-Identifier: Apache-2.0 */
#include "run/refusals.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "policy/credential.h"

#define CREDENTIALS ".crate.internal"
#define REVERSE ".arpa"

/* An entry of the record's "denied", some of whose texts the job has chosen. */
typedef struct Refusal {
        const json_t *entry;
        const char *kind, *what, *reason, *seen, *address;
        uint64_t port, count;
        char *place; /* NAME:PORT, or the name alone */
        char *allow; /* the same as --allow has it; NULL: it cannot have it */
} Refusal;

static void refusal_done(Refusal *refusal) {
        free(refusal->place);
        free(refusal->allow);
}

static const char *text_of(const json_t *entry, const char *key) {
        return json_string_value(json_object_get(entry, key));
}

static uint64_t number_of(const json_t *entry, const char *key) {
        return (uint64_t) json_integer_value(json_object_get(entry, key));
}

static bool ends_with(const char *text, const char *end) {
        size_t size = strlen(text), end_size = strlen(end);

        return size >= end_size && string_equal(text + size - end_size, end);
}

/* What is spoken there, where that has to be written: it must be the same as was allowed. */
static const char *type_suffix(const DestinationList *egress, const char *name, uint64_t port) {
        for (size_t i = 0; i < egress->n_items; i++) {
                const Destination *item = &egress->items[i];
                DestinationType usual = port == 443  ? DESTINATION_TLS
                                        : port == 80 ? DESTINATION_HTTP
                                                     : DESTINATION_TCP;

                if (item->port != port || item->type == usual ||
                    !destination_name_covers(item->name, name))
                        continue;
                return item->type == DESTINATION_TLS    ? "/tls"
                       : item->type == DESTINATION_HTTP ? "/http"
                                                        : "/tcp";
        }
        return "";
}

/* Only what the option would take is worth to be typed. */
static int find_allow(const char *name, uint64_t port, char **ret_allow) {
        _cleanup_(freep) char *parsed = NULL, *text = NULL;
        int r;

        r = destination_name_parse(name, &parsed, &text);
        if (r == DESTINATION_E_INVALID)
                return 0;
        if (r < 0)
                return error_trace(r);
        r = port > 0 ? asprintf(ret_allow, "--allow %s:%" PRIu64, parsed, port)
                     : asprintf(ret_allow, "--allow %s:PORT", parsed);
        return r < 0 ? error_origin(-ENOMEM) : 0;
}

static int refusal_init(Refusal *refusal, const json_t *entry) {
        _cleanup_(freep) char *name = NULL;
        int n;

        *refusal = (Refusal){
                .entry = entry,
                .kind = text_of(entry, "kind") ?: "",
                .what = text_of(entry, "what") ?: "",
                .reason = text_of(entry, "reason") ?: "",
                .seen = text_of(entry, "seen"),
                .address = text_of(entry, "address"),
                .port = number_of(entry, "port"),
                .count = number_of(entry, "count"),
        };
        name = diag_excerpt(refusal->what, strlen(refusal->what));
        if (!name)
                return error_origin(-ENOMEM);
        n = refusal->port > 0 ? asprintf(&refusal->place, "%s:%" PRIu64, name, refusal->port)
                              : asprintf(&refusal->place, "%s", name);
        if (n < 0) {
                refusal->place = NULL;
                return error_origin(-ENOMEM);
        }
        return error_trace(find_allow(refusal->what, refusal->port, &refusal->allow));
}

/* --- the kinds --- */

static int describe_credential(const Refusal *refusal, StrV *lines) {
        _cleanup_(freep) char *rule = NULL;
        int size = (int) (strlen(refusal->what) - strlen(CREDENTIALS));

        if (asprintf(&rule, "%.*s.*", size, refusal->what) < 0) {
                rule = NULL;
                return error_origin(-ENOMEM);
        }
        if (!credential_rule_is_valid(rule))
                return strv_appendf(lines, "network: %s is no name of a credential",
                                    refusal->place);
        return strv_appendf(lines,
                            "network: %s was asked for, and the job has no operation of that "
                            "credential; --operation %.*s.OPERATION gives it one",
                            refusal->place, size, refusal->what);
}

static int describe_dns(const Refusal *refusal, const DestinationList *egress _unused_,
                        StrV *lines) {
        if (ends_with(refusal->what, CREDENTIALS))
                return describe_credential(refusal, lines);
        if (string_equal(refusal->reason, "policy"))
                return strv_appendf(lines,
                                    "network: %s was asked for, and is not reached; egress.deny of "
                                    "agentcrated.json says so",
                                    refusal->place);
        /* What was no name, and the name of an address, which tools like to print: nothing is
         * missed without them. */
        if (string_empty(refusal->what) || ends_with(refusal->what, REVERSE))
                return 0;
        if (!refusal->allow)
                return strv_appendf(
                        lines, "network: %s was asked for, which is no name that --allow takes",
                        refusal->place);
        return strv_appendf(lines, "network: %s was asked for, and is not allowed; %s allows it",
                            refusal->place, refusal->allow);
}

static int describe_address(const Refusal *refusal, const DestinationList *egress, StrV *lines) {
        static const char *const opened[] = {"loopback",      "private",   "shared", "host",
                                             "documentation", "benchmark", "nat64"};
        const char *class = text_of(refusal->entry, "class") ?: "",
                   *address = refusal->address ?: "";

        for (size_t i = 0; i < ELEMENTSOF(opened); i++)
                if (refusal->allow && refusal->port > 0 && string_equal(class, opened[i]))
                        return strv_appendf(
                                lines, "network: %s leads to %s, which is %s%s; %s%s@%s opens it",
                                refusal->place, address,
                                string_equal(class, "host") ? "an address of this " : "", class,
                                refusal->allow, type_suffix(egress, refusal->what, refusal->port),
                                address);
        if (string_equal(class, "policy"))
                return strv_appendf(lines,
                                    "network: %s leads to %s, which is not reached; egress.deny of "
                                    "agentcrated.json says so",
                                    refusal->place, address);
        return strv_appendf(lines, "network: %s leads to %s, which is %s, and never reached",
                            refusal->place, address, class);
}

/* Another name or protocol than the type of the destination has. */
static int describe_protocol(const Refusal *refusal, const DestinationList *egress _unused_,
                             StrV *lines) {
        _cleanup_(freep) char *seen = diag_excerpt(refusal->seen ?: "",
                                                   strlen(refusal->seen ?: "")),
                              *reason = diag_excerpt(refusal->reason, strlen(refusal->reason));
        const char *allow = refusal->allow ?: "--allow NAME:PORT";

        if (!seen || !reason)
                return error_origin(-ENOMEM);
        if (string_equal(refusal->kind, "host"))
                return strv_appendf(
                        lines,
                        "network: a request to %s was refused: %s; %s/tcp lets anything pass",
                        refusal->place, reason, allow);
        if (string_equal(refusal->reason, "mismatch"))
                return strv_appendf(
                        lines,
                        "network: TLS at %s was for %s; ask for the name that is connected "
                        "to, or %s/tcp lets anything pass",
                        refusal->place, seen, allow);
        return strv_appendf(lines, "network: what came to %s %s; %s/tcp lets anything pass",
                            refusal->place,
                            string_equal(refusal->reason, "missing") ? "was TLS that names no host"
                                                                     : "was no TLS",
                            allow);
}

static int describe_limit(const Refusal *refusal, const DestinationList *egress _unused_,
                          StrV *lines) {
        static const char *const words[][2] = {
                {"connections", "was one connection too many at a time; raise egress.connections "
                                "of agentcrated.json"},
                {"bytes", "was cut off, for the job has had its bytes; raise egress.bytes of "
                          "agentcrated.json"},
                {"idle",
                 "was closed, for nothing came or went; raise egress.idle of agentcrated.json"},
                {"head", "was closed, for it did not say in time whom it was for"},
                {"names", "was one name too many of a wildcard; allow it by its own name"},
        };

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (string_equal(refusal->reason, words[i][0]))
                        return strv_appendf(lines, "network: %s %s", refusal->place, words[i][1]);
        return 0;
}

static int describe_operation(const Refusal *refusal, const DestinationList *egress _unused_,
                              StrV *lines) {
        _cleanup_(freep) char *reason = diag_excerpt(refusal->reason, strlen(refusal->reason));

        return strv_appendf(
                lines,
                "network: a request to %s was refused: %s; the answer to it says more, and "
                "agentcrate-credentials(5) what an operation takes",
                refusal->place, reason ?: "");
}

static int describe_unreachable(const Refusal *refusal, const DestinationList *egress _unused_,
                                StrV *lines) {
        if (string_equal(refusal->reason, "not-resolved"))
                return strv_appendf(lines,
                                    "network: %s is allowed, but its name was not resolved; look "
                                    "whether it is right, and whether this host resolves it",
                                    refusal->place);
        return strv_appendf(lines,
                            "network: %s is allowed, but %s did not take the connection; look "
                            "whether its server runs",
                            refusal->place, refusal->address ?: "it");
}

typedef struct Kind {
        const char *name;
        int (*describe)(const Refusal *refusal, const DestinationList *egress, StrV *lines);
} Kind;

static const Kind kinds[] = {
        {"dns", describe_dns},
        {"address", describe_address},
        {"sni", describe_protocol},
        {"host", describe_protocol},
        {"limit", describe_limit},
        {"operation", describe_operation},
        {"unreachable", describe_unreachable},
};

static int describe_entry(const json_t *entry, const DestinationList *egress, StrV *lines) {
        _cleanup_(refusal_done) Refusal refusal = {};
        int r;

        r = refusal_init(&refusal, entry);
        for (size_t i = 0; i < ELEMENTSOF(kinds) && r == 0; i++)
                if (string_equal(refusal.kind, kinds[i].name))
                        return error_trace(kinds[i].describe(&refusal, egress, lines));
        return error_trace(r);
}

/* --- what only the kernel has counted --- */

static int describe_counts(const CrateResult *result, bool failed, StrV *lines) {
        int r = 0;

        if (result->n_missed > 0 && failed)
                r = strv_appendf(
                        lines,
                        "network: the command asked for names or addresses, and reaches none; "
                        "--allow NAME:PORT names what it may reach");
        if (result->n_unrouted > 0 && r == 0)
                r = strv_appendf(
                        lines,
                        "network: %" PRIu64
                        " connection%s or datagram%s went to an address that is "
                        "nobody's here; jobs connect by name, which --allow NAME:PORT gives them",
                        result->n_unrouted, plural(result->n_unrouted), plural(result->n_unrouted));
        if (result->n_refused > 0 && failed && r == 0)
                r = strv_appendf(
                        lines,
                        "network: %" PRIu64
                        " connection%s found no listener, in the crate or at a port of "
                        "an allowed name that is not allowed; --allow NAME:PORT is for one port",
                        result->n_refused, plural(result->n_refused));
        return error_trace(r);
}

/* The first ones; of the others how many there are. */
static int cut_off(StrV *lines, uint64_t n_more) {
        _cleanup_(strv_done) StrV all = *lines;
        int r = 0;

        *lines = STRV_NULL;
        for (size_t i = 0; i < all.n_items && i < REFUSALS_LINES_MAX && r == 0; i++)
                r = strv_append(lines, all.items[i]);
        if (all.n_items > REFUSALS_LINES_MAX)
                n_more += all.n_items - REFUSALS_LINES_MAX;
        if (n_more > 0 && r == 0)
                r = strv_appendf(lines,
                                 "network: and %" PRIu64
                                 " more; --result FILE lists them under denied",
                                 n_more);
        return error_trace(r);
}

int refusals_describe(const CrateResult *result, const DestinationList *egress, bool failed,
                      StrV *lines) {
        const json_t *entry;
        uint64_t n_more = 0;
        size_t i;
        int r = 0;

        json_array_foreach(result->denied, i, entry) {
                if (string_equal(text_of(entry, "kind"), "more"))
                        n_more += number_of(entry, "count");
                r = describe_entry(entry, egress, lines);
                if (r < 0)
                        return error_trace(r);
        }
        r = describe_counts(result, failed, lines);
        return r == 0 ? cut_off(lines, n_more) : error_trace(r);
}
