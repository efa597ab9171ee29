/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/collector.h"

#include <string.h>

#include "basic/error.h"

void collector_done(Collector *collector) {
        free(collector->url);
        free(collector->certificates);
        strv_done(&collector->headers);
        *collector = (Collector){};
}

/* Nothing in it can begin another line of the request. */
static bool is_one_line(const char *text) {
        for (; *text; text++)
                if ((unsigned char) *text < ' ' || *text == 0x7f)
                        return false;
        return true;
}

static bool is_url(const char *url) {
        return (string_after(url, "http://") || string_after(url, "https://")) && is_one_line(url);
}

/* The next of the strings; NULL behind the last. */
static const char *next_string(const char **text, const char *end) {
        const char *string = *text;

        if (string >= end)
                return NULL;
        *text = string + strlen(string) + 1;
        return string;
}

int collector_parse(const char *text, size_t size, uint32_t timeout_msec,
                    Collector *ret_collector) {
        _cleanup_(collector_done) Collector collector = {.timeout_msec = timeout_msec};
        const char *end = text + size, *url, *certificates, *header;
        int r;

        if (size == 0 || end[-1] != 0 || timeout_msec == 0 ||
            timeout_msec > COLLECTOR_TIMEOUT_MSEC_MAX)
                return COLLECTOR_E_INVALID;
        url = next_string(&text, end);
        certificates = next_string(&text, end);
        if (!certificates || !is_url(url))
                return COLLECTOR_E_INVALID;

        collector.url = strdup(url);
        if (*certificates)
                collector.certificates = strdup(certificates);
        if (!collector.url || (*certificates && !collector.certificates))
                return error_origin(-ENOMEM);

        while ((header = next_string(&text, end))) {
                if (!strstr(header, ": ") || *header == ':' || !is_one_line(header) ||
                    collector.headers.n_items >= COLLECTOR_HEADERS_MAX)
                        return COLLECTOR_E_INVALID;
                r = strv_append(&collector.headers, header);
                if (r < 0)
                        return error_trace(r);
        }
        *ret_collector = collector;
        collector = (Collector){};
        return 0;
}
