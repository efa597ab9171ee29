/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The end of a log that is about to be continued: its last line, and what stands behind it. */

#include <sys/types.h>

#include "record/audit-line.h"
#include "record/audit-path.h"

typedef struct AuditTail {
        off_t size;     /* up to and with the last newline */
        off_t n_behind; /* bytes behind it: a line that was never finished */
        AuditHead last; /* of the last line; seq 0: there is none */
        bool foreign;   /* the last line is no record */
} AuditTail;

/* Looks. 0 or a negative errno. */
int audit_tail_read(int fd, off_t size, AuditTail *ret_tail);
/* Moves what stands behind the last line into a new file CUT-SEQ, whose name is given back. 0 or a
 * negative errno, and then nothing has changed. */
int audit_tail_cut(int fd, const AuditTail *tail, const AuditPlace *place, int folder_fd,
                   char **ret_name);
