/* SPDX-License-Identifier: Apache-2.0 */

/*
 * agentcrate stdio: what an agent's configuration names as an MCP server. It carries bytes between
 * our standard files and the broker and understands none of them. When our input ends, the broker
 * is told so and its remaining answers are still delivered; when it closes, or nobody reads our
 * output any more, we end, and with the connection its jobs.
 */

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "basic/error.h"
#include "basic/shared-fd.h"
#include "cli/broker-socket.h"
#include "cli/command.h"

#define LANE_SIZE 65536U

/* Bytes of one direction. */
typedef struct Lane {
        SharedFd from, to;
        char *buffer;
        size_t size, start, end;
        bool is_ended; /* nothing more comes in */
} Lane;

typedef struct Bridge {
        int socket;
        Lane up;   /* our input to the broker */
        Lane down; /* the broker to our output */
        bool is_shut;
} Bridge;

static void bridge_done(Bridge *bridge) {
        free(bridge->up.buffer);
        free(bridge->down.buffer);
        shared_fd_done(&bridge->up.from);
        shared_fd_done(&bridge->down.to);
        bridge->socket = fd_close(bridge->socket);
}

static bool lane_is_empty(const Lane *lane) {
        return lane->start == lane->end;
}

static bool is_later(void) {
        return errno == EAGAIN || errno == EINTR;
}

static int lane_read(Lane *lane) {
        ssize_t n = shared_fd_read(&lane->from, lane->buffer, lane->size);

        if (n < 0 && is_later())
                return 0;
        if (n < 0 && errno != ECONNRESET && errno != EIO)
                return error_origin(negative_errno());
        lane->is_ended = n <= 0;
        lane->start = 0;
        lane->end = n > 0 ? (size_t) n : 0;
        return 0;
}

/* A negative errno: -EPIPE if nobody reads any more. */
static int lane_write(Lane *lane) {
        while (!lane_is_empty(lane)) {
                ssize_t n = shared_fd_write(&lane->to, lane->buffer + lane->start,
                                            lane->end - lane->start);

                if (n < 0 && is_later())
                        return 0;
                if (n < 0)
                        return negative_errno();
                lane->start += (size_t) n;
        }
        return 0;
}

static int lane_init(Lane *lane, size_t size) {
        lane->buffer = malloc(size);
        lane->size = size;
        return lane->buffer ? 0 : error_origin(-ENOMEM);
}

static int bridge_init(Bridge *bridge, const StrBuf *first) {
        int flags = fcntl(bridge->socket, F_GETFL);
        SharedFd socket_file = {.fd = bridge->socket, .own_fd = -EBADF, .how = SHARED_FD_SOCKET};
        int r;

        if (flags < 0 || fcntl(bridge->socket, F_SETFL, flags | O_NONBLOCK) < 0)
                return error_origin(negative_errno());
        r = lane_init(&bridge->up, LANE_SIZE + first->size);
        if (r >= 0)
                r = lane_init(&bridge->down, LANE_SIZE);
        if (r < 0)
                return error_trace(r);

        shared_fd_init_read(&bridge->up.from, STDIN_FILENO);
        bridge->up.to = bridge->down.from = socket_file;
        shared_fd_init_write(&bridge->down.to, STDOUT_FILENO);
        /* What must be the first message goes before anything that we read. */
        if (first->size > 0)
                memcpy(bridge->up.buffer, first->data, first->size);
        bridge->up.end = first->size;
        return 0;
}

/* The broker does not take our input any more; what it has already said still counts. */
static void up_broken(Bridge *bridge) {
        bridge->up.is_ended = bridge->is_shut = true;
        bridge->up.start = bridge->up.end = 0;
}

static int move_up(Bridge *bridge, bool can_read) {
        Lane *up = &bridge->up;
        int r = 0;

        if (can_read && lane_is_empty(up) && !up->is_ended)
                r = lane_read(up);
        if (r < 0)
                return complain_status(EXIT_FAILURE, "cannot read standard input: %s",
                                       strerror(-r));
        if (!bridge->is_shut && lane_write(up) < 0)
                up_broken(bridge);
        if (up->is_ended && lane_is_empty(up) && !bridge->is_shut) {
                (void) shutdown(bridge->socket, SHUT_WR);
                bridge->is_shut = true;
        }
        return 0;
}

