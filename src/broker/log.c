/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

/* The service manager tells so where it reads standard error; elsewhere a level is but noise. It is
 * told to children too, whose standard error may be another: then dev:inode differ. */
static bool stderr_is_journal(void) {
        const char *stream = secure_getenv("JOURNAL_STREAM");
        unsigned long long device, inode;
        struct stat st;

        return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
               fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

/* One write a line, so that lines of several programs on one pipe do not mix. */
static void _printf_(3, 0)
        log_line(const char *level, const char *suffix, const char *format, va_list ap) {
        char line[1024];
        int n, m;

        n = snprintf(line, sizeof(line), "%sagentcrated: ", stderr_is_journal() ? level : "");
        m = vsnprintf(line + n, sizeof(line) - (size_t) n, format, ap);
        n = m < 0 ? n : n + m;
        if ((size_t) n < sizeof(line) && suffix)
                n += snprintf(line + n, sizeof(line) - (size_t) n, ": %s", suffix);
        if ((size_t) n > sizeof(line) - 2)
                n = (int) sizeof(line) - 2;

        /* A line break inside would make two records of one. */
        for (int i = 0; i < n; i++)
                if ((unsigned char) line[i] < ' ')
                        line[i] = ' ';
        line[n] = '\n';
        if (write(STDERR_FILENO, line, (size_t) n + 1) < 0)
                return;
}

#define LOG_LINE(level, suffix)                                                                    \
        do {                                                                                       \
                va_list _ap;                                                                       \
                va_start(_ap, format);                                                             \
                log_line(level, suffix, format, _ap);                                              \
                va_end(_ap);                                                                       \
        } while (0)

void log_error(const char *format, ...) {
        LOG_LINE(SD_ERR, NULL);
}

void log_warning(const char *format, ...) {
        LOG_LINE(SD_WARNING, NULL);
}

void log_notice(const char *format, ...) {
        LOG_LINE(SD_NOTICE, NULL);
}

int log_errno(int error, const char *format, ...) {
        char buffer[128];

        LOG_LINE(SD_ERR, strerror_r(error < 0 ? -error : error, buffer, sizeof(buffer)));
        return error;
}
