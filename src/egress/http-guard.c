/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/http-guard.h"

#include <string.h>
#include <strings.h>

#include "basic/error.h"
#include "basic/parse-util.h"

/* What a destination's server takes is its own affair; these are what one connection may cost. */
static const HttpLimits limits = {
        .line_max = 32U * 1024U, .head_max = 64U * 1024U, .headers_max = 256, .body_max = SIZE_MAX};

#define CHUNK_DIGITS_MAX 15U

typedef struct Text {
        const char *data;
        size_t size;
} Text;

void http_guard_done(HttpGuard *guard) {
        http_head_done(&guard->head);
}

static int refuse(HttpGuard *guard, int status, const char *text) {
        guard->fault = (HttpFault){.status = status, .text = text};
        return HTTP_GUARD_E_REFUSED;
}

static bool text_is(Text text, const char *word) {
        return text.size == strlen(word) && strncasecmp(text.data, word, text.size) == 0;
}

static bool is_space(char c) {
        return c == ' ' || c == '\t';
}

/* --- fields of a head that the gate has let through --- */

/* The next line without its end, and of a field the value; false behind the last. */
static bool next_field(Text *rest, Text *ret_line, Text *ret_name, Text *ret_value) {
        const char *end = memchr(rest->data, '\r', rest->size), *colon;

        if (!end || end == rest->data)
                return false;
        *ret_line = (Text){rest->data, (size_t) (end - rest->data)};
        rest->size -= ret_line->size + 2;
        rest->data = end + 2;

        colon = memchr(ret_line->data, ':', ret_line->size);
        *ret_name = (Text){ret_line->data, colon ? (size_t) (colon - ret_line->data) : 0};
        *ret_value = (Text){colon ? colon + 1 : end, colon ? (size_t) (end - colon - 1) : 0};
        while (ret_value->size > 0 && is_space(*ret_value->data)) {
                ret_value->data++;
                ret_value->size--;
        }
        while (ret_value->size > 0 && is_space(ret_value->data[ret_value->size - 1]))
                ret_value->size--;
        return true;
}

/* The name, with one dot behind it or none, and the port, which may be left out: who does so names
 * no other host, and where the connection leads is settled. */
static bool is_our_host(const HttpGuard *guard, Text value) {
        size_t size = strlen(guard->name);
        char port[8];

        if (value.size < size || strncasecmp(value.data, guard->name, size) != 0)
                return false;
        value.data += size;
        value.size -= size;
        if (value.size > 0 && *value.data == '.') {
                value.data++;
                value.size--;
        }
        if (value.size == 0)
                return true;
        (void) snprintf(port, sizeof(port), ":%u", guard->port);
        return text_is(value, port);
}

/* A list of words with commas between. */
static bool next_word(Text *list, Text *ret_word) {
        while (list->size > 0 && (is_space(*list->data) || *list->data == ',')) {
                list->data++;
                list->size--;
        }
        if (list->size == 0)
                return false;
        *ret_word = (Text){list->data, 0};
        while (list->size > 0 && *list->data != ',') {
                list->data++;
                list->size--;
                ret_word->size++;
        }
        while (is_space(ret_word->data[ret_word->size - 1]))
                ret_word->size--;
        return true;
}

static bool offers_only_h2c(Text value) {
        Text word;

        while (next_word(&value, &word))
                if (!text_is(word, "h2c"))
                        return false;
        return true;
}

/* Connection names the fields that were taken out, which would be left without a meaning. */
static int append_connection(StrBuf *out, Text value) {
        bool any = false;
        Text word;
        int r;

        while (next_word(&value, &word)) {
                if (text_is(word, "upgrade") || text_is(word, "http2-settings"))
                        continue;
                r = strbuf_append_string(out, any ? ", " : "Connection: ");
                if (r == 0)
                        r = strbuf_append(out, word.data, word.size);
                if (r < 0)
                        return error_trace(r);
                any = true;
        }
        return any ? strbuf_append_string(out, "\r\n") : 0;
}

static int check_head(HttpGuard *guard, Text rest, bool *ret_upgrade) {
        Text line, name, value;
        bool host = false;

        (void) next_field(&rest, &line, &name, &value); /* the request line */
        while (next_field(&rest, &line, &name, &value)) {
                if (text_is(name, "host")) {
                        if (!is_our_host(guard, value))
                                return refuse(guard, 421,
                                              "Host is not the destination that was connected to");
                        host = true;
                } else if (text_is(name, "upgrade")) {
                        if (!offers_only_h2c(value))
                                return refuse(guard, 501,
                                              "no other protocol is spoken on a plain HTTP "
                                              "destination: allow it as NAME:PORT/tcp instead");
                        *ret_upgrade = true;
                }
        }
        return host ? 0 : refuse(guard, 400, "there is no Host");
}

