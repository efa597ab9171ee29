/* SPDX-License-Identifier: Apache-2.0 */

#include "basic/utf8.h"

static bool is_between(unsigned char c, unsigned char low, unsigned char high) {
        return c >= low && c <= high;
}

/* What may stand as the second byte behind that lead: here overlong forms, surrogates and what lies
 * above U+10FFFF are told from the rest. */
static bool is_second(unsigned char lead, unsigned char c) {
        switch (lead) {
        case 0xe0:
                return is_between(c, 0xa0, 0xbf);
        case 0xed:
                return is_between(c, 0x80, 0x9f);
        case 0xf0:
                return is_between(c, 0x90, 0xbf);
        case 0xf4:
                return is_between(c, 0x80, 0x8f);
        default:
                return is_between(c, 0x80, 0xbf);
        }
}

size_t utf8_sequence_size(const char *s, size_t size) {
        unsigned char lead;
        size_t n;

        if (size == 0)
                return 0;

        lead = (unsigned char) s[0];
        if (lead < 0x80)
                return 1;
        if (!is_between(lead, 0xc2, 0xf4))
                return 0;

        n = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
        if (size < n || !is_second(lead, (unsigned char) s[1]))
                return 0;
        for (size_t i = 2; i < n; i++)
                if (!is_between((unsigned char) s[i], 0x80, 0xbf))
                        return 0;
        return n;
}

size_t utf8_valid_size(const char *s, size_t size) {
        size_t i = 0, n;

        while (i < size) {
                n = (unsigned char) s[i] < 0x80 ? 1 : utf8_sequence_size(s + i, size - i);
                if (n == 0)
                        break;
                i += n;
        }
        return i;
}
