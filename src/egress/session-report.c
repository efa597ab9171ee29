/* SPDX-License-Identifier: Apache-2.0 */

#include <jansson.h>

#include "basic/error.h"
#include "egress/session-internal.h"

/* For the entries of its lists, the most important ones first. */
#define REPORT_ROOM (EGRESS_REPORT_MAX - 1024U)

enum {
        _REPORT_E_SUCCESS,
        REPORT_E_FULL,
};

/* A number or a text that is not empty. */
static int put_string(json_t *object, const char *key, const char *value) {
        if (string_empty(value))
                return 0;
        return json_object_set_new(object, key, json_string(value)) < 0 ? error_origin(-ENOMEM) : 0;
}

static int put_number(json_t *object, const char *key, uint64_t value) {
        return json_object_set_new(object, key, json_integer((json_int_t) value)) < 0
                       ? error_origin(-ENOMEM)
                       : 0;
}

static json_t *denial_to_json(const Denial *denial) {
        bool is_address = denial->kind == DENIAL_ADDRESS || denial->kind == DENIAL_UNREACHABLE;
        json_t *object = json_object();
        int r;

        r = put_string(object, "kind", denial_kind_to_string(denial->kind));
        if (r == 0)
                r = put_string(object, "name", denial->name);
        if (r == 0 && denial->port > 0)
                r = put_number(object, "port", denial->port);
        if (r == 0)
                r = put_string(object, denial->kind == DENIAL_ADDRESS ? "class" : "reason",
                               denial->reason);
        if (r == 0)
                r = put_string(object, is_address ? "address" : "seen", denial->seen);
        if (r == 0)
                r = put_number(object, "count", denial->count);
        if (r == 0)
                return object;
        json_decref(object);
        return NULL;
}

static int put_use(json_t *object, const UseCount *use) {
        int r;

        r = put_number(object, "connections", use->connections);
        if (r == 0)
                r = put_number(object, "bytes_in", use->bytes_in);
        return r == 0 ? put_number(object, "bytes_out", use->bytes_out) : r;
}

static json_t *port_to_json(const char *name, uint16_t port, const UseCount *use) {
        json_t *object = json_object();

        if (put_string(object, "name", name) == 0 && put_number(object, "port", port) == 0 &&
            put_use(object, use) == 0)
                return object;
        json_decref(object);
        return NULL;
}

static json_t *log_to_json(const LogEntry *entry) {
        json_t *object = json_object();
        char text[ADDRESS_TEXT_MAX];
        int r;

        r = put_string(object, "name", entry->name);
        if (r == 0)
                r = put_number(object, "port", entry->port);
        if (r == 0)
                r = put_string(object, "address",
                               entry->address.family ? address_format(&entry->address, text) : "");
        if (r == 0)
                r = put_string(object, "through", entry->chain);
        if (r == 0)
                r = put_string(object, "end", entry->end);
        /* By the clock that never goes back, which is this machine's as a whole. */
        if (r == 0)
                r = put_number(object, "begun_us", entry->begun_usec);
        if (r == 0)
                r = put_number(object, "us", entry->usec);
        if (r == 0)
                r = put_number(object, "bytes_in", entry->bytes_in);
        if (r == 0)
                r = put_number(object, "bytes_out", entry->bytes_out);
        if (r == 0)
                return object;
        json_decref(object);
        return NULL;
}

typedef struct Report {
        json_t *root;
        size_t left; /* bytes that it may still grow by */
        uint64_t n_dropped;
} Report;

/* A new list below the key; NULL if out of memory. */
static json_t *put_list(Report *report, const char *key) {
        json_t *list = json_array();

        return json_object_set_new(report->root, key, list) < 0 ? NULL : list;
}

/* Takes the entry. Where there is no room for it, it is left out: REPORT_E_FULL. */
static int put_entry(Report *report, json_t *list, json_t *entry) {
        size_t size;

        if (!entry)
                return error_origin(-ENOMEM);
        size = json_dumpb(entry, NULL, 0, JSON_COMPACT) + 1;
        if (size > report->left) {
                json_decref(entry);
                return REPORT_E_FULL;
        }
        report->left -= size;
        return json_array_append_new(list, entry) < 0 ? error_origin(-ENOMEM) : 0;
}

static int put_denied(Report *report, const Session *session) {
        const Denials *denials = &session->denials;
        json_t *list = put_list(report, "denied");
        int r;

        if (!list)
                return error_origin(-ENOMEM);
        report->n_dropped = denials->n_dropped;
        for (size_t i = 0; i < denials->n_items; i++) {
                r = put_entry(report, list, denial_to_json(&denials->items[i]));
                if (r == REPORT_E_FULL)
                        report->n_dropped += denials->items[i].count;
                if (r < 0)
                        return error_trace(r);
        }
        return put_number(report->root, "n_dropped", report->n_dropped);
}

/* By name and port, only those that were used: a job may be allowed many. */
static int put_uses(Report *report, json_t *list, const Session *session, bool unlogged) {
        const SessionDocument *document = session->document;
        const PortUse *use = session->uses;

        for (size_t i = 0; i < document->n_names; i++)
                for (size_t j = 0; j < document->names[i].n_ports; j++, use++) {
                        const UseCount *count = unlogged ? &use->unlogged : &use->all;
                        const Destination *name = &document->names[i];

                        if (count->connections > 0 &&
                            put_entry(report, list,
                                      port_to_json(name->name, name->ports[j].port, count)) < 0)
                                return error_origin(-ENOMEM);
                }
        return 0;
}

static int put_names(Report *report, const Session *session) {
        json_t *list = put_list(report, "names");

        return list ? put_uses(report, list, session, false) : error_origin(-ENOMEM);
}

/* Connections, and behind them the sums of those for which the log had no room. */
static int put_log(Report *report, const Session *session) {
        json_t *list = put_list(report, "log");

        if (!list)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < session->n_log; i++)
                if (put_entry(report, list, log_to_json(&session->log[i])) < 0)
                        return error_origin(-ENOMEM);
        return put_uses(report, list, session, true);
}

static int fill(Report *report, const Session *session) {
        const UseCount all = {session->connections, session->bytes_in, session->bytes_out};
        int r;

        r = put_denied(report, session);
        if (r == 0)
                r = put_use(report->root, &all);
        if (r == 0)
                r = put_log(report, session);
        return r == 0 ? put_names(report, session) : error_trace(r);
}

int session_report(const Session *session, EgressEnded *ret_counters, StrBuf *report) {
        Report to = {.root = json_object(), .left = REPORT_ROOM};
        char *text = NULL;
        int r;

        *ret_counters = (EgressEnded){.connections = session->connections,
                                      .bytes_in = session->bytes_in,
                                      .bytes_out = session->bytes_out,
                                      .n_denied = session->denials.count};
        r = to.root ? fill(&to, session) : error_origin(-ENOMEM);
        if (r == 0)
                text = json_dumps(to.root, JSON_COMPACT);
        json_decref(to.root);
        if (r == 0)
                r = text ? strbuf_append_string(report, text) : error_origin(-ENOMEM);
        free(text);
        return error_trace(r);
}
