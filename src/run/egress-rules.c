/* SPDX-License-Identifier: Apache-2.0 */

#include "run/egress-rules.h"

#include <stdio.h>

/* What does not depend on any file; agentcrate-egress has the table. */
#define ALWAYS_DENIED "metadata, link-local, multicast, reserved and unspecified addresses"
#define DENIED_UNLESS_OPEN "private, shared and loopback addresses and this host's, unless opened"

/* Whether that list has the destination; with addresses, whether it opens them for it. */
static bool opens(const DestinationList *list, const Destination *merged, const Cidr *cidr) {
        const Destination *own = destination_list_find(list, merged->name, merged->port);

        for (size_t i = 0; own && cidr && i < own->n_addresses; i++)
                if (cidr_contains(&own->addresses[i], cidr))
                        return true;
        return own && !cidr;
}

static void print_sources(const RunSetup *setup, const DestinationList *allowed,
                          const Destination *merged, const Cidr *cidr) {
        const Template *template = setup->template;
        bool by_template = opens(&template->egress, merged, cidr);
        bool by_option = opens(allowed, merged, cidr);

        if (by_template)
                printf(" by template %s (%s:%u)", template->name, template->file ?: "built in",
                       destination_list_find(&template->egress, merged->name, merged->port)->line);
        if (by_option)
                printf("%s", by_template ? ", --allow" : " by --allow");
}

/* Denied networks that have addresses in common with this one. */
static void print_denied_of(const RunSetup *setup, const Cidr *open) {
        const StrV *deny = &setup->config.egress.deny;
        size_t n = 0;
        Cidr cidr;

        for (size_t i = 0; i < deny->n_items; i++)
                if (cidr_parse(deny->items[i], &cidr) == 0 &&
                    (cidr_contains(&cidr, open) || cidr_contains(open, &cidr)))
                        printf("%s %s", n++ > 0 ? "," : ", but denied is", deny->items[i]);
        if (n > 0)
                printf(" by %s", setup->config.file);
}

static void print_destination(const RunSetup *setup, const DestinationList *allowed,
                              const Destination *destination) {
        const char *denied =
                destination_name_find_denied(&setup->config.egress.deny, destination->name);
        char text[CIDR_TEXT_SIZE];

        printf("allow %s:%u/%s", destination->name, destination->port,
               destination_type_to_string(destination->type));
        print_sources(setup, allowed, destination, NULL);
        if (denied)
                printf(", but denied is %s by %s", denied, setup->config.file);
        printf("\n");
        for (size_t i = 0; !denied && i < destination->n_addresses; i++) {
                cidr_format(&destination->addresses[i], text);
                printf("open  %s for %s:%u", text, destination->name, destination->port);
                print_sources(setup, allowed, destination, &destination->addresses[i]);
                print_denied_of(setup, &destination->addresses[i]);
                printf("\n");
        }
}

void egress_rules_print(const RunSetup *setup, const DestinationList *allowed) {
        const StrV *deny = &setup->config.egress.deny;

        if (!setup->plans.egress)
                return;
        printf("egress rules\n");
        for (size_t i = 0; i < setup->egress.n_items; i++)
                print_destination(setup, allowed, &setup->egress.items[i]);
        for (size_t i = 0; i < deny->n_items; i++)
                printf("deny  %s by %s\n", deny->items[i], setup->config.file);
        printf("deny  " ALWAYS_DENIED "\n");
        printf("deny  " DENIED_UNLESS_OPEN "\n");
}
