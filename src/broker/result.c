/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/result.h"

#include <jansson.h>

#include "basic/error.h"
#include "crate/denied.h"

char *result_error_text(const CrateError *error) {
        char *text;

        if (asprintf(&text, "%s%s%s", error->text ?: "the job could not be started",
                     error->remedy ? "; " : "", error->remedy ?: "") < 0)
                return NULL;
        return text;
}

/* Ends the last line, so that what follows begins a line of its own. */
static int text_end_line(StrBuf *text) {
        if (text->size == 0 || text->data[text->size - 1] == '\n')
                return 0;
        return strbuf_append_byte(text, '\n');
}

/* heading is left out for readable output that stands first. */
static int text_add_stream(StrBuf *text, const char *name, const Capture *capture, bool heading) {
        _cleanup_(freep) char *data = NULL;
        const char *encoding = NULL;
        size_t size = 0;
        bool base64;
        int r;

        if (capture->total == 0)
                return 0;

        r = capture_text(capture, &data, &size, &encoding);
        if (r < 0)
                return error_trace(r);

        base64 = string_equal(encoding, "base64");
        r = text_end_line(text);
        if (r == 0 && (heading || base64))
                r = strbuf_appendf(text, "--- %s%s ---\n", name,
                                   base64 ? ", not UTF-8, in base64" : "");
        if (r == 0)
                r = strbuf_append(text, data, size);
        return error_trace(r);
}

/* Standard output, standard error if there is any, and how it ended if that is worth a line. */
static int result_text(const CrateResult *result, const char *lost_text, StrBuf *text) {
        _cleanup_(freep) char *verdict = NULL;
        int r;

        r = text_add_stream(text, "stdout", &result->out, false);
        if (r == 0)
                r = text_add_stream(text, "stderr", &result->err, true);
        if (r < 0)
                return error_trace(r);

        verdict = lost_text ? strdup(lost_text) : crate_result_verdict(result);
        if (verdict) {
                r = text_end_line(text);
                if (r == 0)
                        r = strbuf_append_string(text, verdict);
        } else if (text->size == 0)
                /* An empty text is refused by some models' interfaces. */
                r = strbuf_append_string(text, "(no output)");
        return error_trace(r);
}

static int result_content(const CrateResult *result, const char *lost_text, char **ret_content) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        json_t *content;
        int r;

        r = result_text(result, lost_text, &text);
        if (r < 0)
                return error_trace(r);

        content = json_pack("[{s:s, s:o}]", "type", "text", "text",
                            json_stringn(text.data ?: "", text.size));
        *ret_content = json_dumps(content, JSON_COMPACT);
        json_decref(content);
        return *ret_content ? 0 : error_origin(-ENOMEM);
}

static int record_set_lost(json_t *record, const char *text) {
        if (json_object_set_new(record, "outcome",
                                json_string(crate_outcome_to_string(CRATE_LOST))) < 0 ||
            json_object_set_new(record, "exit_code", json_null()) < 0 ||
            json_object_set_new(record, "signal", json_null()) < 0 ||
            json_object_set_new(record, "error",
                                json_pack("{s:s, s:n, s:n, s:s, s:n}", "step", "broker", "errno",
                                          "path", "text", text, "remedy")) < 0)
                return error_origin(-ENOMEM);
        return 0;
}

static int result_structured(const CrateResult *result, const char *lost_text,
                             char **ret_structured) {
        json_t *record;
        int r = 0;

        record = crate_result_to_json(result, true);
        if (!record)
                return error_origin(-ENOMEM);

        if (lost_text)
                r = record_set_lost(record, lost_text);
        if (r == 0) {
                *ret_structured = json_dumps(record, JSON_COMPACT);
                r = *ret_structured ? 0 : error_origin(-ENOMEM);
        }
        json_decref(record);
        return r;
}

