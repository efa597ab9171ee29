/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/endpoint.h"

#include <errno.h>
#include <string.h>

#include "basic/error.h"

/* Of refusals. */
#define TELLS_BURST 100U
#define TELLS_PER_SECOND 10U

/* --- secrets --- */

static int copy_cidrs(const CidrList *from, CidrList *ret_to) {
        ret_to->items = calloc(from->n_items + 1, sizeof(Cidr));
        if (!ret_to->items)
                return error_origin(-ENOMEM);
        if (from->n_items > 0)
                memcpy(ret_to->items, from->items, from->n_items * sizeof(Cidr));
        ret_to->n_items = from->n_items;
        return 0;
}

static int vault_fill(Vault *vault, const Session *session, const SessionCredential *credential,
                      SessionReason *ret_reason) {
        _cleanup_(freep) char *text = NULL;
        int r;

        vault->credential = credential->credential;
        vault->denied = session_denies_name(session, vault->credential->upstream.host);
        if (credential->ca) {
                vault->ca = strdup(credential->ca);
                if (!vault->ca)
                        return error_origin(-ENOMEM);
        }
        r = copy_cidrs(&credential->open, &vault->open);
        if (r == 0)
                r = copy_cidrs(&session->document->deny, &vault->deny);
        if (r == 0)
                r = secret_load(session->host.secrets, vault->credential->secret, &vault->secret,
                                &text);
        if (r == SECRET_E_UNUSABLE) {
                (void) snprintf(ret_reason->text, sizeof(ret_reason->text), "%s", text);
                return SESSION_DOCUMENT_E_INVALID;
        }
        return error_trace(r);
}

int session_begin_endpoints(Session *session, SessionReason *ret_reason) {
        const SessionDocument *document = session->document;
        int r = 0;

        session->tells = (Rate){.burst = TELLS_BURST, .per_second = TELLS_PER_SECOND};
        if (document->n_credentials == 0)
                return 0;
        session->endpoints = calloc(document->n_credentials, sizeof(Endpoint));
        if (!session->endpoints)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < document->n_credentials && r == 0; i++) {
                Endpoint *endpoint = &session->endpoints[i];
                const OperationMenu *menu = &document->credentials[i].credential->menu;

                endpoint->session = session;
                endpoint->credential = &document->credentials[i];
                for (size_t k = 0; k < menu->n_items; k++)
                        if (menu->items[k].body != OPERATION_BODY_NONE)
                                endpoint->body_max =
                                        size_max(endpoint->body_max, menu->items[k].body_max);
                endpoint->uses = calloc(menu->n_items + 1, sizeof(OperationUse));
                r = endpoint->uses ? vault_fill(&endpoint->vault, session, endpoint->credential,
                                                ret_reason)
                                   : error_origin(-ENOMEM);
        }
        return r < 0 ? error_trace(r) : r;
}

void session_end_endpoints(Session *session) {
        for (size_t i = 0; session->endpoints && i < session->document->n_credentials; i++) {
                connections_free(session->endpoints[i].connections);
                vault_done(&session->endpoints[i].vault);
                free(session->endpoints[i].uses);
        }
        free(session->endpoints);
        session->endpoints = NULL;
}

Endpoint *session_get_endpoint(Session *session, size_t index) {
        return &session->endpoints[index];
}

/* libcurl keeps what it may use again for everyone who asks for the same host in the same way; here
 * it is for one credential of one job. */
Connections *endpoint_get_connections(Endpoint *endpoint) {
        if (!endpoint->connections)
                (void) connections_new(&endpoint->connections);
        return endpoint->connections;
}

/* --- how often --- */

/* NULL: there is no memory to count it. */
static MinuteCount *find_minute(Endpoint *endpoint, const Operation *operation, OperationUse *use,
                                uint64_t second) {
        const Session *session = endpoint->session;

        if (!session->document->tenant || !session->host.counts)
                return &use->minute;
        return counts_get(session->host.counts, session->document->tenant,
                          endpoint->credential->credential->name, operation->name, second);
}

static OperationUse *find_use(Endpoint *endpoint, const Operation *operation) {
        return &endpoint->uses[operation - endpoint->credential->credential->menu.items];
}

static uint64_t this_second(const Endpoint *endpoint) {
        return loop_now(endpoint->session->host.loop) / USEC_PER_SEC;
}

const char *endpoint_find_limit(Endpoint *endpoint, const Operation *operation) {
        OperationUse *use = find_use(endpoint, operation);
        uint64_t second = this_second(endpoint);
        MinuteCount *minute;

        if (operation->per_job > 0 && use->n >= operation->per_job)
                return "per_job";
        if (operation->per_minute == 0)
                return NULL;
        minute = find_minute(endpoint, operation, use, second);
        return minute && minute_count_look(minute, second) < operation->per_minute ? NULL
                                                                                   : "per_minute";
}

void endpoint_count(Endpoint *endpoint, const Operation *operation) {
        OperationUse *use = find_use(endpoint, operation);
        uint64_t second = this_second(endpoint);
        MinuteCount *minute = NULL;

        if (operation->per_minute > 0)
                minute = find_minute(endpoint, operation, use, second);
        if (minute) {
                (void) minute_count_look(minute, second);
                minute_count_add(minute);
        }
        use->n++;
}

/* --- what is told --- */

bool endpoint_can_tell(const Endpoint *endpoint) {
        const Session *session = endpoint->session;

        return !session->tell || session->tell(session->tell_userdata, NULL);
}

/* What was sent is always told of, since nothing is sent unless it can be. */
void endpoint_tell(Endpoint *endpoint, const SessionOperation *operation) {
        Session *session = endpoint->session;
        SessionOperation told = *operation;

        if (!session->tell)
                return;
        if (operation->denied && (!rate_take(&session->tells, loop_now(session->host.loop)) ||
                                  !endpoint_can_tell(endpoint))) {
                session->n_untold++;
                return;
        }
        told.credential = endpoint->credential->credential->name;
        told.n_dropped = session->n_untold;
        session->n_untold = 0;
        (void) session->tell(session->tell_userdata, &told);
}
