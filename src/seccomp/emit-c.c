/* SPDX-License-Identifier: Apache-2.0 */

/* The programs as a C file: all architectures in one, so that it does not depend on where it was
 * made. */

#include <errno.h>

#include "basic/error.h"
#include "seccomp/emit.h"

static const char *const arch_macros[_SECCOMP_ARCH_MAX] = {
        [SECCOMP_ARCH_X86_64] = "__x86_64__",
        [SECCOMP_ARCH_AARCH64] = "__aarch64__",
};

static void write_array(FILE *out, size_t index, const struct sock_filter *filter,
                        size_t n_filter) {
        fprintf(out, "static const struct sock_filter filter_%zu[] = {\n", index);
        for (size_t i = 0; i < n_filter; i++)
                fprintf(out, "        {0x%02x, %u, %u, 0x%08x},\n", filter[i].code, filter[i].jt,
                        filter[i].jf, filter[i].k);
        fputs("};\n\n", out);
}

static int write_arch(FILE *out, SeccompArch arch, const SeccompNamed *profiles,
                      size_t n_profiles) {
        int r;

        fprintf(out, "#%s defined(%s)\n\n", arch == 0 ? "if" : "elif", arch_macros[arch]);
        for (size_t i = 0; i < n_profiles; i++) {
                _cleanup_(freep) struct sock_filter *filter = NULL;
                size_t n_filter;

                r = seccomp_emit(profiles[i].source, arch, &filter, &n_filter);
                if (r != 0)
                        return r; /* the outcomes are this function's own, too */
                write_array(out, i, filter, n_filter);
        }
        return 0;
}

static void write_string(FILE *out, const char *s) {
        fputc('"', out);
        for (; *s; s++)
                fprintf(out, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
        fputc('"', out);
}

static void write_table(FILE *out, const SeccompNamed *profiles, size_t n_profiles) {
        fputs("const SeccompProfile seccomp_table[] = {\n", out);
        for (size_t i = 0; i < n_profiles; i++) {
                const SeccompSource *source = profiles[i].source;

                fputs("        {.name = ", out);
                write_string(out, profiles[i].name);
                fputs(",\n         .description = ", out);
                write_string(out, source->description);
                fprintf(out,
                        ",\n         .filter = filter_%zu,\n         .n_filter = "
                        "sizeof(filter_%zu) / sizeof(filter_%zu[0]),\n         .landlock = %i,\n"
                        "         .proc_subset = %i},\n",
                        i, i, i, source->landlock, source->proc_subset);
        }
        fprintf(out, "};\nconst size_t seccomp_table_size = %zu;\n", n_profiles);
}

int seccomp_emit_c(FILE *out, const SeccompNamed *profiles, size_t n_profiles) {
        int r;

        fputs("/* SPDX-License-Identifier: Apache-2.0 */\n"
              "/* Written by seccomp-compile from the profiles' text: change that instead. */\n\n"
              "#include \"seccomp/table.h\"\n\n",
              out);
        for (SeccompArch arch = 0; arch < _SECCOMP_ARCH_MAX; arch++) {
                r = write_arch(out, arch, profiles, n_profiles);
                if (r != 0)
                        return r;
        }
        fputs("#else\n#error \"no seccomp filters for this architecture\"\n#endif\n\n", out);
        write_table(out, profiles, n_profiles);
        return ferror(out) ? error_origin(-EIO) : 0;
}
