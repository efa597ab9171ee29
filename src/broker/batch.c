/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/batch.h"

#include "basic/error.h"

Batch *batch_new(void) {
        Batch *batch = calloc(1, sizeof(Batch));

        if (batch)
                batch->n_refs = 1;
        return batch;
}

Batch *batch_ref(Batch *batch) {
        if (batch)
                batch->n_refs++;
        return batch;
}

int batch_add(Batch *batch, const char *frame, size_t size) {
        int r;

        /* Room for the closing bracket as well, so that the end cannot fail. */
        r = strbuf_reserve(&batch->out, size + 2);
        if (r == 0)
                r = strbuf_append_byte(&batch->out, batch->out.size > 0 ? ',' : '[');
        if (r == 0)
                r = strbuf_append(&batch->out, frame, size);
        return error_trace(r);
}

void batch_unref(Batch *batch, char **ret_frame, size_t *ret_size) {
        *ret_frame = NULL;
        *ret_size = 0;
        if (!batch || --batch->n_refs > 0)
                return;

        if (batch->out.size > 0 && strbuf_append_byte(&batch->out, ']') == 0) {
                *ret_size = batch->out.size;
                *ret_frame = strbuf_steal(&batch->out);
        }
        strbuf_done(&batch->out);
        free(batch);
}
