/* SPDX-License-Identifier: Apache-2.0 */

/* A broker's configuration is accepted without a word, or refused with at least one and not
 * touched. */

#include "tests/fuzz/fuzz.h"

#include "policy/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(config_done) Config config = {};
        int r;

        config_init(&config);
        r = config_parse("x.json", (const char *) data, size, &diags, &config);
        FUZZ_ASSERT(r == 0 || r == CONFIG_E_INVALID);
        FUZZ_ASSERT((r == 0) == (diags.n_items == 0) && (r == 0) == (config.file != NULL));
        FUZZ_ASSERT(config.message_max >= 65536 && config.idle_usec > 0);
        FUZZ_ASSERT(config.crates_max > 0 && config.crates_max <= config.subuid_count);
        FUZZ_ASSERT(config.subuid_base >= 65536 &&
                    config.subuid_base + config.subuid_count <= UINT32_MAX);
        return 0;
}
