/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/operation-answer.h"

#include <string.h>

#include "basic/error.h"
#include "basic/time-util.h"
#include "basic/utf8.h"
#include "crate/capture.h"

void operation_answer_done(OperationAnswer *answer) {
        strbuf_done(&answer->head);
        strbuf_done(&answer->body);
        json_decref(answer->headers);
        *answer = (OperationAnswer){};
}

/* --- the head --- */

/* "HTTP/1.1 200 …" */
static bool read_status(const char *line, size_t size, int *ret_status) {
        int status = 0;

        if (size < 12 || memcmp(line, "HTTP/1.", 7) != 0 || line[8] != ' ')
                return false;
        for (size_t i = 9; i < 12; i++) {
                if (line[i] < '0' || line[i] > '9')
                        return false;
                status = status * 10 + (line[i] - '0');
        }
        *ret_status = status;
        return status >= 200 && status < 600;
}

static bool is_ours(const char *name) {
        static const char *const names[] = {"connection", "content-length", "transfer-encoding"};

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (string_equal(names[i], name))
                        return true;
        return false;
}

/* What is no UTF-8 cannot be told in JSON, and is left out. 0, OPERATION_ANSWER_E_INVALID or
 * -ENOMEM. */
static int read_field(json_t *headers, const char *line, size_t size) {
        const char *colon = memchr(line, ':', size);
        _cleanup_(freep) char *name = NULL;
        size_t n = colon ? (size_t) (colon - line) : 0, at = n + 1;

        if (n == 0)
                return OPERATION_ANSWER_E_INVALID;
        name = strndup(line, n);
        if (!name)
                return error_origin(-ENOMEM);
        for (char *c = name; *c; c++)
                if (*c >= 'A' && *c <= 'Z')
                        *c = (char) (*c - 'A' + 'a');
        while (at < size && line[at] == ' ')
                at++;
        if (is_ours(name) || !utf8_is_valid(name, n) || !utf8_is_valid(line + at, size - at))
                return 0;
        return json_object_set_new(headers, name, json_stringn(line + at, size - at)) < 0
                       ? error_origin(-ENOMEM)
                       : 0;
}

/* Up to the line that is empty. */
static int read_head(OperationAnswer *answer, size_t size) {
        const char *line = answer->head.data, *end = line + size;
        int r = 0;

        answer->headers = json_object();
        if (!answer->headers)
                return error_origin(-ENOMEM);
        for (size_t i = 0; r == 0 && line < end; i++) {
                const char *stop = memmem(line, (size_t) (end - line), "\r\n", 2);
                size_t n = (size_t) ((stop ?: end) - line);

                if (i == 0)
                        r = read_status(line, n, &answer->status) ? 0 : OPERATION_ANSWER_E_INVALID;
                else
                        r = read_field(answer->headers, line, n);
                line += n + 2;
        }
        return r < 0 ? error_trace(r) : r;
}

static int add_body(OperationAnswer *answer, const char *data, size_t size) {
        if (size > answer->body_max - answer->body.size)
                return OPERATION_ANSWER_E_INVALID;
        return error_trace(strbuf_append(&answer->body, data, size));
}

int operation_answer_add(OperationAnswer *answer, const char *data, size_t size, size_t *ret_size) {
        size_t before = answer->head.size, head;
        const char *end;
        int r;

        *ret_size = size;
        if (answer->status > 0)
                return add_body(answer, data, size);
        *ret_size = 0;
        r = strbuf_append(&answer->head, data, size);
        if (r < 0)
                return error_trace(r);
        end = memmem(answer->head.data, answer->head.size, "\r\n\r\n", 4);
        if (!end)
                return answer->head.size > OPERATION_HEAD_MAX ? OPERATION_ANSWER_E_INVALID : 0;
        head = (size_t) (end - answer->head.data);
        r = head > OPERATION_HEAD_MAX ? OPERATION_ANSWER_E_INVALID : read_head(answer, head);
        if (r != 0)
                return r;
        *ret_size = before + size - head - 4;
        r = add_body(answer, end + 4, *ret_size);
        strbuf_done(&answer->head);
        return r;
}

