/* SPDX-License-Identifier: Apache-2.0 */

#include "cgroup/cgroup-path.h"

#include <string.h>

#include "basic/error.h"
#include "basic/string-util.h"

#define MOUNTINFO_FIELD_ROOT 3U
#define MOUNTINFO_FIELD_POINT 4U

/* The next line of *text without its end; NULL behind the last. */
static const char *next_line(const char **text, size_t *ret_size) {
        const char *line = *text;

        if (*line == 0)
                return NULL;

        *ret_size = strcspn(line, "\n");
        *text = line + *ret_size + (line[*ret_size] == '\n');
        return line;
}

/* The path of the line "0::PATH". One that begins with "/.." lies outside of our cgroup namespace,
 * and one that was removed says so at its end. */
static int own_path(const char *cgroup, StrBuf *path) {
        const char *line, *rest;
        size_t size;

        while ((line = next_line(&cgroup, &size))) {
                rest = string_after(line, "0::/");
                if (!rest)
                        continue;
                if (string_after(rest, "../") || memmem(line, size, " (deleted)", 10))
                        return CGROUP_PATH_E_NONE;
                return error_trace(
                        strbuf_append(path, rest - 1, size - (size_t) (rest - 1 - line)));
        }
        return CGROUP_PATH_E_NONE;
}

/* Blank, tab, newline and backslash are written as \ooo. */
static int append_unescaped(StrBuf *out, const char *field, size_t size) {
        for (size_t i = 0; i < size; i++) {
                char c = field[i];
                int r;

                if (c == '\\' && i + 3 < size) {
                        c = (char) ((field[i + 1] - '0') << 6 | (field[i + 2] - '0') << 3 |
                                    (field[i + 3] - '0'));
                        i += 3;
                }
                r = strbuf_append_byte(out, c);
                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

static int line_field(const char *line, size_t size, size_t n, StrBuf *out) {
        const char *end = line + size, *field = line;

        for (; n > 0; n--) {
                field = memchr(field, ' ', (size_t) (end - field));
                if (!field)
                        return 0;
                field++;
        }

        return append_unescaped(out, field,
                                size_min(strcspn(field, " \n"), (size_t) (end - field)));
}

/* The path of own below a mount that shows the hierarchy from root on: NULL if it does not. */
static const char *path_below(const char *own, const char *root) {
        const char *below = string_equal(root, "/") ? own : string_after(own, root);

        if (!below || (*below != 0 && *below != '/'))
                return NULL;
        return string_equal(below, "/") ? "" : below;
}

/* The first cgroup2 in the table that shows our cgroup; there may be others that do not. */
static int find_mount(const char *mountinfo, const char *own, char **ret_path) {
        static const char type[] = " - cgroup2 ";
        const char *line;
        size_t size;
        int r;

        while ((line = next_line(&mountinfo, &size))) {
                _cleanup_(strbuf_done) StrBuf root = STRBUF_NULL, point = STRBUF_NULL;
                const char *below;

                if (!memmem(line, size, type, sizeof(type) - 1))
                        continue;
                r = line_field(line, size, MOUNTINFO_FIELD_ROOT, &root);
                if (r == 0)
                        r = line_field(line, size, MOUNTINFO_FIELD_POINT, &point);
                if (r < 0)
                        return error_trace(r);
                if (root.size == 0 || point.size == 0)
                        continue;
                below = path_below(own, root.data);
                if (!below)
                        continue;
                if (asprintf(ret_path, "%s%s", point.data, below) < 0)
                        return error_origin(-ENOMEM);
                return 0;
        }
        return CGROUP_PATH_E_NONE;
}

int cgroup_path_find(const char *cgroup, const char *mountinfo, char **ret_path) {
        _cleanup_(strbuf_done) StrBuf own = STRBUF_NULL;
        int r;

        r = own_path(cgroup, &own);
        return r == 0 ? find_mount(mountinfo, own.data, ret_path) : r;
}
