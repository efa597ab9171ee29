/* SPDX-License-Identifier: Apache-2.0 */

#include "launcher/net-counters.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "basic/macros.h"

/* Either file is some 2 to 6 KiB. */
#define TEXT_SIZE 8192U

static bool read_text(const char *path, char *ret_text) {
        _cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
        size_t size = 0;
        ssize_t n;

        if (fd < 0)
                return false;
        do {
                n = read(fd, ret_text + size, TEXT_SIZE - 1 - size);
                size += n > 0 ? (size_t) n : 0;
        } while (n > 0 && size < TEXT_SIZE - 1);
        ret_text[size] = 0;
        return n >= 0;
}

/* The line after this one, or NULL. */
static const char *next_line(const char *line) {
        const char *end = strchr(line, '\n');

        return end && end[1] ? end + 1 : NULL;
}

static const char *find_line(const char *text, const char *prefix) {
        for (const char *line = text; line; line = next_line(line))
                if (strncmp(line, prefix, strlen(prefix)) == 0)
                        return line;
        return NULL;
}

/* In snmp a line of names is followed by one of values, each behind a space. */
static uint64_t value_below(const char *text, const char *protocol, const char *name) {
        const char *names = find_line(text, protocol), *values = names ? next_line(names) : NULL;
        const size_t size = strlen(name);

        if (!names || !values)
                return 0;
        while (*names != '\n') {
                names += strcspn(names, " \n");
                values += strcspn(values, " \n");
                if (*names != ' ' || *values != ' ')
                        return 0;
                names++;
                values++;
                if (strncmp(names, name, size) == 0 && (names[size] == ' ' || names[size] == '\n'))
                        return strtoull(values, NULL, 10);
        }
        return 0;
}

/* In snmp6 each line is a name and a value. */
static uint64_t value_beside(const char *text, const char *name) {
        const char *line = find_line(text, name);

        return line ? strtoull(line + strlen(name), NULL, 10) : 0;
}

void net_counters_read(NetCounters *ret_counters) {
        char text[TEXT_SIZE];
        NetCounters counters = {};

        if (read_text("/proc/self/net/snmp", text)) {
                counters.refused = value_below(text, "Tcp:", "AttemptFails");
                counters.unrouted = value_below(text, "Ip:", "OutNoRoutes");
                counters.unheard = value_below(text, "Udp:", "NoPorts");
        }
        if (read_text("/proc/self/net/snmp6", text)) {
                counters.unrouted += value_beside(text, "Ip6OutNoRoutes");
                counters.unheard += value_beside(text, "Udp6NoPorts");
        }
        *ret_counters = counters;
}