char *operation_answer_text(const OperationAnswer *answer) {
        json_t *object = json_loadb(answer->body.data ?: "", answer->body.size, 0, NULL);
        const char *text =
                json_string_value(json_object_get(json_object_get(object, "error"), "text"));
        char *copy = text ? strdup(text) : NULL;

        json_decref(object);
        return copy;
}

/* --- as the result of a tool --- */

/* Bytes that are no text become base64. */
static json_t *body_to_json(const StrBuf *body, const char **ret_encoding) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;

        *ret_encoding = "utf-8";
        if (utf8_is_valid(body->data ?: "", body->size))
                return json_stringn(body->data ?: "", body->size);
        *ret_encoding = "base64";
        return bytes_to_base64(body, &text) < 0 ? NULL : json_stringn(text.data, text.size);
}

static json_t *count_to_json(uint64_t count) {
        return count == PROTO_EGRESS_TOKENS_NONE ? json_null() : json_integer((json_int_t) count);
}

static json_t *tokens_to_json(const EgressOperation *told) {
        if (!told || (told->tokens_in == PROTO_EGRESS_TOKENS_NONE &&
                      told->tokens_out == PROTO_EGRESS_TOKENS_NONE))
                return json_null();
        return json_pack("{s:o,s:o}", "input", count_to_json(told->tokens_in), "output",
                         count_to_json(told->tokens_out));
}

static json_t *outcome_to_json(const OperationOutcome *outcome) {
        const OperationAnswer *answer = outcome->answer;
        const char *encoding;
        json_t *body = body_to_json(&answer->body, &encoding);

        return json_pack("{s:s,s:s,s:o,s:o,s:o,s:s,s:I,s:o,s:s?,s:s?,s:f}", "credential",
                         outcome->tool->credential->name, "operation",
                         outcome->tool->operation->name, "status",
                         answer->status > 0 ? json_integer(answer->status) : json_null(), "headers",
                         answer->headers ? json_incref(answer->headers) : json_object(), "body",
                         body, "body_encoding", encoding, "bytes", (json_int_t) answer->body.size,
                         "tokens", tokens_to_json(outcome->told), "reason", outcome->reason, "text",
                         outcome->text, "ms", (double) outcome->usec / USEC_PER_MSEC);
}

/* What was answered, under a line that says how if that is not simply well. */
static json_t *outcome_to_text(const OperationOutcome *outcome, const json_t *structured) {
        const char *body = json_string_value(json_object_get(structured, "body"));
        const char *encoding = json_string_value(json_object_get(structured, "body_encoding"));
        const OperationAnswer *answer = outcome->answer;
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        json_t *value = json_object_get(structured, "body");
        int r = 0;

        if (outcome->reason)
                r = strbuf_appendf(&text, "%s failed: %s (%s)", outcome->tool->rights.name,
                                   outcome->text ?: outcome->reason, outcome->reason);
        else if (answer->status >= 300)
                r = strbuf_appendf(&text, "HTTP status %d\n", answer->status);
        if (r == 0 && !outcome->reason && string_equal(encoding, "base64"))
                r = strbuf_append_string(&text, "--- not UTF-8, in base64 ---\n");
        if (r == 0 && !outcome->reason && body)
                r = strbuf_append(&text, body, json_string_length(value));
        if (r == 0 && text.size == 0)
                r = strbuf_appendf(&text, "(no content, HTTP status %d)", answer->status);
        return r < 0 ? NULL
                     : json_pack("[{s:s,s:o}]", "type", "text", "text",
                                 json_stringn(text.data, text.size));
}

int operation_outcome_to_result(const OperationOutcome *outcome, ExecutorResult *ret_result) {
        _cleanup_(freep) char *structured = NULL, *content = NULL;
        json_t *object = outcome_to_json(outcome);
        json_t *array = object ? outcome_to_text(outcome, object) : NULL;

        structured = json_dumps(object, JSON_COMPACT);
        content = json_dumps(array, JSON_COMPACT);
        json_decref(array);
        json_decref(object);
        if (!structured || !content)
                return error_origin(-ENOMEM);
        *ret_result = (ExecutorResult){
                .content = TAKE_PTR(content),
                .structured = TAKE_PTR(structured),
                .is_error = outcome->reason || outcome->answer->status >= 400,
        };
        return 0;
}
