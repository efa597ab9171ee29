/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/post.h"

#include <string.h>
#include <strings.h>

#include "basic/error.h"
#include "basic/time-util.h"
#include "egress/curl-loop.h"
#include "egress/resolver.h"

/* Nothing of an answer is looked at but its status; this much of it is taken to keep the
 * connection, and more ends it. */
#define ANSWER_MAX (64U * 1024U)
#define RETRY_AFTER_MAX 3600

struct Poster {
        Loop *loop;
        Collector collector;
        CURL *curl;
        CurlLoop *curl_loop;
        CurlTransfer transfer;
        struct curl_slist *headers, *pinned;
        char *host, *port; /* of the URL; host is NULL if there is no name to resolve */
        Resolver *resolver;
        ResolverQuery *query;
        LoopTimer timer; /* of what comes before libcurl's own */
        LoopTask fail;
        PosterDone done;
        void *userdata;
        const void *body;
        size_t body_size;
        uint64_t begun_usec;
        size_t answer_size;
        char error[CURL_ERROR_SIZE];
};

static size_t on_answer(char *data _unused_, size_t size, size_t n, void *userdata) {
        Poster *poster = userdata;

        poster->answer_size += size * n;
        return poster->answer_size <= ANSWER_MAX ? size * n : 0;
}

static int add_header(Poster *poster, const char *header) {
        struct curl_slist *list = curl_slist_append(poster->headers, header);

        if (!list)
                return error_origin(-ENOMEM);
        poster->headers = list;
        return 0;
}

static int add_headers(Poster *poster) {
        int r;

        r = add_header(poster, "Content-Type: application/json");
        /* A batch is small: it is not worth to ask first. */
        if (r == 0)
                r = add_header(poster, "Expect:");
        for (size_t i = 0; r == 0 && i < poster->collector.headers.n_items; i++)
                r = add_header(poster, poster->collector.headers.items[i]);
        return r;
}

/* One fault tells as much as several. */
static CURLcode set_options(Poster *poster) {
        const Collector *collector = &poster->collector;
        CURL *curl = poster->curl;
        CURLcode code = CURLE_OK;

#define SET(option, value)                                                                         \
        do {                                                                                       \
                if (code == CURLE_OK)                                                              \
                        code = curl_easy_setopt(curl, (option), (value));                          \
        } while (0)
        SET(CURLOPT_URL, collector->url);
        /* What is said in the collector's name goes nowhere else. */
        SET(CURLOPT_PROTOCOLS_STR, "http,https");
        SET(CURLOPT_FOLLOWLOCATION, 0L);
        SET(CURLOPT_PROXY, "");
        SET(CURLOPT_SSL_VERIFYPEER, 1L);
        SET(CURLOPT_SSL_VERIFYHOST, 2L);
        SET(CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2);
        if (collector->certificates)
                SET(CURLOPT_CAINFO, collector->certificates);
        SET(CURLOPT_NOSIGNAL, 1L);
        SET(CURLOPT_USERAGENT, "agentcrate/" PACKAGE_VERSION);
        SET(CURLOPT_HTTPHEADER, poster->headers);
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_WRITEFUNCTION, on_answer);
        SET(CURLOPT_WRITEDATA, (void *) poster);
        SET(CURLOPT_ERRORBUFFER, poster->error);
#undef SET
        return code;
}

/* --- the host of the URL --- */

static bool is_address(const char *host) {
        Address address;

        return *host == '[' || address_parse(host, &address);
}

/* libcurl knows by itself where localhost is. */
static int read_url(Poster *poster) {
        CURLU *url = curl_url();
        char *host = NULL, *port = NULL;
        int r = 0;

        if (!url)
                return error_origin(-ENOMEM);
        if (curl_url_set(url, CURLUPART_URL, poster->collector.url, 0) != CURLUE_OK ||
            curl_url_get(url, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
            curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK)
                r = error_origin(-EINVAL);
        else if (!is_address(host) && strcasecmp(host, "localhost") != 0) {
                poster->host = strdup(host);
                poster->port = strdup(port);
                if (!poster->host || !poster->port)
                        r = error_origin(-ENOMEM);
        }
        curl_free(host);
        curl_free(port);
        curl_url_cleanup(url);
        return r;
}

/* NAME:PORT:ADDRESS,ADDRESS, as CURLOPT_RESOLVE wants it. */
static int pin(Poster *poster, const ResolverAnswer *answer) {
        _cleanup_(strbuf_done) StrBuf entry = STRBUF_NULL;
        char text[ADDRESS_TEXT_MAX];
        int r;

        r = strbuf_appendf(&entry, "%s:%s:", poster->host, poster->port);
        for (size_t i = 0; r == 0 && i < answer->n_addresses; i++)
                r = strbuf_appendf(&entry,
                                   answer->addresses[i].family == AF_INET6 ? "%s[%s]" : "%s%s",
                                   i > 0 ? "," : "", address_format(&answer->addresses[i], text));
        if (r < 0)
                return error_trace(r);
        curl_slist_free_all(poster->pinned);
        poster->pinned = curl_slist_append(NULL, entry.data);
        if (!poster->pinned ||
            curl_easy_setopt(poster->curl, CURLOPT_RESOLVE, poster->pinned) != CURLE_OK)
                return error_origin(-ENOMEM);
        return 0;
}

/* --- one post --- */

static void put_text(EgressPosted *posted, const char *text) {
        size_t size = size_min(strlen(text), sizeof(posted->text) - 1);

        memcpy(posted->text, text, size);
        posted->text[size] = 0;
}

static void post_end(Poster *poster, const EgressPosted *posted) {
        loop_timer_stop(&poster->timer);
        resolver_query_cancel(poster->query);
        poster->query = NULL;
        loop_task_cancel(&poster->fail);
        (void) curl_easy_setopt(poster->curl, CURLOPT_POSTFIELDS, "");
        poster->done(poster->userdata, posted);
}

static void post_fail(Poster *poster, const char *text) {
        EgressPosted posted = {};

        put_text(&posted, text);
        post_end(poster, &posted);
}

static void on_time(void *userdata) {
        post_fail(userdata, "the collector's name was not resolved in time");
}

static void on_fail(void *userdata) {
        post_fail(userdata, "there is no memory for a post");
}

static void on_transfer(void *userdata, CURLcode code) {
        Poster *poster = userdata;
        EgressPosted posted = {};
        curl_off_t retry_after = 0;
        long status = 0;

        /* An answer that is too long is one all the same. */
        if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && poster->answer_size > ANSWER_MAX)) {
                (void) curl_easy_getinfo(poster->curl, CURLINFO_RESPONSE_CODE, &status);
                (void) curl_easy_getinfo(poster->curl, CURLINFO_RETRY_AFTER, &retry_after);
        } else
                put_text(&posted, poster->error[0] ? poster->error : curl_easy_strerror(code));
        posted.status = status > 0 ? (uint32_t) status : 0;
        if (retry_after > 0 && retry_after <= RETRY_AFTER_MAX)
                posted.retry_after_sec = (uint32_t) retry_after;
        post_end(poster, &posted);
}

