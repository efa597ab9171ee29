/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Transfers of libcurl in the event loop, any number at a time. libcurl itself resolves no name
 * here: whoever begins a transfer has its host resolved and pins it with CURLOPT_RESOLVE. */

#include <curl/curl.h>

#include "basic/macros.h"
#include "egress/loop.h"

typedef struct CurlLoop CurlLoop;

typedef void (*CurlDone)(void *userdata, CURLcode code);

typedef struct CurlTransfer {
        CurlLoop *curl_loop; /* NULL: it is not under way */
        CURL *curl;          /* borrowed */
        CurlDone done;
        void *userdata;
} CurlTransfer;

int curl_loop_new(Loop *loop, CurlLoop **ret_curl_loop);
/* Nothing may be under way. */
CurlLoop *curl_loop_free(CurlLoop *curl_loop);
DEFINE_CLEANUP(CurlLoop, curl_loop_free);

/* curl, done and userdata are set by the caller before. done is called later, and once; it may
 * begin or end any transfer. CURLOPT_PRIVATE is taken. */
int curl_loop_begin(CurlLoop *curl_loop, CurlTransfer *transfer);
/* Breaks it off. */
void curl_loop_end(CurlTransfer *transfer);
