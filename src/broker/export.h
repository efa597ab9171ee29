/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sends the traces of calls that have ended to a collector, by agentcrate-egress: in batches, one
 * at a time, out of a queue of fixed size. Nobody ever waits for it: what there is no room for is
 * dropped and counted.
 *
 * A batch that the collector may take later is sent again, after a delay that doubles; so is one
 * that was under way when agentcrate-egress ended, which is then started again.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "broker/export-config.h"
#include "record/trace.h"

typedef struct Exporter Exporter;

/* egress_path is the socket of the egress service, borrowed; NULL: it is started as a child when
 * there is something to send. config is consumed, on success. 0 or a negative errno. */
int exporter_new(sd_event *event, ExportConfig *config, const char *egress_path,
                 Exporter **ret_exporter);
Exporter *exporter_free(Exporter *exporter);
DEFINE_CLEANUP(Exporter, exporter_free);

/* Takes a copy of a trace that has ended. */
void exporter_add(Exporter *exporter, const Trace *trace);
/* Sends what is left at once. True when nothing is left, or no longer waited for: that is two
 * seconds. To be asked in each round of the event loop of a broker that ends. */
bool exporter_finish(Exporter *exporter);
/* Traces that no collector has taken and that are not kept any longer. */
uint64_t exporter_n_dropped(const Exporter *exporter);
