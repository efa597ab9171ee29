/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The scanner is one loop over the text with an explicit stack of open containers, so that no text
 * can exhaust the C stack. Nodes lie in chunks that never move; each byte is looked at once, but
 * for the member names, which are sorted when their object closes.
 */

#include "basic/json-scan.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "basic/error.h"
#include "basic/json-doc.h"
#include "basic/utf8.h"

#define CHUNK_NODES_MIN 16U
#define CHUNK_NODES_MAX 1024U
/* Up to this many members, comparing each with each beats sorting. */
#define PAIRWISE_MAX 8U

typedef struct Frame {
        JsonNode *node; /* an open array or object */
        JsonNode *last; /* its newest child */
} Frame;

typedef struct Scan {
        JsonDoc *doc;
        const char *text;
        size_t size, pos;
        size_t line_start; /* offset of the current line's first byte */
        uint32_t line;
        Frame stack[JSON_SCAN_DEPTH_MAX];
        size_t depth;
        size_t key_offset, key_size; /* of the member whose value comes next */
        JsonError *error;
} Scan;

/* --- errors --- */

_printf_(3, 4) static int scan_fail(Scan *s, size_t pos, const char *format, ...) {
        va_list ap;

        s->error->line = s->line;
        s->error->column = (uint32_t) (pos - s->line_start + 1);
        va_start(ap, format);
        (void) vsnprintf(s->error->text, sizeof(s->error->text), format, ap);
        va_end(ap);
        return JSON_SCAN_E_SYNTAX;
}

static int scan_fail_expected(Scan *s, const char *what) {
        unsigned char c;

        if (s->pos >= s->size)
                return scan_fail(s, s->pos, "expected %s, found the end of the text", what);

        c = (unsigned char) s->text[s->pos];
        if (c > 0x20 && c < 0x7f)
                return scan_fail(s, s->pos, "expected %s, found '%c'", what, c);
        return scan_fail(s, s->pos, "expected %s, found the byte 0x%02x", what, c);
}

/* Goes to a place, for a fault that is not seen in the order of the text. */
static void scan_rewind(Scan *s, size_t pos) {
        s->pos = pos;
        s->line = 1;
        s->line_start = 0;
        for (size_t i = 0; i < pos; i++)
                if (s->text[i] == '\n') {
                        s->line++;
                        s->line_start = i + 1;
                }
}

/* --- nodes --- */

static int doc_new_node(JsonDoc *doc, JsonNodeData **ret_node) {
        JsonChunk *chunk = doc->chunks;

        if (!chunk || chunk->n_nodes == chunk->n_max) {
                size_t n = chunk ? size_min(chunk->n_max * 2, CHUNK_NODES_MAX) : CHUNK_NODES_MIN;

                chunk = malloc(sizeof(JsonChunk) + n * sizeof(JsonNodeData));
                if (!chunk)
                        return error_origin(-ENOMEM);
                *chunk = (JsonChunk){.next = doc->chunks, .n_max = n};
                doc->chunks = chunk;
        }

        *ret_node = &chunk->nodes[chunk->n_nodes++];
        **ret_node = (JsonNodeData){};
        doc->n_nodes++;
        return 0;
}

/* Adds a node for the value at the current position to the innermost open container. */
static int scan_add(Scan *s, JsonType type, JsonNode **ret_node) {
        Frame *frame = s->depth > 0 ? &s->stack[s->depth - 1] : NULL;
        JsonNodeData *node = NULL;
        int r;

        if (s->doc->n_nodes >= JSON_SCAN_NODES_MAX)
                return scan_fail(s, s->pos, "more than %u values", JSON_SCAN_NODES_MAX);

        r = doc_new_node(s->doc, &node);
        if (r < 0)
                return error_trace(r);

        node->public.type = type;
        node->public.line = s->line;
        node->public.column = (uint32_t) (s->pos - s->line_start + 1);
        node->public.offset = s->pos;
        *ret_node = &node->public;

        if (!frame) {
                s->doc->root = &node->public;
                return 0;
        }

        node->public.parent = frame->node;
        if (frame->last)
                frame->last->next = &node->public;
        else
                frame->node->first = &node->public;
        frame->last = &node->public;
        frame->node->n_children++;
        if (frame->node->type != JSON_NODE_OBJECT)
                return 0;

        node->public.key_offset = s->key_offset;
        node->public.key_size = s->key_size;
        if (!memchr(s->text + s->key_offset, '\\', s->key_size))
                return 0;
        s->doc->has_keys = true;
        r = json_decode_string(s->text + s->key_offset - 1, s->key_size + 2, &node->key,
                               &node->key_size);
        return error_trace(r);
}

