/* SPDX-License-Identifier: Apache-2.0 */
#include "basic/utf8-cut.h"

#include <stdint.h>

#include "basic/macros.h"
#include "basic/string-util.h"
#include "basic/utf8.h"

#define REPLACEMENT "\xef\xbf\xbd"
#define CHARACTER_MAX 4U

/* Whether these bytes become a character when enough of filler follows. */
static bool is_completed_by(const char *text, size_t size, char filler) {
        char whole[CHARACTER_MAX] = {filler, filler, filler, filler};

        memcpy(whole, text, size);
        return utf8_sequence_size(whole, sizeof(whole)) > size;
}

size_t utf8_incomplete_size(const char *text, size_t size) {
        for (size_t n = 1; n < CHARACTER_MAX && n <= size; n++) {
                const char *end = text + size - n;

                /* No second byte suits every first byte, but one of these two does. */
                if (is_completed_by(end, n, '\x80') || is_completed_by(end, n, '\xa0'))
                        return n;
        }
        return 0;
}

size_t utf8_orphaned_size(const char *text, size_t size) {
        size_t n = 0;

        while (n < size && n < CHARACTER_MAX - 1 && ((uint8_t) text[n] & 0xc0) == 0x80)
                n++;
        return n;
}

char *utf8_replace_invalid(const char *text) {
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;
        size_t left = strlen(text);

        while (left > 0) {
                size_t n = utf8_sequence_size(text, left);
                int r;

                if (n > 0)
                        r = strbuf_append(&buf, text, n);
                else
                        r = strbuf_append_string(&buf, REPLACEMENT);
                if (r < 0)
                        return NULL;
                n = size_max(n, 1);
                text += n;
                left -= n;
        }
        return strbuf_steal(&buf);
}
