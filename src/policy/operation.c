/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/operation.h"

#include <errno.h>
#include <string.h>

#include "basic/error.h"

const char *const operation_methods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", NULL};
const char *const operation_types[] = {"slug", "int", "uuid", "date", "enum", NULL};
const char *const operation_bodies[] = {"none", "json", "form", "raw", NULL};

_Static_assert(ELEMENTSOF(operation_methods) == _OPERATION_METHOD_MAX + 1, "a method has no word");
_Static_assert(ELEMENTSOF(operation_types) == _OPERATION_TYPE_MAX + 1, "a type has no word");
_Static_assert(ELEMENTSOF(operation_bodies) == _OPERATION_BODY_MAX + 1, "a body has no word");

void operation_parameter_done(OperationParameter *parameter) {
        free(parameter->name);
        strv_done(&parameter->words);
        *parameter = (OperationParameter){};
}

static void segment_done(OperationSegment *segment) {
        free(segment->literal);
        operation_parameter_done(&segment->parameter);
        *segment = (OperationSegment){};
}

void operation_done(Operation *operation) {
        for (size_t i = 0; i < operation->n_segments; i++)
                segment_done(&operation->segments[i]);
        for (size_t i = 0; i < operation->n_query; i++)
                operation_parameter_done(&operation->query[i]);
        free(operation->segments);
        free(operation->query);
        free(operation->name);
        free(operation->description);
        free(operation->path);
        *operation = (Operation){};
}

const OperationParameter *operation_find_parameter(const Operation *operation, const char *name) {
        for (size_t i = 0; i < operation->n_segments; i++)
                if (!operation->segments[i].literal &&
                    string_equal(operation->segments[i].parameter.name, name))
                        return &operation->segments[i].parameter;
        for (size_t i = 0; i < operation->n_query; i++)
                if (string_equal(operation->query[i].name, name))
                        return &operation->query[i];
        return NULL;
}

void operation_menu_done(OperationMenu *menu) {
        for (size_t i = 0; i < menu->n_items; i++)
                operation_done(&menu->items[i]);
        free(menu->items);
        *menu = (OperationMenu){};
}

static int compare_operations(const void *a, const void *b) {
        return strcmp(((const Operation *) a)->name, ((const Operation *) b)->name);
}

void operation_menu_sort(OperationMenu *menu) {
        if (menu->n_items > 0)
                qsort(menu->items, menu->n_items, sizeof(Operation), compare_operations);
}

const Operation *operation_menu_find(const OperationMenu *menu, const char *name) {
        for (size_t i = 0; i < menu->n_items; i++)
                if (string_equal(menu->items[i].name, name))
                        return &menu->items[i];
        return NULL;
}

bool operation_name_is_valid(const char *name) {
        size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");

        return n > 0 && n <= OPERATION_NAME_MAX && name[n] == 0 && *name >= 'a' && *name <= 'z';
}

/* --- values --- */

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

static bool is_unreserved(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '-' ||
               c == '_' || c == '.' || c == '~';
}

static bool is_slug(const char *text, size_t size) {
        if (size == 0 || size > OPERATION_SLUG_MAX)
                return false;
        for (size_t i = 0; i < size; i++)
                if (!is_unreserved(text[i]))
                        return false;
        return !(text[0] == '.' && (size == 1 || (size == 2 && text[1] == '.')));
}

/* One spelling for each number: no plus, no leading zero, no -0. */
static bool read_int(const char *text, size_t size, int64_t *ret_value) {
        bool negative = size > 0 && text[0] == '-';
        int64_t value = 0;

        if (negative) {
                text++;
                size--;
        }
        if (size == 0 || size > 18 || (text[0] == '0' && (size > 1 || negative)))
                return false;
        for (size_t i = 0; i < size; i++) {
                if (!is_digit(text[i]))
                        return false;
                value = value * 10 + (text[i] - '0');
        }
        *ret_value = negative ? -value : value;
        return true;
}

static bool is_uuid(const char *text, size_t size) {
        if (size != 36)
                return false;
        for (size_t i = 0; i < size; i++) {
                bool hyphen = i == 8 || i == 13 || i == 18 || i == 23;
                bool hex = is_digit(text[i]) || (text[i] >= 'a' && text[i] <= 'f') ||
                           (text[i] >= 'A' && text[i] <= 'F');

                if (hyphen ? text[i] != '-' : !hex)
                        return false;
        }
        return true;
}