/* --- equal member names --- */

static int key_compare(const void *a, const void *b) {
        const JsonName *x = a, *y = b;
        int r;

        if (x->size != y->size)
                return x->size < y->size ? -1 : 1;
        r = memcmp(x->data, y->data, x->size);
        if (r != 0)
                return r;
        return x->node->offset < y->node->offset ? -1 : 1;
}

static const JsonNode *find_twin_pairwise(const JsonDoc *doc, const JsonNode *object) {
        for (const JsonNode *b = object->first; b; b = b->next) {
                JsonName key = json_node_name(doc, b);

                for (const JsonNode *a = object->first; a != b; a = a->next) {
                        JsonName other = json_node_name(doc, a);

                        if (json_name_equal(&key, &other))
                                return b;
                }
        }
        return NULL;
}

/* The first member, in the order of the text, whose name stood before. */
static int find_twin_sorted(const JsonDoc *doc, const JsonNode *object, const JsonNode **ret_twin) {
        _cleanup_(freep) JsonName *keys = NULL;
        const JsonNode *twin = NULL;
        size_t n = 0;

        keys = malloc(object->n_children * sizeof(JsonName));
        if (!keys)
                return error_origin(-ENOMEM);

        for (const JsonNode *child = object->first; child; child = child->next)
                keys[n++] = json_node_name(doc, child);
        qsort(keys, n, sizeof(JsonName), key_compare);
        for (size_t i = 1; i < n; i++)
                if (json_name_equal(&keys[i - 1], &keys[i]) &&
                    (!twin || keys[i].node->offset < twin->offset))
                        twin = keys[i].node;

        *ret_twin = twin;
        return 0;
}

static int scan_check_names(Scan *s, const JsonNode *object) {
        const JsonNode *twin = NULL;
        char name[61] = {};
        JsonName key;
        int r;

        if (object->n_children <= PAIRWISE_MAX)
                twin = find_twin_pairwise(s->doc, object);
        else {
                r = find_twin_sorted(s->doc, object, &twin);
                if (r < 0)
                        return error_trace(r);
        }
        if (!twin)
                return 0;

        key = json_node_name(s->doc, twin);
        (void) memcpy(name, key.data, size_min(key.size, sizeof(name) - 1));
        name[utf8_valid_size(name, size_min(key.size, sizeof(name) - 1))] = 0;
        scan_rewind(s, twin->key_offset - 1);
        return scan_fail(s, s->pos, "the member \"%s\" stands twice in one object", name);
}

/* --- tokens --- */

static void skip_space(Scan *s) {
        for (; s->pos < s->size; s->pos++)
                switch (s->text[s->pos]) {
                case '\n':
                        s->line++;
                        s->line_start = s->pos + 1;
                        break;
                case ' ':
                case '\t':
                case '\r':
                        break;
                default:
                        return;
                }
}

static bool at(const Scan *s, char c) {
        return s->pos < s->size && s->text[s->pos] == c;
}

static bool at_digit(const Scan *s) {
        return s->pos < s->size && s->text[s->pos] >= '0' && s->text[s->pos] <= '9';
}

static bool skip_digits(Scan *s) {
        if (!at_digit(s))
                return false;
        while (at_digit(s))
                s->pos++;
        return true;
}

static int scan_number(Scan *s) {
        if (at(s, '-'))
                s->pos++;

        if (at(s, '0')) {
                s->pos++;
                if (at_digit(s))
                        return scan_fail(s, s->pos - 1, "a number begins with a needless zero");
        } else if (!skip_digits(s))
                return scan_fail_expected(s, "a digit");

        if (at(s, '.')) {
                s->pos++;
                if (!skip_digits(s))
                        return scan_fail_expected(s, "a digit");
        }

        if (at(s, 'e') || at(s, 'E')) {
                s->pos++;
                if (at(s, '+') || at(s, '-'))
                        s->pos++;
                if (!skip_digits(s))
                        return scan_fail_expected(s, "a digit");
        }
        return 0;
}

