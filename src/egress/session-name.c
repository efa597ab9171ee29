/* SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "basic/error.h"
#include "egress/destination-name.h"
#include "egress/session-internal.h"

/* The exact name before any wildcard, and of those the one that says most. */
static Destination *find_name(SessionDocument *document, const char *name) {
        Destination *found = NULL;

        for (size_t i = 0; i < document->n_names; i++) {
                Destination *candidate = &document->names[i];

                if (!destination_name_matches(candidate->name, name))
                        continue;
                if (!candidate->is_wildcard)
                        return candidate;
                if (!found || strlen(candidate->name) > strlen(found->name))
                        found = candidate;
        }
        return found;
}

bool session_denies_name(const Session *session, const char *name) {
        const StrV *deny = &session->document->deny_names;

        for (size_t i = 0; i < deny->n_items; i++)
                if (destination_name_matches(deny->items[i], name))
                        return true;
        return false;
}

int session_find_slot(Session *session, const char *name, const DestinationSlot **ret_slot) {
        Destination *found = find_name(session->document, name);

        for (size_t i = 0; i < session->document->n_credentials; i++)
                if (string_equal(session->document->credentials[i].host.name, name)) {
                        *ret_slot = session->document->credentials[i].host.slots;
                        return 0;
                }
        if (session_denies_name(session, name))
                return SESSION_FIND_E_DENIED;
        if (!found)
                return SESSION_FIND_E_NONE;
        for (size_t i = 0; i < found->n_slots; i++) {
                DestinationSlot *slot = &found->slots[i];

                if (!slot->name) {
                        slot->name = strdup(name);
                        if (!slot->name)
                                return error_origin(-ENOMEM);
                }
                if (string_equal(slot->name, name)) {
                        *ret_slot = slot;
                        return 0;
                }
        }
        return SESSION_FIND_E_FULL;
}
