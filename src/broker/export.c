/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/export.h"

#include "basic/error.h"
#include "basic/memfd-util.h"
#include "basic/time-util.h"
#include "broker/export-internal.h"
#include "broker/log.h"
#include "record/otlp.h"

/* Traces that wait, beside those of the batch that is under way. */
#define QUEUE_MAX 1024U
#define BATCH_MAX 64U
/* How long a trace may wait for others. */
#define BATCH_USEC (1 * USEC_PER_SEC)
#define ATTEMPTS_MAX 5U
#define DELAY_MIN_USEC (1 * USEC_PER_SEC)
#define DELAY_MAX_USEC (60 * USEC_PER_SEC)
#define FINISH_USEC (2 * USEC_PER_SEC)
/* Beyond the collector's own time, agentcrate-egress is taken for dead. */
#define ANSWER_USEC (5 * USEC_PER_SEC)

_Static_assert(BATCH_MAX *OTLP_TRACE_MAX + OTLP_FRAME_MAX <= EGRESS_BODY_MAX, "a batch fits");

struct Exporter {
        sd_event *event;
        sd_event_source *timer; /* to send, to send again, or the end of patience */
        sd_event_source *finish_timer;
        ExportLink link;

        Trace *queue; /* a ring */
        size_t first, n;
        int batch_fd; /* -EBADF: there is none */
        size_t batch_n;
        unsigned attempts;   /* of this batch */
        uint64_t delay_usec; /* before the next attempt; 0: the last one went well */
        uint64_t n_dropped;
        bool scheduled; /* the timer is armed to send */
        bool posting;
        bool warned;
        uint64_t finish_usec; /* when nothing is waited for any longer; 0: it does not end */
};

static void exporter_arm(Exporter *exporter, uint64_t usec) {
        (void) sd_event_source_set_time_relative(exporter->timer, usec);
        (void) sd_event_source_set_enabled(exporter->timer, SD_EVENT_ONESHOT);
}

/* Sees to it that what waits is sent when its time comes. */
static void exporter_schedule(Exporter *exporter) {
        uint64_t usec = exporter->delay_usec;

        if (exporter->posting || (exporter->n == 0 && exporter->batch_fd < 0))
                return;
        if (usec == 0 && exporter->n < BATCH_MAX && exporter->batch_fd < 0 &&
            exporter->finish_usec == 0)
                usec = BATCH_USEC;
        exporter->scheduled = true;
        exporter_arm(exporter, usec);
}

void exporter_add(Exporter *exporter, const Trace *trace) {
        if (exporter->n == QUEUE_MAX) {
                exporter->n_dropped++;
                return;
        }
        exporter->queue[(exporter->first + exporter->n) % QUEUE_MAX] = *trace;
        exporter->n++;
        /* Once when there is the first to wait, once when there is a batch. */
        if (!exporter->scheduled || (exporter->delay_usec == 0 && exporter->n == BATCH_MAX))
                exporter_schedule(exporter);
}

/* --- what becomes of a batch --- */

static void batch_done(Exporter *exporter) {
        exporter->batch_fd = fd_close(exporter->batch_fd);
        exporter->batch_n = 0;
        exporter->attempts = 0;
}

static void batch_drop(Exporter *exporter) {
        exporter->n_dropped += exporter->batch_n;
        batch_done(exporter);
}

/* Said once until it goes well again: a collector may be away for days. */
static void exporter_fail(Exporter *exporter, bool again, uint64_t least_usec, const char *why) {
        if (!exporter->warned)
                log_warning("traces do not reach their collector: %s; up to %u are kept meanwhile",
                            why, QUEUE_MAX);
        exporter->warned = true;
        exporter->posting = false;
        /* Whoever ends does not wait for better times. */
        if (exporter->finish_usec > 0)
                exporter->finish_usec = 1;
        if (!again || ++exporter->attempts >= ATTEMPTS_MAX)
                batch_drop(exporter);
        exporter->delay_usec =
                exporter->delay_usec == 0 ? DELAY_MIN_USEC : exporter->delay_usec * 2;
        if (exporter->delay_usec < least_usec)
                exporter->delay_usec = least_usec;
        if (exporter->delay_usec > DELAY_MAX_USEC)
                exporter->delay_usec = DELAY_MAX_USEC;
        exporter_schedule(exporter);
}

static bool may_succeed_later(uint32_t status) {
        return status == 0 || status == 429 || status == 502 || status == 503 || status == 504;
}

static void on_posted(const EgressPosted *posted, void *userdata) {
        Exporter *exporter = userdata;
        char text[64];

        if (posted->status >= 200 && posted->status < 300) {
                if (exporter->warned)
                        log_notice("traces reach their collector again; %llu were dropped so far",
                                   (unsigned long long) exporter->n_dropped);
                exporter->warned = exporter->posting = false;
                exporter->delay_usec = 0;
                batch_done(exporter);
                exporter->scheduled = false;
                (void) sd_event_source_set_enabled(exporter->timer, SD_EVENT_OFF);
                exporter_schedule(exporter);
                return;
        }
        (void) snprintf(text, sizeof(text), "it answers with status %u", posted->status);
        exporter_fail(exporter, may_succeed_later(posted->status),
                      posted->retry_after_sec * USEC_PER_SEC,
                      posted->status > 0 ? text : posted->text);
}

