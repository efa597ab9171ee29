/* SPDX-License-Identifier: Apache-2.0 */
#include "run/pump.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "basic/time-util.h"

#define END_OF_INPUT 4 /* control-D */

/* A shell that has lost the end does not wait for long, and for a long job that does not care we
 * hardly ever wake. */
#define REPEAT_GAP_MIN_USEC (50 * USEC_PER_MSEC)
#define REPEAT_GAP_MAX_USEC (1000 * USEC_PER_MSEC)

/* --- output --- */

void output_pump_init(OutputPump *pump, int fd) {
        *pump = OUTPUT_PUMP_NULL;
        shared_fd_init_write(&pump->file, fd);
}

void output_pump_done(OutputPump *pump) {
        strbuf_done(&pump->pending);
        shared_fd_done(&pump->file);
}

/* Writes as much as goes; *ret_written is set whatever happens. */
static int write_much(const OutputPump *pump, const char *data, size_t size, size_t *ret_written) {
        size_t done = 0;
        int r = 0;

        while (done < size) {
                ssize_t n = shared_fd_write(&pump->file, data + done, size - done);

                if (n >= 0) {
                        done += (size_t) n;
                        continue;
                }
                if (errno == EINTR)
                        continue;
                if (errno == EPIPE || errno == ECONNRESET)
                        r = PUMP_E_BROKEN;
                else if (errno != EAGAIN)
                        r = error_origin(negative_errno());
                break;
        }
        *ret_written = done;
        return r;
}

int output_pump_write(OutputPump *pump, const void *data, size_t size) {
        size_t written = 0;
        int r = 0;

        if (pump->is_broken)
                return 0;
        if (!output_pump_is_pending(pump))
                r = write_much(pump, data, size, &written);
        if (r != 0) {
                pump->is_broken = true;
                return r;
        }
        return error_trace(
                strbuf_append(&pump->pending, (const char *) data + written, size - written));
}

int output_pump_flush(OutputPump *pump) {
        size_t written;
        int r;

        r = write_much(pump, pump->pending.data, pump->pending.size, &written);
        strbuf_consume(&pump->pending, written);
        if (r != 0) {
                strbuf_done(&pump->pending);
                pump->is_broken = true;
        }
        return r;
}

/* --- input --- */

int input_pump_init(InputPump *pump, int source, int sink, bool sink_is_terminal) {
        int flags = fcntl(sink, F_GETFL);

        *pump = INPUT_PUMP_NULL;
        shared_fd_init_read(&pump->source, source);
        pump->sink = sink;
        pump->is_terminal = isatty(source);
        pump->sink_is_terminal = sink_is_terminal;
        pump->buffer = malloc(INPUT_PUMP_SIZE);
        if (!pump->buffer)
                return error_origin(-ENOMEM);
        /* The sink is the crate's and ours alone. */
        if (flags < 0 || fcntl(sink, F_SETFL, flags | O_NONBLOCK) < 0)
                return error_origin(negative_errno());
        return 0;
}

void input_pump_done(InputPump *pump) {
        free(pump->buffer);
        (void) fd_close(pump->sink);
        *pump = INPUT_PUMP_NULL;
}

bool input_pump_wants_read(const InputPump *pump) {
        return pump->sink >= 0 && pump->source.fd >= 0 && !pump->is_stopped &&
               pump->start == pump->end;
}

bool input_pump_wants_write(const InputPump *pump) {
        return pump->sink >= 0 && pump->start < pump->end;
}

/* A terminal has no end that could be closed: it has a character for it, which at the end of a
 * started line only hands over that line. */
static void source_ended(InputPump *pump) {
        pump->in_line = pump->end > 0 && pump->buffer[pump->end - 1] != '\n';
        pump->source.fd = -EBADF;
        if (!pump->sink_is_terminal) {
                pump->sink = fd_close(pump->sink);
                return;
        }
        memset(pump->buffer, END_OF_INPUT, 2);
        pump->start = 0;
        pump->end = pump->in_line ? 2 : 1;
        pump->repeat_gap_usec = REPEAT_GAP_MIN_USEC;
        pump->repeat_usec = now_usec() + pump->repeat_gap_usec;
}

/* To read a terminal from the background would stop us. A terminal that is not ours to control has
 * no foreground for us. */
static bool is_in_background(const InputPump *pump) {
        pid_t foreground = pump->is_terminal ? tcgetpgrp(pump->source.fd) : -1;

        return foreground >= 0 && foreground != getpgrp();
}

static int fill(InputPump *pump) {
        ssize_t n;

        if (is_in_background(pump)) {
                pump->is_stopped = true;
                return 0;
        }
        n = shared_fd_read(&pump->source, pump->buffer, INPUT_PUMP_SIZE);
        if (n > 0) {
                pump->start = 0;
                pump->end = (size_t) n;
                return 0;
        }
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        n = n < 0 && errno != EIO && errno != ECONNRESET ? negative_errno() : 0;
        source_ended(pump);
        return error_origin((int) n);
}

static void drain(InputPump *pump) {
        while (input_pump_wants_write(pump)) {
                ssize_t n = write(pump->sink, pump->buffer + pump->start, pump->end - pump->start);

                if (n >= 0)
                        pump->start += (size_t) n;
                else if (errno == EAGAIN)
                        return;
                else if (errno != EINTR)
                        /* The job has closed its input; that is no fault of anybody. */
                        pump->sink = fd_close(pump->sink);
        }
}

void input_pump_close_sink(InputPump *pump) {
        pump->sink = fd_close(pump->sink);
}

int input_pump_move(InputPump *pump, bool can_read) {
        int r = 0;

        if (can_read && input_pump_wants_read(pump))
                r = fill(pump);
        drain(pump);
        return error_trace(r);
}

/* --- the end of a terminal's input --- */

int input_pump_repeat_msec(const InputPump *pump) {
        uint64_t now = now_usec();

        if (pump->repeat_usec == 0 || pump->sink < 0 || input_pump_wants_write(pump))
                return -1;
        if (now >= pump->repeat_usec)
                return 0;
        return (int) ((pump->repeat_usec - now + USEC_PER_MSEC - 1) / USEC_PER_MSEC);
}

/* Whether the job has read all that was typed. Only its side of the terminal can tell: an end that
 * nobody has read yet is no byte that could be counted. */
static bool all_is_read(int master) {
        _cleanup_(fd_closep) int peer = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
        struct pollfd poll_fd = {.fd = peer, .events = POLLIN};

        return peer >= 0 && poll(&poll_fd, 1, 0) == 0;
}

void input_pump_repeat_end(InputPump *pump) {
        struct termios mode;

        if (input_pump_repeat_msec(pump) != 0)
                return;
        pump->repeat_gap_usec *= 2;
        if (pump->repeat_gap_usec > REPEAT_GAP_MAX_USEC)
                pump->repeat_gap_usec = REPEAT_GAP_MAX_USEC;
        pump->repeat_usec = now_usec() + pump->repeat_gap_usec;
        if (tcgetattr(pump->sink, &mode) < 0 || !all_is_read(pump->sink))
                return;

        pump->start = pump->end = 0;
        /* A line editor takes the end at the begin of a line only: somebody who types would finish
         * the line first. */
        if (!(mode.c_lflag & ICANON) && pump->in_line)
                pump->buffer[pump->end++] = '\n';
        pump->in_line = false;
        pump->buffer[pump->end++] =
                mode.c_cc[VEOF] != _POSIX_VDISABLE ? (char) mode.c_cc[VEOF] : END_OF_INPUT;
        drain(pump);
}
