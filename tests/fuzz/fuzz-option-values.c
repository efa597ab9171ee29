/* SPDX-License-Identifier: Apache-2.0 */

/* The values of options: what is accepted is within bounds, what is refused leaves the result alone
 * and is explained. */

#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "basic/macros.h"
#include "basic/parse-util.h"
#include "basic/utf8.h"
#include "policy/limits.h"

#define UNTOUCHED 0x5ca1ab1eULL

typedef int (*Parser)(const char *s, uint64_t *ret_value);

static void check_parser(Parser parse, const char *s, uint64_t min) {
        uint64_t value = UNTOUCHED;
        int r = parse(s, &value);

        FUZZ_ASSERT(r >= 0 && r <= PARSE_E_ZERO);
        FUZZ_ASSERT(parse_error_to_string(r));
        FUZZ_ASSERT(r == 0 ? value >= min : value == UNTOUCHED);
}

static void check_text(int outcome, const char *text) {
        if (outcome == 0) {
                FUZZ_ASSERT(!text);
                return;
        }
        FUZZ_ASSERT(outcome == -EINVAL && text && utf8_is_valid(text, strlen(text)));
        for (; *text; text++)
                FUZZ_ASSERT((unsigned char) *text >= 0x20);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(freep) char *s = strndup((const char *) data, size), *text = NULL;
        Limits limits;
        int32_t value;
        int r;

        FUZZ_ASSERT(s);
        check_parser(parse_uint64, s, 0);
        check_parser(parse_size, s, 1);
        check_parser(parse_time_usec, s, 1000);
        check_parser(parse_milli, s, 1);
        check_parser(parse_count, s, 1);
        (void) parse_int32(s, &value);

        limits_init(&limits);
        r = limits_parse_option(&limits, s, &text);
        check_text(r, text);
        FUZZ_ASSERT((r == 0) == (limits.given != 0));

        for (LimitName name = 0; name < _LIMIT_MAX; name++) {
                _cleanup_(freep) char *refusal = NULL;
                uint64_t v = UNTOUCHED;

                r = limit_parse_value(name, s, &v, &refusal);
                check_text(r, refusal);
                FUZZ_ASSERT(r == 0 ? v > 0 && v <= INT64_MAX : v == UNTOUCHED);
        }
        return 0;
}