static int move_down(Bridge *bridge, bool can_read) {
        Lane *down = &bridge->down;
        int r = 0;

        if (can_read && lane_is_empty(down) && !down->is_ended)
                r = lane_read(down);
        if (r >= 0)
                r = lane_write(down);
        if (r == -EPIPE || r == -ECONNRESET)
                return EXIT_FAILURE;
        if (r < 0)
                return complain_status(EXIT_FAILURE, "cannot pass on what the broker says: %s",
                                       strerror(-r));
        return 0;
}

static short lane_read_events(const Lane *lane) {
        return lane_is_empty(lane) && !lane->is_ended ? POLLIN : 0;
}

/* One turn. 0, or the exit status. */
static int bridge_step(Bridge *bridge) {
        short up_read = lane_read_events(&bridge->up);
        struct pollfd polls[] = {
                {.fd = up_read ? bridge->up.from.fd : -1, .events = up_read},
                {.fd = bridge->socket, .events = lane_read_events(&bridge->down)},
                {.fd = bridge->down.to.fd},
        };
        int r;

        if (!lane_is_empty(&bridge->up))
                polls[1].events |= POLLOUT;
        /* A hung-up socket is always ready: look again when there is room for what it still holds.
         */
        if (!polls[1].events)
                polls[1].fd = -1;
        if (!lane_is_empty(&bridge->down))
                polls[2].events = POLLOUT;
        if (poll(polls, ELEMENTSOF(polls), -1) < 0)
                return errno == EINTR ? 0 : complain_status(EXIT_FAILURE, "%s", strerror(errno));

        /* A reader that is gone shows here even when there is nothing to write to it. */
        if (polls[2].revents & POLLERR)
                return EXIT_FAILURE;
        r = move_up(bridge, polls[0].revents != 0);
        return r != 0 ? r : move_down(bridge, (polls[1].revents & ~POLLOUT) != 0);
}

static int bridge_run(Bridge *bridge) {
        int r;

        while (!bridge->down.is_ended || !lane_is_empty(&bridge->down)) {
                r = bridge_step(bridge);
                if (r != 0)
                        return r;
        }
        if (bridge->up.is_ended)
                return EXIT_SUCCESS;
        return complain_status(EXIT_FAILURE, "the broker has closed the connection");
}

static int run(const Command *command, int argc, char **argv) {
        _cleanup_(common_options_done) CommonOptions options = {};
        _cleanup_(bridge_done) Bridge bridge = {
                .socket = -EBADF, .up.from = SHARED_FD_NULL, .down.to = SHARED_FD_NULL};
        _cleanup_(strv_done) StrV words = STRV_NULL;
        _cleanup_(strbuf_done) StrBuf first = STRBUF_NULL;
        int r, status;

        r = command_parse(command, argc, argv, 0, 0, &options, &words, &status);
        if (r == COMMAND_E_DONE)
                return status;
        if (r == 0)
                r = broker_socket_append_workspace(&options, &first);
        if (r == 0)
                r = broker_socket_connect(&options, &bridge.socket);
        if (r == BROKER_SOCKET_E_COMPLAINED)
                return EXIT_NO_BROKER;
        if (r >= 0)
                r = bridge_init(&bridge, &first);
        return r < 0 ? error_trace(r) : bridge_run(&bridge);
}

static const Option option_rows[] = {
        OPTION_ROW_WORKSPACE,
        OPTION_ROW_SOCKET,
        OPTION_ROW_HELP,
};

static const OptionTable option_table = {
        .options = option_rows, .n_options = ELEMENTSOF(option_rows), .interleaved = true};

const Command command_stdio = {
        .name = "stdio",
        .arguments = "",
        .summary = "pass bytes between standard input and output and the broker",
        .options = &option_table,
        .run = run,
};