static unsigned read_digits(const char *text, size_t size) {
        unsigned value = 0;

        for (size_t i = 0; i < size; i++)
                value = value * 10 + (unsigned) (text[i] - '0');
        return value;
}

static bool is_date(const char *text, size_t size) {
        static const unsigned days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
        unsigned year, month, day;
        bool leap;

        if (size != 10)
                return false;
        for (size_t i = 0; i < size; i++)
                if (i == 4 || i == 7 ? text[i] != '-' : !is_digit(text[i]))
                        return false;
        year = read_digits(text, 4);
        month = read_digits(text + 5, 2);
        day = read_digits(text + 8, 2);
        leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        return month >= 1 && month <= 12 && day >= 1 &&
               day <= days[month - 1] + (month == 2 && leap ? 1U : 0U);
}

bool operation_value_is_valid(const OperationParameter *parameter, const char *text, size_t size) {
        int64_t value;

        switch (parameter->type) {
        case OPERATION_SLUG:
                return is_slug(text, size);
        case OPERATION_INT:
                return read_int(text, size, &value) && value >= parameter->minimum &&
                       value <= parameter->maximum;
        case OPERATION_UUID:
                return is_uuid(text, size);
        case OPERATION_DATE:
                return is_date(text, size);
        case OPERATION_ENUM:
                for (size_t i = 0; i < parameter->words.n_items; i++)
                        if (strlen(parameter->words.items[i]) == size &&
                            memcmp(parameter->words.items[i], text, size) == 0)
                                return true;
                return false;
        default:
                return false;
        }
}

/* --- templates --- */

static int refuse(const char *text, const char **ret_text) {
        *ret_text = text;
        return OPERATION_E_TEMPLATE;
}

static int parse_words(const char *text, size_t size, OperationParameter *parameter,
                       const char **ret_text) {
        size_t from = 0;
        int r;

        for (size_t i = 0; i <= size; i++) {
                if (i < size && text[i] != '|')
                        continue;
                if (!is_slug(text + from, i - from))
                        return refuse("an enum is words of letters, digits, -, _, . and ~ with | "
                                      "between them, such as enum(open|closed)",
                                      ret_text);
                if (operation_value_is_valid(parameter, text + from, i - from))
                        return refuse("an enum has a word twice", ret_text);
                r = strv_append_n(&parameter->words, text + from, i - from);
                if (r < 0)
                        return error_trace(r);
                from = i + 1;
        }
        return 0;
}

int operation_type_parse(const char *text, size_t size, OperationParameter *parameter,
                         const char **ret_text) {
        parameter->minimum = 0;
        parameter->maximum = INT64_MAX;
        for (OperationType type = 0; type < OPERATION_ENUM; type++)
                if (strlen(operation_types[type]) == size &&
                    memcmp(operation_types[type], text, size) == 0) {
                        parameter->type = type;
                        return 0;
                }
        if (size > 6 && memcmp(text, "enum(", 5) == 0 && text[size - 1] == ')') {
                parameter->type = OPERATION_ENUM;
                return parse_words(text + 5, size - 6, parameter, ret_text);
        }
        return refuse("there is no such type of a parameter: give slug, int, uuid, date or "
                      "enum(WORD|WORD)",
                      ret_text);
}

static bool is_parameter_name(const char *text, size_t size) {
        if (size == 0 || size > OPERATION_NAME_MAX)
                return false;
        for (size_t i = 0; i < size; i++)
                if (!is_unreserved(text[i]) || text[i] == '~')
                        return false;
        return true;
}

/* What stands in a path as it is: all that RFC 3986 allows there without encoding, but for the ;
 * that some servers cut a path at. */
static bool is_literal(const char *text, size_t size) {
        for (size_t i = 0; i < size; i++)
                if (!is_unreserved(text[i]) && (text[i] == 0 || !strchr("!$&'()*+,=:@", text[i])))
                        return false;
        return size <= OPERATION_SLUG_MAX &&
               !(size > 0 && text[0] == '.' && (size == 1 || (size == 2 && text[1] == '.')));
}

