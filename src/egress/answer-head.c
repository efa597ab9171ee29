/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/answer-head.h"

#include <string.h>
#include <strings.h>

#include "basic/error.h"
#include "basic/macros.h"

#define HEAD_MAX (64U * 1024U)

void answer_head_done(AnswerHead *head) {
        strbuf_done(&head->fields);
}

static bool is_word(const char *text, size_t size, const char *const *words, size_t n_words) {
        for (size_t i = 0; i < n_words; i++)
                if (strlen(words[i]) == size && strncasecmp(text, words[i], size) == 0)
                        return true;
        return false;
}

/* What follows the prefix of such a field. It is made of these words and nothing else, or a name
 * could carry what is taken out of values. */
static bool says_a_rate(const char *name, size_t size) {
        static const char *const words[] = {
                "after",  "bucket",  "day",       "global",   "hour",      "input",     "interval",
                "limit",  "minute",  "month",     "name",     "nearlimit", "observed",  "output",
                "policy", "project", "remaining", "requests", "reset",     "resettime", "resource",
                "scope",  "second",  "seconds",   "status",   "tokens",    "unified",   "used",
        };

        for (;;) {
                const char *end = memchr(name, '-', size);
                size_t n = end ? (size_t) (end - name) : size;

                if (!is_word(name, n, words, ELEMENTSOF(words)))
                        return false;
                if (!end)
                        return true;
                name += n + 1;
                size -= n + 1;
        }
}

static bool field_passes(const char *name, size_t size) {
        static const char *const names[] = {
                "cache-control",
                "content-disposition",
                "content-language",
                "content-type",
                "date",
                "etag",
                "expires",
                "last-modified",
                "request-id",
                "retry-after",
                "vary",
                "x-request-id",
                "x-github-request-id",
        };
        static const char *const prefixes[] = {"x-ratelimit-", "ratelimit-",
                                               "anthropic-ratelimit-"};

        if (is_word(name, size, names, ELEMENTSOF(names)))
                return true;
        for (size_t i = 0; i < ELEMENTSOF(prefixes); i++) {
                size_t n = strlen(prefixes[i]);

                if (size > n && strncasecmp(name, prefixes[i], n) == 0)
                        return says_a_rate(name + n, size - n);
        }
        return false;
}

/* In a field there is one line, and the secret is not in it. */
static int take_field(AnswerHead *head, Redactor *redactor, const char *line, size_t size) {
        _cleanup_(strbuf_done) StrBuf value = STRBUF_NULL;
        const char *colon = memchr(line, ':', size);
        size_t name = colon ? (size_t) (colon - line) : 0, at = name + 1;
        int r;

        if (!field_passes(line, name))
                return 0;
        while (at < size && (line[at] == ' ' || line[at] == '\t'))
                at++;
        for (size_t i = at; i < size; i++)
                if ((unsigned char) line[i] < ' ' && line[i] != '\t')
                        return 0;
        r = redactor_add(redactor, line + at, size - at, &value);
        if (r == 0)
                r = redactor_finish(redactor, &value);
        if (r == 0)
                r = strbuf_appendf(&head->fields, "%.*s: %s\r\n", (int) name, line,
                                   value.data ?: "");
        return error_trace(r);
}

static bool field_is(const char *line, size_t size, const char *name, const char **ret_value,
                     size_t *ret_size) {
        size_t n = strlen(name);

        if (size <= n || strncasecmp(line, name, n) != 0 || line[n] != ':')
                return false;
        for (n++; n < size && (line[n] == ' ' || line[n] == '\t'); n++)
                ;
        while (size > n && (line[size - 1] == ' ' || line[size - 1] == '\t'))
                size--;
        *ret_value = line + n;
        *ret_size = size - n;
        return true;
}

/* A name, and a colon right behind it. Whatever else a line can be, such as the rest of the field
 * before it, may be a field to others that is none here. */
static bool is_field(const char *line, size_t size) {
        const char *colon = memchr(line, ':', size);
        size_t name = colon ? (size_t) (colon - line) : 0;

        for (size_t i = 0; i < name; i++)
                if (line[i] <= ' ' || line[i] >= 0x7f)
                        return false;
        return name > 0;
}

static bool value_is(const char *value, size_t size, const char *word) {
        return is_word(value, size, &word, 1);
}

/* Compressed, a secret would go through unseen; and libcurl unpacks what comes in compressed pieces
 * although it was not told to. */
static bool is_coded(const char *line, size_t size) {
        const char *value;
        size_t n;

        return (field_is(line, size, "content-encoding", &value, &n) &&
                !value_is(value, n, "identity")) ||
               (field_is(line, size, "transfer-encoding", &value, &n) &&
                !value_is(value, n, "chunked"));
}

/* Where libcurl cannot read the length, it takes the answer to have none, and the part of it that
 * came for the whole. */
static bool take_length(AnswerHead *head, const char *line, size_t size) {
        bool has_one = head->has_length;
        uint64_t length = 0;
        const char *value;
        size_t n;

        if (!field_is(line, size, "content-length", &value, &n))
                return true;
        for (size_t i = 0; i < n; i++) {
                if (value[i] < '0' || value[i] > '9')
                        return false;
                if (length > (UINT64_MAX - 9) / 10)
                        length = UINT64_MAX;
                else
                        length = 10 * length + (uint64_t) (value[i] - '0');
        }
        if (n == 0 || (has_one && length != head->length))
                return false;
        head->has_length = true;
        head->length = length;
        return true;
}

static void look_at_field(AnswerHead *head, const char *line, size_t size) {
        const char *value;
        size_t n;

        /* JSON, and events of a stream. */
        if (field_is(line, size, "content-type", &value, &n)) {
                head->is_stream = memmem(value, n, "event-stream", 12);
                head->tells_usage = head->is_stream || memmem(value, n, "json", 4);
        }
        if (field_is(line, size, "content-length", &value, &n) ||
            field_is(line, size, "transfer-encoding", &value, &n))
                head->n_lengths++;
}

static int fault_set(AnswerHeadFault *ret_fault, const char *reason, const char *text) {
        *ret_fault = (AnswerHeadFault){reason, text};
        return ANSWER_HEAD_E_FAULT;
}

int answer_head_line(AnswerHead *head, Redactor *redactor, bool answered, const char *line,
                     size_t size, AnswerHeadFault *ret_fault) {
        head->size += size;
        if (head->size > HEAD_MAX)
                return fault_set(ret_fault, "response.head",
                                 "the head of the answer is longer than 64 KiB");
        /* What comes behind the content is dropped. */
        if (answered)
                return 0;
        while (size > 0 && (line[size - 1] == '\n' || line[size - 1] == '\r'))
                size--;
        if (size == 0) {
                head->within = false;
                return ANSWER_HEAD_E_ENDED;
        }
        if (!head->within) {
                strbuf_done(&head->fields);
                head->n_lengths = 0;
                head->has_length = false;
                head->length = 0;
                head->within = true;
                return 0;
        }
        if (!is_field(line, size))
                return fault_set(ret_fault, "upstream.broken",
                                 "the head of the answer has a line that is no field");
        if (is_coded(line, size))
                return fault_set(ret_fault, "response.encoding",
                                 "the answer is compressed although identity was asked for, and "
                                 "what cannot be looked at is not passed on");
        if (!take_length(head, line, size))
                return fault_set(ret_fault, "upstream.broken",
                                 "the head of the answer has a Content-Length that is none");
        look_at_field(head, line, size);
        return take_field(head, redactor, line, size);
}
