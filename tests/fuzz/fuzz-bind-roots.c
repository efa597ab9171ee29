/* SPDX-License-Identifier: Apache-2.0 */

/* A file of bind roots of any bytes is refused at one line, or every root of it is a path that the
 * kernel would take as it stands. */

#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "plan/bind-roots.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(bind_roots_done) BindRoots roots = BIND_ROOTS_NULL;
        const char *fault = NULL;
        size_t line = 0;
        int r;

        if (size > BIND_ROOTS_FILE_MAX)
                return 0;
        r = bind_roots_parse((const char *) data, size, &roots, &line, &fault);
        if (r == BIND_ROOTS_E_INVALID) {
                FUZZ_ASSERT(line > 0 && line <= size && fault && !roots.text);
                return 0;
        }
        FUZZ_ASSERT(r == 0 && roots.n_roots <= BIND_ROOTS_MAX);
        for (size_t i = 0; i < roots.n_roots; i++) {
                const char *path = roots.roots[i].path;

                FUZZ_ASSERT(path[0] == '/' && !strchr(path, '\n'));
                FUZZ_ASSERT(!strstr(path, "//") && !strstr(path, "/../") && !strstr(path, "/./"));
                FUZZ_ASSERT(path >= roots.text && path < roots.text + size);
        }
        return 0;
}
