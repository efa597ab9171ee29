/* SPDX-License-Identifier: Apache-2.0 */

/* A document is taken only if everything in it keeps its bounds; else the reason is one clause. The
 * first byte is the number of sockets. */

#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "egress/destination-name.h"
#include "egress/session-document.h"

static void check_port(const Destination *name, const DestinationPort *port, size_t n_sockets) {
        FUZZ_ASSERT(port->port > 0 && port->type < _DESTINATION_TYPE_MAX);
        for (size_t i = 0; i < name->n_slots; i++)
                for (size_t j = 0; j < 2; j++)
                        FUZZ_ASSERT(port->sockets[i][j] >= -1 &&
                                    port->sockets[i][j] < (int) n_sockets);
}

/* It is at listeners or at the end of one connection. */
static void check_credential(const SessionCredential *credential, size_t n_sockets) {
        FUZZ_ASSERT(credential->credential);
        FUZZ_ASSERT(credential->host.n_slots == 1 && credential->host.n_ports == 1);
        FUZZ_ASSERT(credential->host.slots[0].name);
        FUZZ_ASSERT(credential->connection >= -1 && credential->connection < (int) n_sockets);
        check_port(&credential->host, &credential->host.ports[0], n_sockets);
        FUZZ_ASSERT(credential->connection < 0 || (credential->host.ports[0].sockets[0][0] < 0 &&
                                                   credential->host.ports[0].sockets[0][1] < 0));
}

static void check_document(const SessionDocument *document, size_t n_sockets) {
        FUZZ_ASSERT(document->n_names <= SESSION_NAMES_MAX);
        FUZZ_ASSERT(document->connections_max > 0 && document->idle_msec > 0);
        for (size_t i = 0; i < _SESSION_DNS_MAX; i++)
                FUZZ_ASSERT(document->dns[i] >= -1 && document->dns[i] < (int) n_sockets);
        FUZZ_ASSERT(!document->tenant || *document->tenant);
        for (size_t i = 0; i < document->n_credentials; i++)
                check_credential(&document->credentials[i], n_sockets);
        for (size_t i = 0; i < document->n_names; i++) {
                const Destination *name = &document->names[i];

                FUZZ_ASSERT(destination_name_is_valid(name->name, true));
                FUZZ_ASSERT(name->n_slots >= 1 && name->n_slots <= SESSION_SLOTS_MAX);
                FUZZ_ASSERT(name->n_slots == 1 || name->is_wildcard);
                for (size_t j = 0; j < name->n_ports; j++)
                        check_port(name, &name->ports[j], n_sockets);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        SessionDocument *document = NULL;
        SessionReason reason = {};
        int r;

        if (size == 0)
                return 0;
        r = session_document_parse((const char *) data + 1, size - 1, data[0], &document, &reason);
        FUZZ_ASSERT(r == 0 || r == SESSION_DOCUMENT_E_INVALID);
        if (r == 0)
                check_document(document, data[0]);
        else
                FUZZ_ASSERT(reason.text[0] &&
                            strnlen(reason.text, sizeof(reason.text)) < sizeof(reason.text));
        session_document_free(document);
        return 0;
}
