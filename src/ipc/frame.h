/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Frames: what our own processes say to each other. One frame is one SOCK_SEQPACKET datagram: a
 * fixed header, a payload, and the file descriptors that came with it. Everything is bounded,
 * nothing is self-describing: both sides are of one build.
 */

#include <stddef.h>
#include <stdint.h>

#include "basic/macros.h"

#define FRAME_MAGIC 0x4143U /* "AC" */
#define FRAME_VERSION 1U
#define FRAME_PAYLOAD_MAX 2048U /* a frame is read onto the stack: half a page is enough */
#define FRAME_FDS_MAX 8U

typedef struct FrameHeader {
        uint16_t magic;
        uint8_t version;
        uint8_t n_fds;
        uint16_t type;
        uint16_t reserved; /* 0 */
        uint32_t id;
        uint32_t length; /* of the payload */
} FrameHeader;

_Static_assert(sizeof(FrameHeader) == 16, "the header has no padding");

/* A received frame. It owns its file descriptors: take them with TAKE_FD, frame_done() closes the
 * rest. */
typedef struct Frame {
        FrameHeader header;
        int fds[FRAME_FDS_MAX];
        size_t n_fds;
        union {
                uint64_t align;
                uint8_t payload[FRAME_PAYLOAD_MAX];
        };
} Frame;

enum {
        _FRAME_E_SUCCESS,
        FRAME_E_EOF,       /* the peer has closed */
        FRAME_E_AGAIN,     /* nothing to read now, or no room to write */
        FRAME_E_MALFORMED, /* not a frame of ours: the link is to be ended */
};

/* Checks the header against the size of the datagram and the number of fds. 0 or FRAME_E_MALFORMED.
 */
int frame_check(const FrameHeader *header, size_t datagram_size, size_t n_fds);

/* Sends one frame. The fds are borrowed. 0, FRAME_E_AGAIN, FRAME_E_EOF or a negative errno. */
int frame_send(int socket, uint16_t type, uint32_t id, const void *payload, size_t size,
               const int *fds, size_t n_fds);

/* Receives one frame; flags is 0 or MSG_DONTWAIT. On any outcome but 0 the frame owns nothing. All
 * fds arrive with O_CLOEXEC. */
int frame_receive(int socket, int flags, Frame *ret_frame);

void frame_done(Frame *frame);
