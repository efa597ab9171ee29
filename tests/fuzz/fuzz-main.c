/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Stands in for libFuzzer in ordinary builds: gives a target all its seeds, and each beginning of
 * each seed, since most mistakes of a parser are about an end that comes too early. The seeds are
 * those of tests/fuzz/corpus/NAME below AGENTCRATE_SOURCE_DIR (default: the current folder), or the
 * files named as arguments. Prints TAP.
 */

#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>

#include "basic/macros.h"
#include "basic/string-util.h"

#define PREFIXES_MAX 2048U

typedef struct Tally {
        size_t n_seeds, n_inputs;
} Tally;

/* In memory of exactly that size, so that a sanitizer sees each byte that is read beyond. */
static void run_input(const char *data, size_t size, Tally *tally) {
        uint8_t *copy = malloc(size > 0 ? size : 1);

        if (!copy)
                abort();
        if (size > 0)
                memcpy(copy, data, size);
        (void) LLVMFuzzerTestOneInput(copy, size);
        free(copy);
        tally->n_inputs++;
}

static int run_seed(const char *file, Tally *tally) {
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;
        char chunk[4096];
        size_t n;
        FILE *f;
        int r;

        f = fopen(file, "re");
        if (!f)
                return -errno;
        do {
                n = fread(chunk, 1, sizeof(chunk), f);
                r = strbuf_append(&buf, chunk, n);
        } while (r == 0 && n > 0);
        if (r == 0 && ferror(f))
                r = -EIO;
        fclose(f);
        if (r < 0)
                return r;

        /* Named before it runs, so that a crash tells its seed. */
        printf("# %s\n", file);
        fflush(stdout);
        run_input(buf.data, buf.size, tally);
        for (size_t i = 0; i < buf.size && i < PREFIXES_MAX; i++)
                run_input(buf.data, i, tally);
        tally->n_seeds++;
        return 0;
}

static int run_folder(const char *folder, Tally *tally) {
        struct dirent **entries;
        int n, r = 0;

        n = scandir(folder, &entries, NULL, alphasort);
        if (n < 0)
                return -errno;

        for (int i = 0; i < n; i++) {
                _cleanup_(freep) char *file = NULL;

                if (entries[i]->d_name[0] != '.' && r == 0) {
                        if (asprintf(&file, "%s/%s", folder, entries[i]->d_name) < 0)
                                abort();
                        r = run_seed(file, tally);
                }
                free(entries[i]);
        }
        free(entries);
        return r;
}

static int run_corpus(const char *name, Tally *tally) {
        _cleanup_(freep) char *folder = NULL;

        if (asprintf(&folder, "%s/tests/fuzz/corpus/%s",
                     secure_getenv("AGENTCRATE_SOURCE_DIR") ?: ".", name) < 0)
                abort();
        return run_folder(folder, tally);
}

int main(int argc, char **argv) {
        const char *name = string_after(program_invocation_short_name, "fuzz-");
        Tally tally = {};
        int r = 0;

        if (!name)
                name = program_invocation_short_name;

        if (argc < 2)
                r = run_corpus(name, &tally);
        for (int i = 1; i < argc && r == 0; i++)
                r = run_seed(argv[i], &tally);
        if (r < 0)
                printf("# cannot read the seeds: %s\n", strerror(-r));

        /* A target without seeds tests nothing. */
        printf("%s 1 - %s: %zu seeds, %zu inputs\n1..1\n",
               r == 0 && tally.n_seeds > 0 ? "ok" : "not ok", name, tally.n_seeds, tally.n_inputs);
        return r < 0 || tally.n_seeds == 0;
}
