/* SPDX-License-Identifier: Apache-2.0 */

/*
 * agentcrate audit verify: walks the chain over all its files.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>

#include "basic/diag.h"
#include "basic/error.h"
#include "cli/audit.h"
#include "record/audit-verify.h"

#define HEAD_SIZE 512
#define HEAD_TRIES 5
#define LOG_SUFFIX ".jsonl"
/* A line that a broker is writing now is whole in far less. */
#define LIVE_TRIES 20
#define LIVE_STEP_MSEC 50

static void on_fault(const char *file, uint64_t line, const char *text, void *userdata _unused_) {
        _cleanup_(freep) char *quoted = diag_quote_path(file);

        printf("%s:%" PRIu64 ": %s\n", quoted ?: "", line, text);
}

/* --- the head --- */

/* That of the log which is not renamed yet; NULL if there is none. */
static int guess_head(const char *last, char **ret_path) {
        size_t size = strlen(last), suffix = strlen(LOG_SUFFIX);
        char *path;

        *ret_path = NULL;
        if (size <= suffix || !string_equal(last + size - suffix, LOG_SUFFIX))
                return 0;
        if (asprintf(&path, "%.*s.head", (int) (size - suffix), last) < 0)
                return error_origin(-ENOMEM);
        if (access(path, F_OK) < 0) {
                free(path);
                return 0;
        }
        *ret_path = path;
        return 0;
}

/* A broker may write it while it is read: two looks that agree are one that is whole. */
static int read_head(const char *path, AuditHead *ret_head) {
        _cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        _cleanup_(freep) char *quoted = diag_quote_path(path);
        char text[2][HEAD_SIZE];
        ssize_t n[2] = {};
        int r;

        if (fd < 0)
                return complain_status(EXIT_AUDIT_UNREADABLE, "%s cannot be read: %s", quoted ?: "",
                                       strerrordesc_np(errno));
        for (int i = 0; i < HEAD_TRIES; i++) {
                n[0] = pread(fd, text[0], HEAD_SIZE, 0);
                n[1] = pread(fd, text[1], HEAD_SIZE, 0);
                if (n[0] == n[1] && (n[0] <= 0 || memcmp(text[0], text[1], (size_t) n[0]) == 0))
                        break;
        }
        if (n[0] < 0)
                return complain_status(EXIT_AUDIT_UNREADABLE, "%s cannot be read", quoted ?: "");
        /* Nothing was recorded yet. */
        if (n[0] == 0)
                return 0;
        r = audit_head_parse(text[0], (size_t) n[0], ret_head);
        if (r == AUDIT_RECORD_E_INVALID) {
                printf("%s:1: it is no head of a chain: it was changed\n", quoted ?: "");
                return EXIT_AUDIT_FAULT;
        }
        return error_trace(r);
}

/* --- the files --- */

/* The next line; one that a broker is writing gets the time to become whole. */
static int next_line(AuditReader *reader, bool live, AuditText *ret_text) {
        int r;

        for (int i = 0;; i++) {
                r = audit_reader_next(reader, !live || i == LIVE_TRIES, ret_text);
                if (r != AUDIT_READER_E_END || reader->done == reader->size || i == LIVE_TRIES)
                        return r;
                (void) poll(NULL, 0, LIVE_STEP_MSEC);
        }
}

static int verify_file(AuditVerifier *verifier, const char *path, bool live) {
        _cleanup_(audit_reader_done) AuditReader reader = AUDIT_READER_NULL;
        _cleanup_(freep) char *error = NULL;
        AuditText text;
        int r;

        r = audit_reader_open(&reader, path, &error);
        if (r == AUDIT_READER_E_UNUSABLE)
                return complain_status(EXIT_AUDIT_UNREADABLE, "%s", error);
        while (r == 0) {
                r = next_line(&reader, live, &text);
                if (r == 0 && text.unfinished)
                        r = audit_verifier_fault(verifier, path, reader.line,
                                                 "it ends in the midst: who wrote it was killed; "
                                                 "the next broker moves it into a file of its own");
                else if (r == 0)
                        r = audit_verifier_line(verifier, path, reader.line, text.data, text.size);
        }
        return r == AUDIT_READER_E_END ? 0 : error_trace(r);
}

static int print_summary(const AuditVerifier *verifier, const char *head) {
        printf("%" PRIu64 " line%s", verifier->n_lines, plural(verifier->n_lines));
        if (verifier->first_seq > 0)
                printf(", %" PRIu64 " to %" PRIu64, verifier->first_seq, verifier->last.seq);
        printf(", %" PRIu64 " decision%s, %" PRIu64 " end%s", verifier->n_decisions,
               plural(verifier->n_decisions), verifier->n_ends, plural(verifier->n_ends));
        if (verifier->first_seq > 1)
                fputs("; what was before is not here", stdout);
        if (!head)
                fputs("; there is no head beside it: a tail that was cut off cannot be noticed "
                      "without it",
                      stdout);
        if (verifier->n_faults > 0)
                printf("; %" PRIu64 " fault%s\n", verifier->n_faults, plural(verifier->n_faults));
        else
                fputs("; nothing was changed\n", stdout);
        return verifier->n_faults > 0 ? EXIT_AUDIT_FAULT : EXIT_SUCCESS;
}

/* All files, the oldest first. */
static int find_files(StrV *files) {
        _cleanup_(freep) char *path = NULL, *text = NULL;
        int r;

        if (files->n_items > 0)
                return error_trace(audit_sort_files(files));
        r = audit_log_path(&path);
        if (r == 0)
                r = audit_find_files(path, files, &text);
        if (r == AUDIT_READER_E_UNUSABLE && text)
                return complain_status(EXIT_AUDIT_UNREADABLE, "%s", text);
        return r;
}

int audit_verify(const AuditOptions *options, StrV *files) {
        _cleanup_(audit_verifier_done) AuditVerifier verifier = {};
        _cleanup_(freep) char *guessed = NULL;
        AuditHead want = {};
        const char *head;
        int r;

        r = find_files(files);
        if (r == 0 && !options->head)
                r = guess_head(files->items[files->n_items - 1], &guessed);
        if (r != 0)
                return r;

        /* Before the lines: what comes meanwhile is behind it. */
        head = options->head ?: guessed;
        r = head ? read_head(head, &want) : 0;
        audit_verifier_init(&verifier, &want, on_fault, NULL);
        if (r == EXIT_AUDIT_FAULT) {
                verifier.n_faults++;
                r = 0;
        }
        for (size_t i = 0; r == 0 && i < files->n_items; i++)
                r = verify_file(&verifier, files->items[i], i == files->n_items - 1);
        if (r == 0)
                r = audit_verifier_end(&verifier);
        return r != 0 ? r : print_summary(&verifier, head);
}
