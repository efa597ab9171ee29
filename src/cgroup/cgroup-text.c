/* SPDX-License-Identifier: Apache-2.0 */

#include "cgroup/cgroup-text.h"

#include <string.h>

#include "basic/string-util.h"
#include "cgroup/cgroup.h"

/* Decimal digits at *s, which then stands behind them. More than fits counts as the largest. */
static int take_number(const char **s, uint64_t *ret_value) {
        const char *p = *s;
        uint64_t value = 0;

        if (*p < '0' || *p > '9')
                return CGROUP_TEXT_E_NONE;
        for (; *p >= '0' && *p <= '9'; p++)
                if (__builtin_mul_overflow(value, 10U, &value) ||
                    __builtin_add_overflow(value, (uint64_t) (*p - '0'), &value))
                        value = UINT64_MAX;
        *s = p;
        *ret_value = value;
        return 0;
}

static int take_value(const char **s, uint64_t *ret_value) {
        const char *rest = string_after(*s, "max");

        if (!rest)
                return take_number(s, ret_value);
        *s = rest;
        *ret_value = UINT64_MAX;
        return 0;
}

static const char *next_line(const char *line) {
        line += strcspn(line, "\n");
        return *line ? line + 1 : line;
}

int cgroup_text_value(const char *text, uint64_t *ret_value) {
        uint64_t value;

        if (take_value(&text, &value) != 0 || (*text != 0 && *text != '\n'))
                return CGROUP_TEXT_E_NONE;
        *ret_value = value;
        return 0;
}

int cgroup_text_get(const char *text, const char *key, uint64_t *ret_value) {
        for (; *text; text = next_line(text)) {
                const char *rest = string_after(text, key);

                if (!rest || *rest != ' ')
                        continue;
                rest++;
                return take_value(&rest, ret_value);
        }
        return CGROUP_TEXT_E_NONE;
}

unsigned cgroup_text_controllers(const char *text) {
        unsigned mask = 0;

        while (*text) {
                size_t size = strcspn(text, " \n");

                for (unsigned bit = 1; bit & _CGROUP_ALL; bit <<= 1) {
                        const char *name = cgroup_controller_to_string((CgroupController) bit);

                        if (strlen(name) == size && memcmp(text, name, size) == 0)
                                mask |= bit;
                }
                text += size;
                text += strspn(text, " \n");
        }
        return mask;
}

/* The value of "KEY=" among the words of one line. */
static int line_get(const char *line, const char *key, uint64_t *ret_value) {
        size_t size = strlen(key);

        for (;;) {
                line += strcspn(line, " \n");
                if (*line != ' ')
                        return CGROUP_TEXT_E_NONE;
                line++;
                if (strncmp(line, key, size) == 0 && line[size] == '=') {
                        line += size + 1;
                        return take_value(&line, ret_value);
                }
        }
}

static void add(uint64_t *sum, uint64_t value) {
        if (__builtin_add_overflow(*sum, value, sum))
                *sum = UINT64_MAX;
}

void cgroup_text_io(const char *text, uint64_t *ret_read, uint64_t *ret_write) {
        uint64_t read_sum = 0, write_sum = 0, value;

        for (; *text; text = next_line(text)) {
                if (line_get(text, "rbytes", &value) == 0)
                        add(&read_sum, value);
                if (line_get(text, "wbytes", &value) == 0)
                        add(&write_sum, value);
        }
        *ret_read = read_sum;
        *ret_write = write_sum;
}

void cgroup_text_io_max(const char *text, const char *device, uint64_t *ret_read,
                        uint64_t *ret_write) {
        *ret_read = *ret_write = UINT64_MAX;
        for (; *text; text = next_line(text)) {
                const char *rest = string_after(text, device);

                if (!rest || *rest != ' ')
                        continue;
                (void) line_get(text, "rbps", ret_read);
                (void) line_get(text, "wbps", ret_write);
                return;
        }
}

int cgroup_text_v1(const char *text, const char *name, CgroupTextV1 *ret_v1) {
        for (; *text; text = next_line(text)) {
                const char *rest = string_after(text, name);
                CgroupTextV1 v1;
                uint64_t groups;

                if (!rest || *rest != '\t')
                        continue;
                rest++;
                if (take_number(&rest, &v1.hierarchy) != 0 || *rest++ != '\t' ||
                    take_number(&rest, &groups) != 0 || *rest++ != '\t' ||
                    take_number(&rest, &v1.enabled) != 0)
                        return CGROUP_TEXT_E_NONE;
                *ret_v1 = v1;
                return 0;
        }
        return CGROUP_TEXT_E_NONE;
}

int cgroup_text_release(const char *release, unsigned *ret_major, unsigned *ret_minor) {
        uint64_t major, minor;

        if (take_number(&release, &major) != 0 || *release++ != '.' ||
            take_number(&release, &minor) != 0 || major > 1000 || minor > 1000)
                return CGROUP_TEXT_E_NONE;
        *ret_major = (unsigned) major;
        *ret_minor = (unsigned) minor;
        return 0;
}