static int append_head(const HttpGuard *guard, bool upgrade, StrBuf *out) {
        Text rest = {guard->head.bytes.data, guard->head.bytes.size}, line, name, value;
        int r = 0;

        if (!upgrade)
                return strbuf_append(out, rest.data, rest.size);
        while (r == 0 && next_field(&rest, &line, &name, &value)) {
                if (text_is(name, "upgrade") || text_is(name, "http2-settings"))
                        continue;
                if (text_is(name, "connection"))
                        r = append_connection(out, value);
                else
                        r = strbuf_append(out, line.data, line.size + 2);
        }
        return r < 0 ? error_trace(r) : strbuf_append_string(out, "\r\n");
}

static int take_head(HttpGuard *guard, const char *data, size_t size, StrBuf *out,
                     size_t *ret_used) {
        bool upgrade = false;
        int r;

        guard->within = true;
        r = http_head_add(&guard->head, &limits, data, size, ret_used, &guard->fault);
        if (r == HTTP_HEAD_E_BAD)
                return HTTP_GUARD_E_REFUSED;
        if (r != 0)
                return r == HTTP_HEAD_E_MORE ? 0 : error_trace(r);
        r = check_head(guard, (Text){guard->head.bytes.data, guard->head.bytes.size}, &upgrade);
        if (r == 0)
                r = append_head(guard, upgrade, out);
        if (r != 0)
                return r;
        guard->left = guard->head.length;
        guard->state = guard->head.chunked ? HTTP_GUARD_CHUNK_SIZE
                       : guard->left > 0   ? HTTP_GUARD_BODY
                                           : HTTP_GUARD_HEAD;
        http_head_done(&guard->head);
        guard->within = false;
        return 0;
}

/* --- content --- */

static int bad_chunk(HttpGuard *guard) {
        return refuse(guard, 400, "the content is not in chunks as HTTP has them");
}

/* Hexadecimal digits, nothing else: what readers take beside them differs. */
static int chunk_begin(HttpGuard *guard) {
        guard->left = 0;
        for (size_t i = 0; i < guard->n_line; i++) {
                char c = guard->line[i];

                if (!isxdigit((unsigned char) c))
                        return bad_chunk(guard);
                guard->left =
                        guard->left << 4 | (uint64_t) (c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
        }
        guard->state = guard->left > 0 ? HTTP_GUARD_CHUNK : HTTP_GUARD_LAST;
        return 0;
}

/* One byte of a line of at most so many, which ends with CR LF; *ret_whole once it does. */
static int take_line_byte(HttpGuard *guard, char c, size_t max, bool *ret_whole) {
        bool ends = guard->n_line > 0 && guard->line[guard->n_line - 1] == '\r';

        *ret_whole = false;
        if (ends != (c == '\n'))
                return bad_chunk(guard);
        if (ends) {
                guard->n_line--;
                *ret_whole = true;
                return 0;
        }
        if (c != '\r' && guard->n_line >= max)
                return bad_chunk(guard);
        guard->line[guard->n_line++] = c;
        return 0;
}

static int take_frame_byte(HttpGuard *guard, char c) {
        bool is_size = guard->state == HTTP_GUARD_CHUNK_SIZE, whole;
        int r;

        r = take_line_byte(guard, c, is_size ? CHUNK_DIGITS_MAX : 0, &whole);
        if (r != 0 || !whole)
                return r;
        if (is_size)
                r = guard->n_line > 0 ? chunk_begin(guard) : bad_chunk(guard);
        else
                guard->state =
                        guard->state == HTTP_GUARD_LAST ? HTTP_GUARD_HEAD : HTTP_GUARD_CHUNK_SIZE;
        guard->n_line = 0;
        return r;
}

static void take_content(HttpGuard *guard, size_t size, size_t *ret_used) {
        *ret_used = guard->left < size ? (size_t) guard->left : size;
        guard->left -= *ret_used;
        if (guard->left == 0)
                guard->state =
                        guard->state == HTTP_GUARD_BODY ? HTTP_GUARD_HEAD : HTTP_GUARD_CHUNK_END;
}

int http_guard_add(HttpGuard *guard, const char *data, size_t size, StrBuf *out) {
        while (size > 0) {
                size_t used = 1;
                int r;

                if (guard->state == HTTP_GUARD_HEAD) {
                        r = take_head(guard, data, size, out, &used);
                } else {
                        if (guard->state == HTTP_GUARD_BODY || guard->state == HTTP_GUARD_CHUNK) {
                                take_content(guard, size, &used);
                                r = 0;
                        } else
                                r = take_frame_byte(guard, *data);
                        if (r == 0)
                                r = strbuf_append(out, data, used);
                }
                if (r != 0)
                        return r;
                data += used;
                size -= used;
        }
        return 0;
}

int http_guard_append_refusal(const HttpGuard *guard, StrBuf *out) {
        return strbuf_appendf(out,
                              "HTTP/1.1 %d Refused\r\nContent-Type: text/plain\r\n"
                              "Content-Length: %zu\r\nConnection: close\r\n\r\nagentcrate: %s\n",
                              guard->fault.status, strlen(guard->fault.text) + 13,
                              guard->fault.text);
}
