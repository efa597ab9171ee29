/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One POST after the other to one place, by libcurl, beside whatever else the loop serves. */

#include "egress/collector.h"
#include "egress/loop.h"

typedef struct Poster Poster;

typedef void (*PosterDone)(void *userdata, const EgressPosted *posted);

/* Takes what collector holds, on success. 0 or a negative errno. */
int poster_new(Loop *loop, Collector *collector, PosterDone done, void *userdata,
               Poster **ret_poster);
/* Gives up the post that is under way. */
Poster *poster_free(Poster *poster);
DEFINE_CLEANUP(Poster, poster_free);

/* done is called later, and once: when there is an answer, or when the collector's time is over.
 * body is borrowed until then. */
void poster_post(Poster *poster, const void *body, size_t size);