static void on_lost(void *userdata) {
        Exporter *exporter = userdata;

        if (exporter->posting)
                exporter_fail(exporter, true, 0, "agentcrate-egress has ended");
}

static const ExportLinkCallbacks callbacks = {.on_posted = on_posted, .on_lost = on_lost};

/* --- sending --- */

static int batch_write(Exporter *exporter, size_t n, StrBuf *text) {
        int r;

        r = otlp_append_begin(text, PACKAGE_VERSION);
        for (size_t i = 0; r == 0 && i < n; i++)
                r = otlp_append_trace(text, &exporter->queue[(exporter->first + i) % QUEUE_MAX],
                                      i == 0);
        return r < 0 ? error_trace(r) : error_trace(otlp_append_end(text));
}

static int batch_make(Exporter *exporter) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        size_t n = size_min(exporter->n, BATCH_MAX);
        int r;

        r = batch_write(exporter, n, &text);
        if (r == 0)
                r = memfd_new_sealed("traces", text.data, text.size, &exporter->batch_fd);
        if (r < 0)
                return error_trace(r);
        exporter->batch_n = n;
        exporter->first = (exporter->first + n) % QUEUE_MAX;
        exporter->n -= n;
        return 0;
}

static void exporter_send(Exporter *exporter) {
        int r = 0;

        if (exporter->batch_fd < 0 && exporter->n > 0)
                r = batch_make(exporter);
        if (exporter->batch_fd < 0 && r == 0)
                return;
        if (r == 0 && !export_link_is_open(&exporter->link))
                r = export_link_open(&exporter->link, exporter->warned);
        if (r == 0)
                r = export_link_post(&exporter->link, exporter->batch_fd);
        if (r < 0) {
                export_link_close(&exporter->link);
                exporter_fail(exporter, true, 0, "they cannot be handed to agentcrate-egress");
                return;
        }
        exporter->posting = exporter->scheduled = true;
        exporter_arm(exporter, exporter->link.timeout_msec * USEC_PER_MSEC + ANSWER_USEC);
}

static int on_timer(sd_event_source *source _unused_, uint64_t usec _unused_, void *userdata) {
        Exporter *exporter = userdata;

        exporter->scheduled = false;
        if (!exporter->posting) {
                exporter_send(exporter);
                return 0;
        }
        export_link_close(&exporter->link);
        exporter_fail(exporter, true, 0, "agentcrate-egress does not answer");
        return 0;
}

/* There must be a round of the loop in which to give up. */
static int on_finish(sd_event_source *source _unused_, uint64_t usec _unused_,
                     void *userdata _unused_) {
        return 0;
}

bool exporter_finish(Exporter *exporter) {
        if (exporter->finish_usec == 0) {
                exporter->finish_usec = now_usec() + FINISH_USEC;
                if (!exporter->posting) {
                        exporter->delay_usec = 0;
                        exporter_schedule(exporter);
                }
                (void) sd_event_add_time_relative(exporter->event, &exporter->finish_timer,
                                                  CLOCK_MONOTONIC, FINISH_USEC, 0, on_finish, NULL);
        }
        return (exporter->n == 0 && exporter->batch_fd < 0) || now_usec() >= exporter->finish_usec;
}

uint64_t exporter_n_dropped(const Exporter *exporter) {
        return exporter->n_dropped;
}

/* --- start and end --- */

static int exporter_init(Exporter *exporter, const ExportConfig *config) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        int r;

        exporter->queue = calloc(QUEUE_MAX, sizeof(Trace));
        if (!exporter->queue)
                return error_origin(-ENOMEM);
        r = export_config_append(&text, config);
        if (r == 0)
                r = memfd_new_sealed("collector", text.data, text.size,
                                     &exporter->link.collector_fd);
        if (r < 0)
                return error_trace(r);
        r = sd_event_add_time(exporter->event, &exporter->timer, CLOCK_MONOTONIC, 0, 0, on_timer,
                              exporter);
        if (r >= 0)
                r = sd_event_source_set_enabled(exporter->timer, SD_EVENT_OFF);
        return r < 0 ? error_origin(r) : 0;
}

int exporter_new(sd_event *event, ExportConfig *config, const char *egress_path,
                 Exporter **ret_exporter) {
        _cleanup_(exporter_freep) Exporter *exporter = NULL;
        int r;

        exporter = calloc(1, sizeof(*exporter));
        if (!exporter)
                return error_origin(-ENOMEM);
        *exporter = (Exporter){.event = sd_event_ref(event), .batch_fd = -EBADF};
        exporter->link = (ExportLink){.event = event,
                                      .path = egress_path,
                                      .collector_fd = -EBADF,
                                      .timeout_msec = config->timeout_msec,
                                      .callbacks = &callbacks,
                                      .userdata = exporter,
                                      .link = LINK_NULL};
        r = exporter_init(exporter, config);
        if (r < 0)
                return error_trace(r);
        export_config_done(config);
        *ret_exporter = TAKE_PTR(exporter);
        return 0;
}

Exporter *exporter_free(Exporter *exporter) {
        if (!exporter)
                return NULL;

        export_link_close(&exporter->link);
        (void) fd_close(exporter->link.collector_fd);
        (void) fd_close(exporter->batch_fd);
        sd_event_source_disable_unref(exporter->timer);
        sd_event_source_disable_unref(exporter->finish_timer);
        sd_event_unref(exporter->event);
        free(exporter->queue);
        free(exporter);
        return NULL;
}