void result_to_audit(const CrateResult *result, bool lost, AuditEnd *end) {
        end->outcome = crate_outcome_to_string(lost ? CRATE_LOST : result->outcome);
        end->reason = lost ? "the broker was stopped before the job ended" : result->error.text;
        end->limit = !lost && result->outcome == CRATE_LIMIT && result->limit.name >= 0
                             ? limit_to_string(result->limit.name)
                             : NULL;
        end->plan_digest = result->plan_digest[0] ? result->plan_digest : NULL;
        end->job = result->job[0] ? result->job : NULL;
        end->run_usec = result->wall_usec;
        end->exit_code = lost ? -1 : result->exit_code;
        end->signal = lost ? 0 : result->signal;
        end->stdout_bytes = result->out.total;
        end->stderr_bytes = result->err.total;
        end->has_egress = result->egress.known;
        end->egress_connections = result->egress.connections;
        end->egress_bytes_in = result->egress.bytes_in;
        end->egress_bytes_out = result->egress.bytes_out;
        end->egress_denied = result->egress.n_denied;
}

/* --- what it reached --- */

static const char *text_of(const json_t *object, const char *key) {
        return json_string_value(json_object_get(object, key));
}

static uint64_t number_of(const json_t *object, const char *key) {
        return (uint64_t) json_integer_value(json_object_get(object, key));
}

/* An operation has a line of its own. */
static void add_denial(ResultEgress *egress, const CrateResult *result, const json_t *denial) {
        const char *kind = text_of(denial, "kind");

        if (!kind || string_equal(kind, "operation"))
                return;
        egress->items[egress->n_items++] = (AuditEgress){
                .denied = true,
                .is_dns = string_equal(kind, "dns"),
                .job = result->job,
                .name = text_of(denial, "what"),
                .port = number_of(denial, "port"),
                .rule = text_of(denial, "rule"),
                .kind = kind,
                .reason = text_of(denial, "class") ?: text_of(denial, "reason"),
                .address = text_of(denial, "address"),
                .seen = text_of(denial, "seen"),
                .count = number_of(denial, "count"),
        };
}

/* What was refused before it was dialled is among the denials, but for the names that led there.
 * What the log had no room for is one entry for each destination. */
static void add_connection(ResultEgress *egress, const CrateResult *result, const json_t *entry) {
        const char *address = text_of(entry, "address"), *through = text_of(entry, "through");
        uint64_t count = number_of(entry, "connections");

        if (!address && !through && count == 0)
                return;
        egress->items[egress->n_items++] = (AuditEgress){
                .denied = !address && count == 0,
                .job = result->job,
                .name = text_of(entry, "name"),
                .port = number_of(entry, "port"),
                .address = address,
                .through = through,
                .end = text_of(entry, "end") ?: "more",
                .count = count,
                .bytes_in = number_of(entry, "bytes_in"),
                .bytes_out = number_of(entry, "bytes_out"),
                .usec = number_of(entry, "us"),
                .begun_usec = number_of(entry, "begun_us"),
        };
}

void result_egress_done(ResultEgress *egress) {
        free(egress->items);
        json_decref(egress->list);
        *egress = (ResultEgress){};
}

int result_to_egress(const CrateResult *result, ResultEgress *ret_egress) {
        ResultEgress egress = {.list = denied_to_json(result)};
        size_t n_denied = json_array_size(egress.list);
        size_t n_reached = json_array_size(result->reached);

        egress.items = calloc(n_denied + n_reached + 1, sizeof(*egress.items));
        if (!egress.list || !egress.items) {
                result_egress_done(&egress);
                return error_origin(-ENOMEM);
        }
        for (size_t i = 0; i < n_denied; i++)
                add_denial(&egress, result, json_array_get(egress.list, i));
        for (size_t i = 0; i < n_reached; i++)
                add_connection(&egress, result, json_array_get(result->reached, i));
        *ret_egress = egress;
        return 0;
}

int result_to_answer(const CrateResult *result, const char *lost_text, ExecutorResult *ret_answer) {
        _cleanup_(freep) char *content = NULL, *structured = NULL;
        int r;

        r = result_content(result, lost_text, &content);
        if (r == 0)
                r = result_structured(result, lost_text, &structured);
        if (r < 0)
                return error_trace(r);

        *ret_answer = (ExecutorResult){
                .content = TAKE_PTR(content),
                .structured = TAKE_PTR(structured),
                .is_error = lost_text || result->outcome != CRATE_EXITED,
        };
        return 0;
}
