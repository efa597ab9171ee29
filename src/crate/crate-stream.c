/* SPDX-License-Identifier: Apache-2.0 */

/* The job's standard streams: read, counted, kept, passed on; and fed. */

#include "crate/crate-state.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>

#include "basic/error.h"

#define CRATE_READ_SIZE 65536U
#define CRATE_READS_MAX 16U /* of one stream before the others get their turn */

static void crate_on_chunk(Crate *crate, CrateStream stream, const char *data, size_t size) {
        Capture *capture = stream == CRATE_STDOUT ? &crate->result.out : &crate->result.err;
        uint64_t max = crate->job.limits.max[LIMIT_OUTPUT], total;

        if (crate->result.limit.name == LIMIT_OUTPUT)
                return;

        total = crate->result.out.total + crate->result.err.total;
        if (max != LIMIT_UNLIMITED && size > max - total) {
                uint64_t observed = total + size;

                size = (size_t) (max - total);
                crate_breach(crate, LIMIT_OUTPUT, observed, false);
        }
        if (capture_add(capture, data, size) < 0) {
                crate_abort(crate, CRATE_LOST);
                return;
        }
        if (crate->result.limit.name == LIMIT_OUTPUT)
                capture_end(capture);
        if (size == 0)
                return;
        crate->result.limits[LIMIT_OUTPUT].peak = total + size;
        if (crate->callbacks.on_output)
                crate->callbacks.on_output(crate, stream, data, size, crate->userdata);
}

void crate_read_stream(Crate *crate, CrateStream stream) {
        /* Not on the stack: of a page there each is touched, of these only what is read into. */
        _cleanup_(freep) char *buffer = malloc(CRATE_READ_SIZE);

        if (!buffer) {
                crate_abort(crate, CRATE_LOST);
                return;
        }
        for (unsigned i = 0; i < CRATE_READS_MAX; i++) {
                ssize_t n;

                if (crate->stream_fds[stream] < 0 || crate->paused[stream])
                        return;
                n = read(crate->stream_fds[stream], buffer, CRATE_READ_SIZE);
                if (n > 0) {
                        crate_on_chunk(crate, stream, buffer, (size_t) n);
                        if ((size_t) n < CRATE_READ_SIZE && crate->state < CRATE_STATE_ENDED)
                                return;
                        continue;
                }
                if (n < 0 && errno == EINTR)
                        continue;
                /* Once everything in the crate is dead, a pipe that is empty stays so for us,
                 * whoever elsewhere may have been handed its other end. */
                if (n == 0 || errno != EAGAIN || (crate->state == CRATE_STATE_ENDED && crate->dead))
                        crate_unwatch(crate, &crate->stream_fds[stream]);
                return;
        }
}

void crate_write_stdin(Crate *crate) {
        size_t left = crate->job.stdin_size - crate->stdin_done;
        ssize_t n = 0;

        if (left > 0) {
                n = write(crate->stdin_fd, crate->job.stdin_data + crate->stdin_done, left);
                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        return;
        }
        /* EPIPE: the job does not want the rest. */
        if (n < 0 || (size_t) n == left) {
                crate_unwatch(crate, &crate->stdin_fd);
                return;
        }
        crate->stdin_done += (size_t) n;
}

int crate_pause_output(Crate *crate, CrateStream stream, bool pause) {
        int fd = crate->stream_fds[stream];

        if (crate->paused[stream] == pause)
                return 0;
        crate->paused[stream] = pause;
        if (fd < 0)
                return 0;
        /* Out of the epoll, not just without events: EPOLLHUP would be reported all the same, again
         * and again. */
        if (pause)
                return epoll_ctl(crate->epoll_fd, EPOLL_CTL_DEL, fd, NULL) < 0
                               ? error_origin(negative_errno())
                               : 0;
        if (crate->state == CRATE_STATE_ENDED) {
                /* There may be no event any more: the timer looks at once. */
                crate->drain_usec = now_usec();
                (void) crate_arm_timer(crate);
        }
        return crate_watch(crate, fd, SOURCE_STDOUT + stream, EPOLLIN);
}

int crate_take_stdin(Crate *crate) {
        return TAKE_FD(crate->stdin_fd);
}

static int set_nonblocking(int fd) {
        return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? error_origin(negative_errno()) : 0;
}

/* The host's ends: stdin if it is piped, then the two streams. */
int crate_take_streams(Crate *crate, Frame *frame) {
        bool piped = crate->job.stdin_mode != CRATE_STDIN_NULL;
        size_t n = 0;
        int r;

        if (frame->n_fds != (piped ? 3U : 2U))
                return error_origin(-EBADMSG);
        if (piped)
                crate->stdin_fd = TAKE_FD(frame->fds[n++]);
        for (size_t i = 0; i < 2; i++) {
                crate->stream_fds[i] = TAKE_FD(frame->fds[n++]);
                r = set_nonblocking(crate->stream_fds[i]);
                if (r == 0 && !crate->paused[i])
                        r = crate_watch(crate, crate->stream_fds[i],
                                        SOURCE_STDOUT + (CrateSource) i, EPOLLIN);
                if (r < 0)
                        return error_trace(r);
        }
        if (crate->job.stdin_mode != CRATE_STDIN_DATA)
                return 0;
        r = set_nonblocking(crate->stdin_fd);
        return r < 0 ? error_trace(r) : crate_watch(crate, crate->stdin_fd, SOURCE_STDIN, EPOLLOUT);
}
