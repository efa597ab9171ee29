/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The text of a seccomp profile, checked and turned into rules. Used when the project is built, by
 * seccomp-compile, and by the tests; the programs only see the finished filters (profile.h).
 *
 * The language: one statement a line, words separated by blanks; a line that begins with a blank
 * goes on with the statement before it; a word that begins with '#' begins a comment.
 *
 *   @description WORD...       one line about the profile
 *   @otherwise ACTION          what system calls without a matching rule get
 *   @newest NUMBER             the newest system call considered here: every later one is ENOSYS
 *   @include NAME              the statements of NAME.profile; its description is left out
 *   @group NAME CALL...        calls by one name; used as @NAME wherever a CALL may stand
 *   @reset CALL...             forgets the rules that stand so far: back to @otherwise
 *   @late ERRNO CALL...        init needs these; the job's child closes them between clone and exec
 *   @landlock                  the profile also asks for Landlock path rules
 *   @proc-subset               the profile also asks for a /proc that shows processes only
 *   ACTION CALL... [if CONDITION [and CONDITION]...]
 *
 *   ACTION     allow, kill (the process), or an errno name
 *   CALL       a name as libseccomp knows it; NAME=NUMBER for one it does not know yet
 *   CONDITION  argN is VALUE[,VALUE]...     one of these (arg0 to arg5)
 *              argN not VALUE[,VALUE]...    none of these
 *              argN has VALUE               at least one of these bits is set
 *              argN without VALUE is ...    compared after clearing these bits; also with not
 *   VALUE      a number or constant, or several joined by '|'
 *
 * The rules of one call are tried in their order; the first that matches decides. Arguments are
 * compared on their low 32 bits only: all that profiles look at are C ints to the kernel, which
 * drops the rest, and a comparison of all 64 bits would be fooled by a value such as 0x100000001.
 *
 * Not in the text since it is the same for every profile: a foreign architecture kills the process,
 * and calls of the x32 kind are ENOSYS.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "basic/diag.h"
#include "basic/macros.h"

typedef enum SeccompArch {
        SECCOMP_ARCH_X86_64,
        SECCOMP_ARCH_AARCH64,
        _SECCOMP_ARCH_MAX,
} SeccompArch;

#define SECCOMP_NR_NONE (-1) /* the architecture does not have this call */

#define SECCOMP_CONDS_MAX 4U
#define SECCOMP_VALUES_MAX 16U

typedef enum SeccompTest {
        SECCOMP_TEST_IS,
        SECCOMP_TEST_NOT,
        SECCOMP_TEST_HAS,
} SeccompTest;

typedef struct SeccompCond {
        unsigned arg;
        SeccompTest test;
        uint32_t mask; /* and-ed to the argument first */
        uint32_t values[SECCOMP_VALUES_MAX];
        uint32_t n_values;
} SeccompCond;

typedef struct SeccompRule {
        uint32_t action;                      /* SECCOMP_RET_X with its data */
        SeccompCond conds[SECCOMP_CONDS_MAX]; /* all of them must hold */
        size_t n_conds;                       /* 0: always matches */
        const char *file;                     /* where it stands */
        uint32_t line;
} SeccompRule;

/* A system call that the text names. */
typedef struct SeccompCall {
        char *name;
        int nr[_SECCOMP_ARCH_MAX];
        SeccompRule *rules;
        size_t n_rules;
        bool late; /* its only rule is to allow it here; late_action is for the second filter */
        uint32_t late_action;
} SeccompCall;

typedef struct SeccompGroup {
        char *name;
        size_t *calls; /* indexes into calls */
        size_t n_calls;
} SeccompGroup;

typedef struct SeccompSource {
        char *description;
        uint32_t otherwise; /* SECCOMP_RET_X */
        int newest;
        bool landlock;
        bool proc_subset;
        SeccompCall *calls; /* in the order of their first mention */
        size_t n_calls;
        SeccompGroup *groups;
        size_t n_groups;
        char **files; /* names that rules point to */
        size_t n_files;
} SeccompSource;

SeccompSource *seccomp_source_free(SeccompSource *source);
DEFINE_CLEANUP(SeccompSource, seccomp_source_free);

/*
 * Gives the text of the profile of that name, for @include: owned by the caller, with the file name
 * that diagnostics shall show. A negative errno if there is none.
 */
typedef int (*SeccompLoad)(void *userdata, const char *name, char **ret_file, char **ret_text,
                           size_t *ret_size);

enum {
        _SECCOMP_PARSE_E_SUCCESS,
        SECCOMP_PARSE_E_INVALID, /* diags tell */
};

/* The fuzz target's entry. load may be NULL: then @include is an error. */
int seccomp_parse(const char *file, const char *text, size_t size, SeccompLoad load, void *userdata,
                  DiagList *diags, SeccompSource **ret_source);
