/* SPDX-License-Identifier: Apache-2.0 */

/* A profile is refused with a word, or gives programs that the kernel would take: none ends without
 * an answer, whatever the call. */

#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <linux/audit.h>

#include "seccomp/emit.h"
#include "seccomp/parse.h"
#include "tests/unit/bpf-interpreter.h"

/* @include finds one profile, and itself. */
static int load(void *userdata, const char *name, char **ret_file, char **ret_text,
                size_t *ret_size) {
        static const char text[] = "@otherwise allow\n@newest 450\n@group g acct mount\n"
                                   "EPERM @g\n";

        (void) userdata;
        if (name[0] != 'a' && name[0] != 'x')
                return -ENOENT;
        *ret_file = strdup(name);
        *ret_text = strdup(name[0] == 'a' ? text : "@include x\n");
        if (!*ret_file || !*ret_text)
                abort();
        *ret_size = strlen(*ret_text);
        return 0;
}

static void check_program(const SeccompSource *source, SeccompArch arch) {
        static const uint32_t audit[] = {AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64};
        _cleanup_(freep) struct sock_filter *code = NULL;
        size_t n_code;
        int r;

        r = seccomp_emit(source, arch, &code, &n_code);
        FUZZ_ASSERT(r == 0 || r == SECCOMP_EMIT_E_TOO_LONG);
        if (r != 0)
                return;

        FUZZ_ASSERT(n_code <= BPF_MAXINSNS);
        for (int nr = 0; nr <= source->newest + 1; nr++) {
                struct seccomp_data data = {.nr = nr, .arch = audit[arch], .args = {1, 2, 4, 8}};
                uint32_t action;

                FUZZ_ASSERT(bpf_run(code, n_code, &data, &action));
                FUZZ_ASSERT(nr <= source->newest || action == (SECCOMP_RET_ERRNO | ENOSYS));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(seccomp_source_freep) SeccompSource *source = NULL;
        int r;

        r = seccomp_parse("p", (const char *) data, size, load, NULL, &diags, &source);
        FUZZ_ASSERT(r == 0 || r == SECCOMP_PARSE_E_INVALID);
        FUZZ_ASSERT((r == 0) == (source != NULL) && (r == 0) == (diags.n_items == 0));
        if (source)
                for (SeccompArch arch = 0; arch < _SECCOMP_ARCH_MAX; arch++)
                        check_program(source, arch);

        for (size_t i = 0; i < diags.n_items; i++) {
                _cleanup_(freep) char *line = diag_format(&diags.items[i]);

                FUZZ_ASSERT(line && !strchr(line, '\n'));
        }
        return 0;
}
