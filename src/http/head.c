/* SPDX-License-Identifier: Apache-2.0 */

#include "http/head.h"

#include <string.h>
#include <strings.h>

#include "basic/error.h"

/* The longest method that is registered has 17 letters. */
#define METHOD_MAX 20U
/* Digits that fit into 64 bits, whatever they are. */
#define LENGTH_DIGITS_MAX 18U

typedef struct Slice {
        const char *data;
        size_t size;
} Slice;

static int bad(HttpFault *ret_fault, int status, const char *text) {
        *ret_fault = (HttpFault){.status = status, .text = text};
        return HTTP_HEAD_E_BAD;
}

void http_head_done(HttpHead *head) {
        strbuf_done(&head->bytes);
        *head = (HttpHead){};
}

/* --- characters --- */

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

static bool is_token(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) ||
               (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

/* Bytes that no line holds; CR and LF are looked at when the line is whole. */
static bool has_control(const char *data, size_t size) {
        for (size_t i = 0; i < size; i++) {
                unsigned char c = (unsigned char) data[i];

                if ((c < ' ' && c != '\t' && c != '\r' && c != '\n') || c == 0x7f)
                        return true;
        }
        return false;
}

static Slice trim(const char *data, size_t size) {
        while (size > 0 && (*data == ' ' || *data == '\t')) {
                data++;
                size--;
        }
        while (size > 0 && (data[size - 1] == ' ' || data[size - 1] == '\t'))
                size--;
        return (Slice){data, size};
}

static bool slice_is(Slice s, const char *word) {
        return s.size == strlen(word) && strncasecmp(s.data, word, s.size) == 0;
}

/* --- the request line --- */

static int check_version(HttpHead *head, const char *s, size_t size, HttpFault *ret_fault) {
        if (size == 8 && memcmp(s, "HTTP/1.1", 8) == 0)
                return 0;
        if (size == 8 && memcmp(s, "HTTP/1.0", 8) == 0) {
                head->http10 = true;
                return 0;
        }
        if (size == 8 && memcmp(s, "HTTP/", 5) == 0 && is_digit(s[5]) && s[6] == '.' &&
            is_digit(s[7]))
                return bad(ret_fault, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
        return bad(ret_fault, 400,
                   "the request line is none: it is METHOD, a space, a path, a space, HTTP/1.1");
}

static int check_request_line(HttpHead *head, const char *s, size_t size, HttpFault *ret_fault) {
        size_t method = 0, target;

        while (method < size && is_token(s[method]))
                method++;
        if (method > METHOD_MAX)
                return bad(ret_fault, 501, "there is no method of that name");
        if (method == 0 || method == size || s[method] != ' ')
                return bad(ret_fault, 400,
                           "the request line is none: it is METHOD, a space, a path, a space, "
                           "HTTP/1.1");

        target = method + 1;
        if (method == 7 && target < size && s[target] != '/' &&
            (memcmp(s, "CONNECT", 7) == 0 || (memcmp(s, "OPTIONS", 7) == 0 && s[target] == '*')))
                return bad(ret_fault, 405, "there is no such method here: this is no proxy");
        while (target < size && s[target] > ' ' && s[target] != '#')
                target++;
        if (target == size || s[target] != ' ' || s[method + 1] != '/')
                return bad(ret_fault, 400,
                           "the target of the request is no path: it begins with a slash and holds "
                           "visible ASCII characters only");
        return check_version(head, s + target + 1, size - target - 1, ret_fault);
}

/* --- fields --- */

static int take_host(HttpHead *head, HttpFault *ret_fault) {
        if (head->has_host)
                return bad(ret_fault, 400, "Host is given twice");
        head->has_host = true;
        return 0;
}

static int take_length(HttpHead *head, Slice value, HttpFault *ret_fault) {
        uint64_t length = 0;

        if (head->has_length)
                return bad(ret_fault, 400, "Content-Length is given twice");
        if (value.size == 0)
                return bad(ret_fault, 400, "Content-Length is no number");
        for (size_t i = 0; i < value.size; i++)
                if (!is_digit(value.data[i]))
                        return bad(ret_fault, 400, "Content-Length is no number");
        if (value.size > LENGTH_DIGITS_MAX)
                return bad(ret_fault, 413, "the content is longer than is taken here");

        for (size_t i = 0; i < value.size; i++)
                length = length * 10 + (uint64_t) (value.data[i] - '0');
        head->has_length = true;
        head->length = length;
        return 0;
}

static int take_coding(HttpHead *head, Slice value, HttpFault *ret_fault) {
        if (head->chunked)
                return bad(ret_fault, 400, "Transfer-Encoding is given twice");
        if (!slice_is(value, "chunked"))
                return bad(ret_fault, 400, "the only Transfer-Encoding is chunked");
        head->chunked = true;
        return 0;
}

static int check_field(HttpHead *head, const char *s, size_t size, HttpFault *ret_fault) {
        size_t name = 0;
        Slice value;

        if (*s == ' ' || *s == '\t')
                return bad(ret_fault, 400, "a line goes on with the field before: fold none");
        while (name < size && is_token(s[name]))
                name++;
        if (name == 0 || name == size || s[name] != ':')
                return bad(ret_fault, 400,
                           "a line is no field: it is a name, a colon right behind it, and a "
                           "value");

        value = trim(s + name + 1, size - name - 1);
        if (slice_is((Slice){s, name}, "host"))
                return take_host(head, ret_fault);
        if (slice_is((Slice){s, name}, "content-length"))
                return take_length(head, value, ret_fault);
        if (slice_is((Slice){s, name}, "transfer-encoding"))
                return take_coding(head, value, ret_fault);
        return 0;
}

/* --- the whole --- */

static int check_whole(const HttpHead *head, const HttpLimits *limits, HttpFault *ret_fault) {
        if (!head->has_host && !head->http10)
                return bad(ret_fault, 400, "there is no Host, which HTTP/1.1 asks for");
        if (head->chunked && head->has_length)
                return bad(ret_fault, 400,
                           "Content-Length and Transfer-Encoding are given, and only one can tell "
                           "the end");
        if (head->chunked && head->http10)
                return bad(ret_fault, 400, "HTTP/1.0 has no Transfer-Encoding");
        if (head->length > limits->body_max || (head->chunked && limits->body_max == 0))
                return bad(ret_fault, 413, "the content is longer than is taken here");
        return 0;
}

/* The line that has just become whole, LF included. */
static int take_line(HttpHead *head, const HttpLimits *limits, bool *ret_whole,
                     HttpFault *ret_fault) {
        const char *s = head->bytes.data + head->line;
        size_t size = head->bytes.size - head->line;

        *ret_whole = false;
        if (size < 2 || s[size - 2] != '\r' || memchr(s, '\r', size - 2))
                return bad(ret_fault, 400, "a line ends with something else than CR LF");
        size -= 2;

        if (size == 0 && head->n_lines == 0 && !head->skipped_empty) {
                head->skipped_empty = true;
                strbuf_consume(&head->bytes, head->bytes.size);
                return 0;
        }
        head->line = head->bytes.size;
        if (size == 0 && head->n_lines > 0) {
                *ret_whole = true;
                return check_whole(head, limits, ret_fault);
        }
        if (head->n_lines++ == 0)
                return check_request_line(head, s, size, ret_fault);
        if (head->n_lines > limits->headers_max + 1)
                return bad(ret_fault, 431, "there are more fields than are taken here");
        return check_field(head, s, size, ret_fault);
}

int http_head_add(HttpHead *head, const HttpLimits *limits, const char *data, size_t size,
                  size_t *ret_used, HttpFault *ret_fault) {
        size_t used = 0;
        int r;

        while (used < size) {
                const char *newline = memchr(data + used, '\n', size - used);
                size_t n = newline ? (size_t) (newline - data) + 1 - used : size - used;
                bool whole = false;

                if (head->n_lines == 0 && head->bytes.size + n > limits->line_max)
                        return bad(ret_fault, 414, "the request line is longer than is taken here");
                if (head->bytes.size + n > limits->head_max)
                        return bad(ret_fault, 431, "the fields are longer than is taken here");
                if (has_control(data + used, n))
                        return bad(ret_fault, 400, "the request holds a control character");
                r = strbuf_append(&head->bytes, data + used, n);
                if (r < 0)
                        return error_trace(r);
                used += n;
                if (!newline)
                        break;

                r = take_line(head, limits, &whole, ret_fault);
                if (r != 0)
                        return r;
                if (whole) {
                        *ret_used = used;
                        return 0;
                }
        }
        *ret_used = used;
        return HTTP_HEAD_E_MORE;
}
