/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/progress.h"

#include <inttypes.h>

#include "basic/error.h"
#include "basic/utf8-cut.h"
#include "mcp/protocol.h"

int progress_init(Progress *progress, McpRevision revision, const char *token, size_t token_size) {
        *progress = (Progress){.revision = revision};
        if (!token)
                return 0;

        progress->token = strndup(token, token_size);
        if (!progress->token)
                return error_origin(-ENOMEM);
        progress->token_size = token_size;
        return 0;
}

void progress_done(Progress *progress) {
        free(progress->token);
        strbuf_done(&progress->text);
        *progress = (Progress){};
}

/* Each stream is cut between characters only, whatever the pieces are that it comes in. */
int progress_add(Progress *progress, unsigned stream, const char *data, size_t size) {
        char *carry = progress->carry[stream];
        size_t tail;
        int r;

        if (!progress->token || size == 0)
                return 0;

        progress->n_bytes += size;
        if (progress->text.size + size > PROGRESS_TEXT_MAX) {
                progress->n_left_out += size + progress->carry_size[stream];
                progress->carry_size[stream] = 0;
                return 0;
        }

        r = strbuf_append(&progress->text, carry, progress->carry_size[stream]);
        if (r == 0)
                r = strbuf_append(&progress->text, data, size);
        if (r < 0)
                return error_trace(r);

        tail = utf8_incomplete_size(progress->text.data, progress->text.size);
        progress->text.size -= tail;
        memcpy(carry, progress->text.data + progress->text.size, tail);
        progress->carry_size[stream] = tail;
        progress->text.data[progress->text.size] = 0;
        return 0;
}

void progress_skip(Progress *progress, size_t size) {
        if (!progress->token)
                return;
        progress->n_bytes += size;
        progress->n_left_out += size;
}

bool progress_pending(const Progress *progress) {
        return progress->token && (progress->text.size > 0 || progress->n_left_out > 0);
}

int progress_take(Progress *progress, uint64_t now, StrBuf *out) {
        int r;

        if (progress->n_left_out > 0) {
                r = strbuf_appendf(&progress->text, "\n[%" PRIu64 " bytes left out]\n",
                                   progress->n_left_out);
                if (r < 0)
                        return error_trace(r);
        }

        /* New output makes it grow; the guard is for the protocol's sake. */
        progress->n_told =
                progress->n_bytes > progress->n_told ? progress->n_bytes : progress->n_told + 1;
        r = mcp_append_progress(out, progress->revision, progress->token, progress->token_size,
                                progress->n_told, progress->text.data ?: "", progress->text.size);
        if (r < 0)
                return error_trace(r);

        progress->text.size = 0;
        progress->n_left_out = 0;
        progress->due_usec = now + PROGRESS_INTERVAL_USEC;
        return 0;
}
