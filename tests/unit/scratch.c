/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/scratch.h"

#include <check.h>
#include <ftw.h>
#include <sys/stat.h>

#include "basic/string-util.h"

void scratch_init(Scratch *scratch) {
        _cleanup_(freep) char *template = NULL;

        ck_assert_int_ge(
                asprintf(&template, "%s/agentcrate-test.XXXXXX", secure_getenv("TMPDIR") ?: "/tmp"),
                0);
        ck_assert_ptr_nonnull(mkdtemp(template));
        scratch->path = realpath(template, NULL);
        ck_assert_ptr_nonnull(scratch->path);
}

static int remove_one(const char *path, const struct stat *st _unused_, int type _unused_,
                      struct FTW *ftw _unused_) {
        return remove(path);
}

static void remove_all(const char *path) {
        ck_assert_int_eq(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void scratch_remove(const Scratch *scratch, const char *name) {
        _cleanup_(freep) char *path = scratch_path(scratch, name);

        remove_all(path);
}

void scratch_clear(const Scratch *scratch) {
        remove_all(scratch->path);
        ck_assert_int_eq(mkdir(scratch->path, 0700), 0);
}

void scratch_done(Scratch *scratch) {
        if (!scratch->path)
                return;
        remove_all(scratch->path);
        free(scratch->path);
        *scratch = SCRATCH_NULL;
}

char *scratch_path(const Scratch *scratch, const char *name) {
        char *path = NULL;

        ck_assert_int_ge(asprintf(&path, "%s/%s", scratch->path, name), 0);
        return path;
}

static void make_folders(char *path) {
        for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = 0;
                ck_assert(mkdir(path, 0755) == 0 || errno == EEXIST);
                *slash = '/';
        }
}

static char *path_with_folders(const Scratch *scratch, const char *name) {
        char *path = scratch_path(scratch, name);

        make_folders(path);
        return path;
}

void scratch_folder(const Scratch *scratch, const char *name) {
        _cleanup_(freep) char *path = path_with_folders(scratch, name);

        ck_assert(mkdir(path, 0755) == 0 || errno == EEXIST);
}

void scratch_file(const Scratch *scratch, const char *name, const char *text) {
        _cleanup_(freep) char *path = path_with_folders(scratch, name);
        FILE *file = fopen(path, "we");

        ck_assert_ptr_nonnull(file);
        ck_assert_int_ge(fputs(text, file), 0);
        ck_assert_int_eq(fclose(file), 0);
}

void scratch_link(const Scratch *scratch, const char *name, const char *target) {
        _cleanup_(freep) char *path = path_with_folders(scratch, name);

        ck_assert_int_eq(symlink(target, path), 0);
}
