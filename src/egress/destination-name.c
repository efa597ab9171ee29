/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/destination-name.h"

#include <string.h>
#include <strings.h>

#include "basic/string-util.h"

#define NAME_MAX_SIZE 253U
#define LABEL_MAX_SIZE 63U

static bool is_label_byte(char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static bool is_plain_name(const char *name, size_t *ret_labels) {
        size_t label = 0, n_labels = 1, size = 0;

        for (; name[size]; size++) {
                if (name[size] == '.') {
                        if (label == 0)
                                return false;
                        label = 0;
                        n_labels++;
                } else if (!is_label_byte(name[size]) || ++label > LABEL_MAX_SIZE)
                        return false;
        }
        *ret_labels = n_labels;
        return label > 0 && size <= NAME_MAX_SIZE;
}

bool destination_name_is_wildcard(const char *name) {
        return string_after(name, "*.") != NULL;
}

bool destination_name_is_valid(const char *name, bool wildcard) {
        const char *below = wildcard ? string_after(name, "*.") : NULL;
        size_t n_labels;

        if (!is_plain_name(below ?: name, &n_labels))
                return false;
        return !below || n_labels >= 2;
}

bool destination_name_matches(const char *pattern, const char *name) {
        const char *below = string_after(pattern, "*");
        size_t size, below_size;

        if (!below)
                return string_equal(pattern, name);
        size = strlen(name);
        below_size = strlen(below);
        return size > below_size && string_equal(name + size - below_size, below);
}

bool destination_name_is(const char *name, const char *written) {
        size_t size = strlen(name);

        return strncasecmp(name, written, size) == 0 &&
               (written[size] == 0 || (written[size] == '.' && written[size + 1] == 0));
}