/* Four hex digits at the current position. */
static int scan_hex4(Scan *s, unsigned *ret_value) {
        unsigned value = 0;

        for (size_t i = 0; i < 4; i++, s->pos++) {
                char c = s->pos < s->size ? s->text[s->pos] : 0;

                if (c >= '0' && c <= '9')
                        value = value << 4 | (unsigned) (c - '0');
                else if (c >= 'a' && c <= 'f')
                        value = value << 4 | (unsigned) (c - 'a' + 10);
                else if (c >= 'A' && c <= 'F')
                        value = value << 4 | (unsigned) (c - 'A' + 10);
                else
                        return scan_fail_expected(s, "four hex digits behind \\u");
        }

        *ret_value = value;
        return 0;
}

/* A \u escape, the position being behind the u; a surrogate only as half of a pair. */
static int scan_unicode_escape(Scan *s, bool is_name) {
        size_t begin = s->pos - 2;
        unsigned value, low = 0;
        int r;

        r = scan_hex4(s, &value);
        if (r != 0)
                return r;

        if (value == 0 && is_name)
                return scan_fail(s, begin, "a member name holds U+0000");
        if (value < 0xd800 || value > 0xdfff)
                return 0;

        if (value <= 0xdbff && at(s, '\\') && s->pos + 1 < s->size && s->text[s->pos + 1] == 'u') {
                s->pos += 2;
                r = scan_hex4(s, &low);
                if (r != 0)
                        return r;
        }
        if (low < 0xdc00 || low > 0xdfff)
                return scan_fail(s, begin, "\\u%04x is half of a surrogate pair and stands alone",
                                 value);
        return 0;
}

static int scan_escape(Scan *s, bool is_name) {
        s->pos++;
        if (s->pos >= s->size || !s->text[s->pos] || !strchr("\"\\/bfnrtu", s->text[s->pos]))
                return scan_fail_expected(s, "one of \" \\ / b f n r t u behind a backslash");
        if (s->text[s->pos++] != 'u')
                return 0;
        return scan_unicode_escape(s, is_name);
}

/* The position is that of the opening quote, afterwards behind the closing one. */
static int scan_string(Scan *s, bool is_name) {
        size_t begin = s->pos++;
        int r;

        while (s->pos < s->size) {
                unsigned char c = (unsigned char) s->text[s->pos];

                if (c == '"') {
                        s->pos++;
                        return 0;
                }
                if (c == '\\') {
                        r = scan_escape(s, is_name);
                        if (r != 0)
                                return r;
                } else if (c < 0x20)
                        return scan_fail(s, s->pos,
                                         "the byte 0x%02x in a string: write it as \\u%04x", c, c);
                else
                        s->pos++;
        }
        return scan_fail(s, begin, "a string that begins here has no closing quote");
}

static int scan_word(Scan *s, const char *word) {
        size_t n = strlen(word);

        if (s->size - s->pos < n || memcmp(s->text + s->pos, word, n) != 0)
                return scan_fail_expected(s, "a value");
        s->pos += n;
        return 0;
}

/* --- structure --- */

static int scan_name(Scan *s) {
        size_t begin;
        int r;

        skip_space(s);
        if (!at(s, '"'))
                return scan_fail_expected(s, "a member name in quotes");

        begin = s->pos + 1;
        r = scan_string(s, true);
        if (r != 0)
                return r;
        s->key_offset = begin;
        s->key_size = s->pos - 1 - begin;

        skip_space(s);
        if (!at(s, ':'))
                return scan_fail_expected(s, "':'");
        s->pos++;
        return 0;
}

static int scan_open(Scan *s, JsonType type) {
        JsonNode *node;
        int r;

        if (s->depth >= JSON_SCAN_DEPTH_MAX)
                return scan_fail(s, s->pos, "nested deeper than %u levels", JSON_SCAN_DEPTH_MAX);

        r = scan_add(s, type, &node);
        if (r != 0)
                return r;
        s->stack[s->depth++] = (Frame){.node = node};
        s->pos++;
        return 0;
}

