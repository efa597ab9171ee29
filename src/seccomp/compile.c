/* SPDX-License-Identifier: Apache-2.0 */

/*
 * seccomp-compile OUTPUT PROFILE...
 *
 * Runs when the project is built: reads the profiles' text and writes one C file with their
 * filters. All faults of all profiles are shown before it fails, and then no file is left behind.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seccomp/emit.h"
#include "seccomp/load.h"

#define PROFILES_MAX 16

typedef struct Profiles {
        SeccompNamed items[PROFILES_MAX];
        SeccompSource *sources[PROFILES_MAX];
        char *names[PROFILES_MAX];
        size_t n;
} Profiles;

static void profiles_done(Profiles *profiles) {
        for (size_t i = 0; i < profiles->n; i++) {
                (void) seccomp_source_free(profiles->sources[i]);
                free(profiles->names[i]);
        }
}

static void print_diags(const DiagList *diags) {
        for (size_t i = 0; i < diags->n_items; i++) {
                _cleanup_(freep) char *line = diag_format(&diags->items[i]);

                fprintf(stderr, "%s\n", line ?: "out of memory");
        }
        if (diags->n_dropped > 0)
                fprintf(stderr, "and %zu more\n", diags->n_dropped);
}

/* The profile's name is its file's name without the suffix. */
static char *profile_name(const char *path) {
        const char *slash = strrchr(path, '/');
        const char *base = slash ? slash + 1 : path;
        const char *dot = strrchr(base, '.');

        return strndup(base, dot ? (size_t) (dot - base) : strlen(base));
}

static int add_profile(Profiles *profiles, const char *path, DiagList *diags) {
        size_t i = profiles->n;
        int r;

        r = seccomp_load(path, diags, &profiles->sources[i]);
        if (r < 0)
                fprintf(stderr, "seccomp-compile: %s: %s\n", path, strerror(-r));
        if (r != 0)
                return r;

        profiles->names[i] = profile_name(path);
        profiles->items[i] = (SeccompNamed){
                .name = profiles->names[i],
                .source = profiles->sources[i],
        };
        profiles->n++;
        return profiles->names[i] ? 0 : -ENOMEM;
}

static int compare_names(const void *a, const void *b) {
        return strcmp(((const SeccompNamed *) a)->name, ((const SeccompNamed *) b)->name);
}

static int write_output(const char *path, const Profiles *profiles) {
        FILE *out;
        int r;

        out = fopen(path, "we");
        if (!out) {
                fprintf(stderr, "seccomp-compile: %s: %s\n", path, strerror(errno));
                return -errno;
        }
        r = seccomp_emit_c(out, profiles->items, profiles->n);
        if (fclose(out) != 0 && r == 0)
                r = -EIO;
        if (r != 0) {
                fprintf(stderr, "seccomp-compile: %s: %s\n", path,
                        r < 0 ? strerror(-r) : "a filter is longer than the kernel takes");
                (void) unlink(path);
        }
        return r;
}

static int run(int argc, char **argv) {
        _cleanup_(profiles_done) Profiles profiles = {};
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        bool failed = false;

        for (int i = 2; i < argc; i++)
                if (add_profile(&profiles, argv[i], &diags) != 0)
                        failed = true;
        print_diags(&diags);
        if (failed)
                return EXIT_FAILURE;

        qsort(profiles.items, profiles.n, sizeof(profiles.items[0]), compare_names);
        return write_output(argv[1], &profiles) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
        if (argc < 3 || argc - 2 > PROFILES_MAX) {
                fputs("usage: seccomp-compile OUTPUT PROFILE...\n", stderr);
                return EXIT_FAILURE;
        }
        return run(argc, argv);
}
