/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/post.h"

#include <curl/curl.h>
#include <string.h>

#include "basic/error.h"

/* Nothing of an answer is looked at but its status; this much of it is taken to keep the
 * connection, and more ends it. */
#define ANSWER_MAX (64U * 1024U)
#define RETRY_AFTER_MAX 3600

struct Poster {
        Collector collector;
        CURL *curl;
        struct curl_slist *headers;
        PosterGiveUp give_up;
        void *userdata;
        size_t answer_size;
        char error[CURL_ERROR_SIZE];
};

static size_t on_answer(char *data _unused_, size_t size, size_t n, void *userdata) {
        Poster *poster = userdata;

        poster->answer_size += size * n;
        return poster->answer_size <= ANSWER_MAX ? size * n : 0;
}

static int on_progress(void *userdata, curl_off_t down_total _unused_, curl_off_t down _unused_,
                       curl_off_t up_total _unused_, curl_off_t up _unused_) {
        Poster *poster = userdata;

        return poster->give_up(poster->userdata);
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
        SET(CURLOPT_TIMEOUT_MS, (long) collector->timeout_msec);
        SET(CURLOPT_CONNECTTIMEOUT_MS, (long) collector->timeout_msec);
        SET(CURLOPT_NOSIGNAL, 1L);
        SET(CURLOPT_USERAGENT, "agentcrate/" PACKAGE_VERSION);
        SET(CURLOPT_HTTPHEADER, poster->headers);
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_WRITEFUNCTION, on_answer);
        SET(CURLOPT_WRITEDATA, (void *) poster);
        SET(CURLOPT_XFERINFOFUNCTION, on_progress);
        SET(CURLOPT_XFERINFODATA, (void *) poster);
        SET(CURLOPT_NOPROGRESS, 0L);
        SET(CURLOPT_ERRORBUFFER, poster->error);
#undef SET
        return code;
}

Poster *poster_free(Poster *poster) {
        if (!poster)
                return NULL;

        curl_easy_cleanup(poster->curl);
        curl_slist_free_all(poster->headers);
        collector_done(&poster->collector);
        free(poster);
        return NULL;
}

int poster_new(Collector *collector, PosterGiveUp give_up, void *userdata, Poster **ret_poster) {
        _cleanup_(poster_freep) Poster *poster = NULL;
        int r;

        poster = calloc(1, sizeof(*poster));
        if (!poster)
                return error_origin(-ENOMEM);
        poster->give_up = give_up;
        poster->userdata = userdata;
        poster->collector = *collector;
        *collector = (Collector){};
        poster->curl = curl_easy_init();
        if (!poster->curl)
                return error_origin(-ENOMEM);
        r = add_headers(poster);
        if (r < 0)
                return error_trace(r);
        if (set_options(poster) != CURLE_OK)
                return error_origin(-EOPNOTSUPP);

        *ret_poster = TAKE_PTR(poster);
        return 0;
}

static void put_text(EgressPosted *posted, const char *text) {
        size_t size = size_min(strlen(text), sizeof(posted->text) - 1);

        memcpy(posted->text, text, size);
        posted->text[size] = 0;
}

void poster_post(Poster *poster, const void *body, size_t size, EgressPosted *ret_posted) {
        curl_off_t retry_after = 0;
        long status = 0;
        CURLcode code;

        *ret_posted = (EgressPosted){};
        poster->answer_size = 0;
        poster->error[0] = 0;
        (void) curl_easy_setopt(poster->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) size);
        (void) curl_easy_setopt(poster->curl, CURLOPT_POSTFIELDS, body);
        code = curl_easy_perform(poster->curl);
        (void) curl_easy_setopt(poster->curl, CURLOPT_POSTFIELDS, "");

        /* An answer that is too long is one all the same. */
        if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && poster->answer_size > ANSWER_MAX)) {
                (void) curl_easy_getinfo(poster->curl, CURLINFO_RESPONSE_CODE, &status);
                (void) curl_easy_getinfo(poster->curl, CURLINFO_RETRY_AFTER, &retry_after);
        } else
                put_text(ret_posted, poster->error[0] ? poster->error : curl_easy_strerror(code));
        ret_posted->status = status > 0 ? (uint32_t) status : 0;
        if (retry_after > 0 && retry_after <= RETRY_AFTER_MAX)
                ret_posted->retry_after_sec = (uint32_t) retry_after;
}