static int parse_parameter(const char *text, size_t size, OperationParameter *parameter,
                           const char **ret_text) {
        const char *colon = memchr(text, ':', size);
        size_t n = colon ? (size_t) (colon - text) : 0;

        if (!is_parameter_name(text, n))
                return refuse("a parameter is {NAME:TYPE}, and fills all between two slashes",
                              ret_text);
        parameter->name = strndup(text, n);
        if (!parameter->name)
                return error_origin(-ENOMEM);
        parameter->required = true;
        return operation_type_parse(colon + 1, size - n - 1, parameter, ret_text);
}

int operation_segment_parse(const char *text, size_t size, OperationSegment *ret_segment,
                            const char **ret_text) {
        OperationSegment segment = {};
        int r = 0;

        if (size > 2 && text[0] == '{' && text[size - 1] == '}')
                r = parse_parameter(text + 1, size - 2, &segment.parameter, ret_text);
        else if (memchr(text, '{', size) || memchr(text, '}', size))
                r = refuse("a parameter is {NAME:TYPE}, and fills all between two slashes",
                           ret_text);
        else if (!is_literal(text, size))
                r = refuse("between its slashes a path has at most 128 of letters, digits and "
                           "-_.~!$&'()*+,=:@, and neither . nor ..",
                           ret_text);
        else {
                segment.literal = strndup(text, size);
                if (!segment.literal)
                        r = error_origin(-ENOMEM);
        }
        if (r != 0) {
                segment_done(&segment);
                return r;
        }
        *ret_segment = segment;
        return 0;
}

static int add_segment(Operation *operation, const char *text, size_t size, const char **ret_text) {
        OperationSegment segment = {};
        int r;

        if (operation->n_segments >= OPERATION_SEGMENTS_MAX)
                return refuse("a path has at most 32 parts", ret_text);
        r = operation_segment_parse(text, size, &segment, ret_text);
        if (r != 0)
                return r;
        /* It would be one value to whoever calls it as a tool. */
        if (!segment.literal && operation_find_parameter(operation, segment.parameter.name)) {
                segment_done(&segment);
                return refuse("a path has two parameters of one name", ret_text);
        }
        operation->segments[operation->n_segments++] = segment;
        return 0;
}

int operation_path_parse(const char *text, Operation *operation, const char **ret_text) {
        int r;

        if (text[0] != '/')
                return refuse("a path begins with a slash", ret_text);
        if (strstr(text, "//"))
                return refuse("a path has no two slashes in a row", ret_text);
        operation->segments = calloc(OPERATION_SEGMENTS_MAX, sizeof(OperationSegment));
        operation->path = strdup(text);
        if (!operation->segments || !operation->path)
                return error_origin(-ENOMEM);

        /* The last part is empty behind a slash at the end, which is a path of its own. */
        for (text++;; text++) {
                size_t size = strcspn(text, "/");

                r = add_segment(operation, text, size, ret_text);
                if (r != 0)
                        return r;
                text += size;
                if (!*text)
                        return 0;
        }
}

/* --- two that could be one --- */

static bool word_matches(const StrV *words, const OperationParameter *other) {
        for (size_t i = 0; i < words->n_items; i++)
                if (operation_value_is_valid(other, words->items[i], strlen(words->items[i])))
                        return true;
        return false;
}

static bool parameters_overlap(const OperationParameter *a, const OperationParameter *b) {
        if (a->type == OPERATION_ENUM)
                return word_matches(&a->words, b);
        if (b->type == OPERATION_ENUM)
                return word_matches(&b->words, a);
        if (a->type == OPERATION_INT && b->type == OPERATION_INT)
                return a->minimum <= b->maximum && b->minimum <= a->maximum;
        /* Every value of the other types is a slug, and is of no third type. */
        return a->type == b->type || a->type == OPERATION_SLUG || b->type == OPERATION_SLUG;
}

static bool segments_overlap(const OperationSegment *a, const OperationSegment *b) {
        if (a->literal && b->literal)
                return string_equal(a->literal, b->literal);
        if (a->literal)
                return operation_value_is_valid(&b->parameter, a->literal, strlen(a->literal));
        if (b->literal)
                return operation_value_is_valid(&a->parameter, b->literal, strlen(b->literal));
        return parameters_overlap(&a->parameter, &b->parameter);
}

bool operation_overlaps(const Operation *a, const Operation *b) {
        if (a->method != b->method || a->n_segments != b->n_segments)
                return false;
        for (size_t i = 0; i < a->n_segments; i++)
                if (!segments_overlap(&a->segments[i], &b->segments[i]))
                        return false;
        return true;
}
