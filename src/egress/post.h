/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One POST after the other to one place, by libcurl. */

#include <stdbool.h>

#include "egress/collector.h"

typedef struct Poster Poster;

/* Asked again and again while a post is under way; true gives it up. */
typedef bool (*PosterGiveUp)(void *userdata);

/* Takes what collector holds, on success. 0 or a negative errno. */
int poster_new(Collector *collector, PosterGiveUp give_up, void *userdata, Poster **ret_poster);
Poster *poster_free(Poster *poster);
DEFINE_CLEANUP(Poster, poster_free);

/* Waits for the answer, no longer than the collector's time. */
void poster_post(Poster *poster, const void *body, size_t size, EgressPosted *ret_posted);
