/* SPDX-License-Identifier: Apache-2.0 */

#include "doctor/read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* More than any text of the kernel's that is asked for here. */
#define TEXT_MAX (4U * 1024 * 1024)

char *read_text(const char *path) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        _cleanup_(fd_closep) int fd = -EBADF;
        char buffer[4096];
        ssize_t n;

        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        while (fd >= 0 && text.size < TEXT_MAX && (n = read(fd, buffer, sizeof(buffer))) > 0)
                if (strbuf_append(&text, buffer, (size_t) n) < 0)
                        return NULL;
        return strbuf_steal(&text);
}

bool read_line(const char *path, char *buffer, size_t size) {
        _cleanup_(freep) char *text = read_text(path);

        if (string_empty(text))
                return false;
        text[strcspn(text, "\n")] = 0;
        (void) snprintf(buffer, size, "%s", text);
        return true;
}

long read_number(const char *path) {
        char line[32], *end;
        long value;

        if (!read_line(path, line, sizeof(line)))
                return -1;
        value = strtol(line, &end, 10);
        return end == line ? -1 : value;
}

unsigned long long text_number(const char *text, const char *name, int base,
                               unsigned long long fallback) {
        size_t n = strlen(name);

        for (const char *line = text; line && *line;) {
                const char *next = strchr(line, '\n');

                if (strncmp(line, name, n) == 0 && line[n] == ':')
                        return strtoull(line + n + 1, NULL, base);
                line = next ? next + 1 : NULL;
        }
        return fallback;
}

bool mount_line_next(char **text, MountLine *ret_line) {
        char *line;

        while ((line = strsep(text, "\n"))) {
                char *fields[8] = {}, *rest = strstr(line, " - ");
                size_t n = 0;

                if (!rest)
                        continue;
                *rest = 0;
                rest += 3;
                for (; n < 6 && line; n++)
                        fields[n] = strsep(&line, " ");
                ret_line->type = strsep(&rest, " ");
                (void) strsep(&rest, " "); /* the source */
                if (n < 6 || !rest)
                        continue;
                ret_line->id = (unsigned) strtoul(fields[0], NULL, 10);
                ret_line->root = fields[3];
                ret_line->point = fields[4];
                ret_line->options = fields[5];
                ret_line->super = rest;
                return true;
        }
        return false;
}

bool has_word(const char *words, const char *word) {
        size_t n = strlen(word);

        for (const char *p = words; p && *p;) {
                size_t size = strcspn(p, ", \n");

                if (size == n && memcmp(p, word, n) == 0)
                        return true;
                p += size + (p[size] != 0);
        }
        return false;
}

char *read_file_system_type(const char *path) {
        _cleanup_(freep) char *text = NULL;
        struct statx stx;
        MountLine line;
        char *rest;

        if (statx(AT_FDCWD, path, 0, STATX_MNT_ID, &stx) < 0 || !(stx.stx_mask & STATX_MNT_ID))
                return NULL;
        text = rest = read_text("/proc/self/mountinfo");
        while (rest && mount_line_next(&rest, &line))
                if (line.id == stx.stx_mnt_id)
                        return strdup(line.type);
        return NULL;
}
