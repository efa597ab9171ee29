/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What each target defines: libFuzzer, or fuzz-main.c in its place, calls it with one input. A
 * broken promise of the code under test ends in abort(). */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_ASSERT(condition)                                                                     \
        do {                                                                                       \
                if (!(condition)) {                                                                \
                        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
                        abort();                                                                   \
                }                                                                                  \
        } while (0)