static int scan_close(Scan *s) {
        JsonNode *node = s->stack[--s->depth].node;

        s->pos++;
        node->size = s->pos - node->offset;
        return node->type == JSON_NODE_OBJECT ? scan_check_names(s, node) : 0;
}

static int scan_scalar(Scan *s) {
        char c = s->text[s->pos];
        JsonType type;
        JsonNode *node;
        int r;

        type = c == '"'   ? JSON_NODE_STRING
               : c == 't' ? JSON_NODE_TRUE
               : c == 'f' ? JSON_NODE_FALSE
               : c == 'n' ? JSON_NODE_NULL
                          : JSON_NODE_NUMBER;
        if (type == JSON_NODE_NUMBER && c != '-' && !at_digit(s))
                return scan_fail_expected(s, "a value");

        r = scan_add(s, type, &node);
        if (r != 0)
                return r;

        if (type == JSON_NODE_STRING)
                r = scan_string(s, false);
        else if (type == JSON_NODE_NUMBER)
                r = scan_number(s);
        else
                r = scan_word(s, c == 't' ? "true" : c == 'f' ? "false" : "null");
        node->size = s->pos - node->offset;
        return r;
}

/* One value; of a container that is not empty only its beginning, up to its first value. */
static int scan_value(Scan *s, bool *ret_open) {
        bool object;
        int r;

        skip_space(s);
        *ret_open = false;
        if (s->pos >= s->size)
                return scan_fail_expected(s, "a value");

        object = at(s, '{');
        if (!object && !at(s, '['))
                return scan_scalar(s);

        r = scan_open(s, object ? JSON_NODE_OBJECT : JSON_NODE_ARRAY);
        if (r != 0)
                return r;
        skip_space(s);
        if (at(s, object ? '}' : ']'))
                return scan_close(s);

        *ret_open = true;
        return object ? scan_name(s) : 0;
}

/* What follows a whole value: closes containers, up to where the next value begins or to the end of
 * the outermost. */
static int scan_follow(Scan *s) {
        int r;

        while (s->depth > 0) {
                bool object = s->stack[s->depth - 1].node->type == JSON_NODE_OBJECT;

                skip_space(s);
                if (at(s, ',')) {
                        s->pos++;
                        return object ? scan_name(s) : 0;
                }
                if (!at(s, object ? '}' : ']'))
                        return scan_fail_expected(s, object ? "',' or '}'" : "',' or ']'");
                r = scan_close(s);
                if (r != 0)
                        return r;
        }
        return 0;
}

static int scan_text(Scan *s) {
        size_t valid;
        bool open;
        int r;

        if (s->size > UINT32_MAX)
                return scan_fail(s, 0, "the text is larger than 4 GiB");
        if (s->size >= 3 && memcmp(s->text, "\xef\xbb\xbf", 3) == 0)
                return scan_fail(s, 0, "the text begins with a byte order mark: save it without");

        valid = utf8_valid_size(s->text, s->size);
        if (valid < s->size) {
                scan_rewind(s, valid);
                return scan_fail(s, valid, "the byte 0x%02x is not valid UTF-8 here",
                                 (unsigned char) s->text[valid]);
        }

        do {
                r = scan_value(s, &open);
                if (r != 0)
                        return r;
                if (open)
                        continue;
                r = scan_follow(s);
                if (r != 0)
                        return r;
        } while (s->depth > 0);

        skip_space(s);
        return s->pos < s->size ? scan_fail_expected(s, "nothing behind the value") : 0;
}

int json_scan(const char *text, size_t size, JsonDoc **ret_doc, JsonError *ret_error) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        JsonError error = {};
        Scan s;
        int r;

        doc = malloc(sizeof(JsonDoc));
        if (!doc)
                return error_origin(-ENOMEM);
        *doc = (JsonDoc){.text = text, .size = size};

        s = (Scan){.doc = doc, .text = text, .size = size, .line = 1, .error = &error};
        r = scan_text(&s);
        if (r < 0)
                return error_trace(r);
        if (r > 0) {
                *ret_error = error;
                return JSON_SCAN_E_SYNTAX;
        }

        *ret_doc = TAKE_PTR(doc);
        return 0;
}
