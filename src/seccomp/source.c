/* SPDX-License-Identifier: Apache-2.0 */

/* What is read of a profile: its memory, and finding in it. */

#include <string.h>

#include "basic/error.h"
#include "basic/string-util.h"
#include "seccomp/parser.h"

SeccompSource *seccomp_source_free(SeccompSource *source) {
        if (!source)
                return NULL;

        for (size_t i = 0; i < source->n_calls; i++) {
                free(source->calls[i].name);
                free(source->calls[i].rules);
        }
        for (size_t i = 0; i < source->n_groups; i++) {
                free(source->groups[i].name);
                free(source->groups[i].calls);
        }
        for (size_t i = 0; i < source->n_files; i++)
                free(source->files[i]);
        free(source->calls);
        free(source->groups);
        free(source->files);
        free(source->description);
        free(source);
        return NULL;
}

int seccomp_array_add(void *array, size_t *n, size_t size) {
        void **items = array;
        void *p;

        p = reallocarray(*items, *n + 1, size);
        if (!p)
                return error_origin(-ENOMEM);
        *items = p;
        memset((char *) p + *n * size, 0, size);
        (*n)++;
        return 0;
}

const SeccompGroup *seccomp_source_find_group(const SeccompSource *source, const char *name) {
        for (size_t i = 0; i < source->n_groups; i++)
                if (string_equal(source->groups[i].name, name))
                        return &source->groups[i];
        return NULL;
}
