/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The exporter's link to agentcrate-egress. */

#include <sys/types.h>

#include "broker/export.h"
#include "ipc/link.h"
#include "ipc/proto.h"

typedef struct ExportLink ExportLink;

typedef struct ExportLinkCallbacks {
        /* The collector, or the lack of one, has answered a post. */
        void (*on_posted)(const EgressPosted *posted, void *userdata);
        /* agentcrate-egress has gone. */
        void (*on_lost)(void *userdata);
} ExportLinkCallbacks;

struct ExportLink {
        sd_event *event;
        const char *path; /* of the service's socket; NULL: a child of ours */
        int collector_fd; /* what it is told first */
        uint32_t timeout_msec;
        const ExportLinkCallbacks *callbacks;
        void *userdata;

        Link link;
        pid_t pid; /* 0: none of ours */
        sd_event_source *source;
};

/* Starts or finds it. 0, or a negative errno that was logged unless quiet. */
int export_link_open(ExportLink *link, bool quiet);
void export_link_close(ExportLink *link);
/* 0 or a negative errno; on_posted or on_lost comes. */
int export_link_post(ExportLink *link, int body_fd);

static inline bool export_link_is_open(const ExportLink *link) {
        return link->link.fd >= 0;
}
