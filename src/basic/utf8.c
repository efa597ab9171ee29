/* SPDX-License-Identifier: Apache-2.0 */
#include "basic/utf8.h"

#include <stdint.h>

#include "basic/macros.h"
#include "basic/string-util.h"

#define REPLACEMENT "\xef\xbf\xbd"

/* One row for each kind of first byte: the range of the second byte is what refuses overlong forms,
 * surrogates and what lies above U+10FFFF; all further bytes are 0x80 … 0xbf. */
typedef struct LeadRange {
        uint8_t first, last;
        uint8_t size;
        uint8_t second_min, second_max;
} LeadRange;

static const LeadRange lead_ranges[] = {
        {0x00, 0x7f, 1, 0x00, 0x00}, {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
        {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
        {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

static const LeadRange *lead_find(uint8_t byte) {
        for (size_t i = 0; i < ELEMENTSOF(lead_ranges); i++)
                if (byte >= lead_ranges[i].first && byte <= lead_ranges[i].last)
                        return &lead_ranges[i];
        return NULL;
}

/* How many of the bytes fit the form that the first one announces; 0 if the first one announces
 * none. *ret_size is what a whole character would need. */
static size_t character_match(const char *text, size_t size, size_t *ret_size) {
        const uint8_t *bytes = (const uint8_t *) text;
        const LeadRange *lead = lead_find(bytes[0]);
        size_t n = 1;

        if (!lead)
                return 0;
        for (; n < lead->size && n < size; n++) {
                uint8_t min = n == 1 ? lead->second_min : 0x80;
                uint8_t max = n == 1 ? lead->second_max : 0xbf;

                if (bytes[n] < min || bytes[n] > max)
                        break;
        }
        *ret_size = lead->size;
        return n;
}

size_t utf8_valid_size(const char *text, size_t size) {
        size_t i = 0;

        while (i < size) {
                size_t whole = 1;

                if ((uint8_t) text[i] < 0x80) {
                        i++;
                        continue;
                }
                if (character_match(text + i, size - i, &whole) != whole)
                        break;
                i += whole;
        }
        return i;
}

size_t utf8_incomplete_size(const char *text, size_t size) {
        for (size_t n = 1; n <= 3 && n <= size; n++) {
                size_t whole = 0;

                /* Only a beginning that all remaining bytes fit, and that needs more of them. */
                if (character_match(text + size - n, n, &whole) == n && whole > n)
                        return n;
        }
        return 0;
}

size_t utf8_orphaned_size(const char *text, size_t size) {
        size_t n = 0;

        while (n < size && n < 3 && ((uint8_t) text[n] & 0xc0) == 0x80)
                n++;
        return n;
}

char *utf8_replace_invalid(const char *text) {
        StrBuf buf = STRBUF_NULL;
        size_t left = strlen(text);

        for (;;) {
                size_t valid = utf8_valid_size(text, left);

                if (strbuf_append(&buf, text, valid) < 0)
                        break;
                text += valid;
                left -= valid;
                if (left == 0)
                        return strbuf_steal(&buf);
                if (strbuf_append_string(&buf, REPLACEMENT) < 0)
                        break;
                text++;
                left--;
        }
        strbuf_done(&buf);
        return NULL;
}