/* What the name took is a part of the collector's time. */
static void post_begin(Poster *poster) {
        uint64_t spent = (now_usec() - poster->begun_usec) / USEC_PER_MSEC;
        long left = spent < poster->collector.timeout_msec
                            ? (long) (poster->collector.timeout_msec - spent)
                            : 1;
        CURL *curl = poster->curl;

        loop_timer_stop(&poster->timer);
        if (curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, left) != CURLE_OK ||
            curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, left) != CURLE_OK ||
            curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) poster->body_size) !=
                    CURLE_OK ||
            curl_easy_setopt(curl, CURLOPT_POSTFIELDS, poster->body) != CURLE_OK ||
            curl_loop_begin(poster->curl_loop, &poster->transfer) < 0)
                loop_defer(poster->loop, &poster->fail);
}

static void on_resolved(void *userdata, const ResolverAnswer *answer) {
        Poster *poster = userdata;
        char text[PROTO_EGRESS_TEXT_MAX];

        poster->query = NULL;
        if (answer->error || answer->n_addresses == 0) {
                (void) snprintf(text, sizeof(text), "Could not resolve host: %.100s (%.60s)",
                                poster->host, answer->error ?: "it has no address");
                post_fail(poster, text);
        } else if (pin(poster, answer) < 0)
                loop_defer(poster->loop, &poster->fail);
        else
                post_begin(poster);
}

void poster_post(Poster *poster, const void *body, size_t size) {
        poster->body = body;
        poster->body_size = size;
        poster->answer_size = 0;
        poster->error[0] = 0;
        poster->begun_usec = now_usec();
        if (!poster->host)
                post_begin(poster);
        else if (loop_timer_set(poster->loop, &poster->timer,
                                poster->begun_usec +
                                        poster->collector.timeout_msec * USEC_PER_MSEC) < 0 ||
                 resolver_ask(poster->resolver, poster->host, on_resolved, poster, &poster->query) <
                         0)
                loop_defer(poster->loop, &poster->fail);
}

/* --- the poster --- */

Poster *poster_free(Poster *poster) {
        if (!poster)
                return NULL;

        curl_loop_end(&poster->transfer);
        curl_easy_cleanup(poster->curl);
        curl_loop_free(poster->curl_loop);
        resolver_query_cancel(poster->query);
        resolver_free(poster->resolver);
        loop_timer_stop(&poster->timer);
        loop_task_cancel(&poster->fail);
        curl_slist_free_all(poster->headers);
        curl_slist_free_all(poster->pinned);
        collector_done(&poster->collector);
        free(poster->host);
        free(poster->port);
        free(poster);
        return NULL;
}

static int poster_prepare(Poster *poster) {
        int r;

        poster->curl = curl_easy_init();
        if (!poster->curl)
                return error_origin(-ENOMEM);
        poster->transfer =
                (CurlTransfer){.curl = poster->curl, .done = on_transfer, .userdata = poster};
        r = add_headers(poster);
        if (r == 0)
                r = read_url(poster);
        if (r == 0)
                r = curl_loop_new(poster->loop, &poster->curl_loop);
        if (r == 0 && poster->host)
                r = resolver_new(poster->loop, NULL, &poster->resolver);
        if (r < 0)
                return error_trace(r);
        return set_options(poster) == CURLE_OK ? 0 : error_origin(-EOPNOTSUPP);
}

int poster_new(Loop *loop, Collector *collector, PosterDone done, void *userdata,
               Poster **ret_poster) {
        _cleanup_(poster_freep) Poster *poster = NULL;
        int r;

        poster = calloc(1, sizeof(*poster));
        if (!poster)
                return error_origin(-ENOMEM);
        poster->loop = loop;
        poster->done = done;
        poster->userdata = userdata;
        poster->timer = (LoopTimer){.on_time = on_time, .userdata = poster};
        poster->fail = (LoopTask){.run = on_fail, .userdata = poster};
        poster->collector = *collector;
        *collector = (Collector){};
        r = poster_prepare(poster);
        if (r < 0)
                return error_trace(r);

        *ret_poster = TAKE_PTR(poster);
        return 0;
}
