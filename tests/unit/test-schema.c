/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "basic/string-util.h"
#include "schema/schema.h"
#include "tests/unit/suite.h"

static JsonDoc *scan(const char *text) {
        JsonDoc *doc = NULL;
        JsonError error = {};
        int r = json_scan(text, strlen(text), &doc, &error);

        ck_assert_msg(r == 0, "%s: %u:%u: %s", text, error.line, error.column, error.text);
        return doc;
}

static Schema *compile(const char *text) {
        _cleanup_(json_doc_freep) JsonDoc *doc = scan(text);
        Schema *schema = NULL;
        DiagList diags = DIAG_LIST_NULL;
        int r = schema_compile(doc, json_doc_root(doc), "t.json", &diags, &schema);

        if (r != 0) {
                _cleanup_(freep) char *line = diag_format(&diags.items[0]);

                ck_abort_msg("%s: %s", text, line);
        }
        return schema;
}

/* The text of the refusal, or NULL. */
static char *check_text(const Schema *schema, const char *value) {
        _cleanup_(json_doc_freep) JsonDoc *doc = value ? scan(value) : NULL;
        _cleanup_(schema_reason_done) SchemaReason reason = SCHEMA_REASON_NULL;
        char *text;
        int r;

        r = schema_check(schema, doc, doc ? json_doc_root(doc) : NULL, &reason);
        ck_assert_int_ge(r, 0);
        if (r == 0) {
                ck_assert_ptr_null(reason.path);
                return NULL;
        }
        ck_assert_int_eq(r, SCHEMA_E_REFUSED);
        text = schema_reason_text(&reason, "the value");
        ck_assert_ptr_nonnull(text);
        return text;
}

/* --- keywords, both ways --- */

typedef struct Case {
        const char *schema, *value;
        const char *refusal; /* NULL: the value is good */
} Case;

static const Case cases[] = {
        {"true", "1", NULL},
        {"false", "1", "the value must not be given (t.json:1:1: false)"},
        {"{}", "[{}]", NULL},

        {"{\"type\":\"null\"}", "null", NULL},
        {"{\"type\":\"null\"}", "0", "the value must be of type null (t.json:1:9: type)"},
        {"{\"type\":\"boolean\"}", "true", NULL},
        {"{\"type\":\"boolean\"}", "false", NULL},
        {"{\"type\":\"boolean\"}", "0", "the value must be of type boolean (t.json:1:9: type)"},
        {"{\"type\":\"integer\"}", "9223372036854775808", NULL},
        {"{\"type\":\"integer\"}", "1.0", NULL},
        {"{\"type\":\"integer\"}", "1e2", NULL},
        {"{\"type\":\"integer\"}", "120e-1", NULL},
        {"{\"type\":\"integer\"}", "0e-99999999999999999999", NULL},
        {"{\"type\":\"integer\"}", "1.5", "the value must be of type integer (t.json:1:9: type)"},
        {"{\"type\":\"integer\"}", "1e-1", "the value must be of type integer (t.json:1:9: type)"},
        {"{\"type\":\"integer\"}", "\"1\"", "the value must be of type integer (t.json:1:9: type)"},
        {"{\"type\":\"integer\"}", "1e123456789012345678",
         "the value must have an exponent of at most 17 digits (t.json:1:9: type)"},
        {"{\"type\":\"number\"}", "1.5", NULL},
        {"{\"type\":\"number\"}", "1e123456789012345678", NULL},
        {"{\"type\":\"number\"}", "[]", "the value must be of type number (t.json:1:9: type)"},
        {"{\"type\":\"string\"}", "\"\"", NULL},
        {"{\"type\":\"string\"}", "{}", "the value must be of type string (t.json:1:9: type)"},
        {"{\"type\":\"array\"}", "[]", NULL},
        {"{\"type\":\"array\"}", "{}", "the value must be of type array (t.json:1:9: type)"},
        {"{\"type\":\"object\"}", "{}", NULL},
        {"{\"type\":\"object\"}", NULL, NULL},
        {"{\"type\":\"object\"}", "[]", "the value must be of type object (t.json:1:9: type)"},
        {"{\"type\":[\"string\",\"null\",\"integer\"]}", "null", NULL},
        {"{\"type\":[\"string\",\"null\",\"integer\"]}", "true",
         "the value must be of type null, integer or string (t.json:1:9: type)"},

        {"{\"enum\":[1,\"a\",null,{\"x\":[1]}]}", "1.0", NULL},
        {"{\"enum\":[1,\"a\",null,{\"x\":[1]}]}", "\"\\u0061\"", NULL},
        {"{\"enum\":[1,\"a\",null,{\"x\":[1]}]}", "{\"x\":[10e-1]}", NULL},
        {"{\"enum\":[1,\"a\",null]}", "\"A\"",
         "the value must be one of [1,\"a\",null] (t.json:1:9: enum)"},
        {"{\"enum\":[\n\t\"a b\",\n {\"c\" : 1}\n]}", "0",
         "the value must be one of [\"a b\",{\"c\":1}] (t.json:1:9: enum)"},
        {"{\"enum\":[[false]]}", "[0]", "the value must be one of [[false]] (t.json:1:9: enum)"},
        {"{\"const\":9007199254740993}", "9007199254740993", NULL},
        {"{\"const\":9007199254740993}", "9007199254740992",
         "the value must be 9007199254740993 (t.json:1:10: const)"},
        {"{\"const\":{\"a\":1,\"b\":[]}}", "{\"b\":[],\"a\":1e0}", NULL},
        {"{\"const\":{\"a\":1}}", "{\"a\":1,\"b\":1}",
         "the value must be {\"a\":1} (t.json:1:10: const)"},
        {"{\"const\":{\"a\":1}}", "{\"b\":1}", "the value must be {\"a\":1} (t.json:1:10: const)"},
        {"{\"const\":{}}", NULL, NULL},
        {"{\"const\":null}", "null", NULL},
        {"{\"const\":null}", "false", "the value must be null (t.json:1:10: const)"},

        {"{\"minimum\":9223372036854775808}", "9223372036854775808", NULL},
        {"{\"minimum\":9223372036854775808}", "9223372036854775807",
         "the value must be at least 9223372036854775808 (t.json:1:12: minimum)"},
        {"{\"minimum\":-1}", "-0.999", NULL},
        {"{\"minimum\":-1}", "-1.001", "the value must be at least -1 (t.json:1:12: minimum)"},
        {"{\"minimum\":-1}", "\"-2\"", NULL},
        {"{\"minimum\":0}", "-0", NULL},
        {"{\"maximum\":1e2}", "100", NULL},
        {"{\"maximum\":1e2}", "100.0000000000000000000000000001",
         "the value must be at most 1e2 (t.json:1:12: maximum)"},
        {"{\"maximum\":0.1}", "1e-1", NULL},
        {"{\"maximum\":0}", "1e-99999999999999999",
         "the value must be at most 0 (t.json:1:12: maximum)"},
        {"{\"maximum\":0}", "1e-999999999999999999",
         "the value must have an exponent of at most 17 digits (t.json:1:12: maximum)"},
        {"{\"exclusiveMinimum\":1}", "1.1", NULL},
        {"{\"exclusiveMinimum\":1}", "1.0",
         "the value must be more than 1 (t.json:1:21: exclusiveMinimum)"},
        {"{\"exclusiveMaximum\":1}", "0.9", NULL},
        {"{\"exclusiveMaximum\":1}", "1",
         "the value must be less than 1 (t.json:1:21: exclusiveMaximum)"},
        {"{\"multipleOf\":0.01}", "19.99", NULL},
        {"{\"multipleOf\":0.01}", "1e300", NULL},
        {"{\"multipleOf\":0.01}", "19.999",
         "the value must be a multiple of 0.01 (t.json:1:15: multipleOf)"},
        {"{\"multipleOf\":7}", "0", NULL},
        {"{\"multipleOf\":7}", "-700000000000000000000000000000", NULL},
        {"{\"multipleOf\":7}", "1e40",
         "the value must be a multiple of 7 (t.json:1:15: multipleOf)"},
        {"{\"multipleOf\":25e-1}", "5", NULL},
        {"{\"multipleOf\":10}", "15",
         "the value must be a multiple of 10 (t.json:1:15: multipleOf)"},

        {"{\"minLength\":2}", "\"\\ud83d\\ude00\xc3\xa9\"", NULL},
        {"{\"minLength\":2}", "\"\\ud83d\\ude00\"",
         "the value must have at least 2 characters (t.json:1:14: minLength)"},
        {"{\"minLength\":2}", "1", NULL},
        {"{\"maxLength\":2.0}", "\"\xe4\xba\xba\\n\"", NULL},
        {"{\"maxLength\":1}", "\"ab\"",
         "the value must have at most 1 character (t.json:1:14: maxLength)"},
        {"{\"maxLength\":0}", "\"\"", NULL},
        {"{\"pattern\":\"b\"}", "\"abc\"", NULL},
        {"{\"pattern\":\"^b\"}", "\"abc\"",
         "the value must match the pattern \"^b\" (t.json:1:12: pattern)"},
        {"{\"pattern\":\"^b\"}", "[]", NULL},
        {"{\"pattern\":\"^[a-z]+$\"}", "\"abc\\n\"",
         "the value must match the pattern \"^[a-z]+$\" (t.json:1:12: pattern)"},
        {"{\"pattern\":\"^[a-z]+$\"}", "\"a\\nrm\"",
         "the value must match the pattern \"^[a-z]+$\" (t.json:1:12: pattern)"},
        {"{\"pattern\":\"^..$\"}", "\"\\ud83d\\ude00\xc3\xa9\"", NULL},
        {"{\"pattern\":\"^a\\\\x00b$\"}", "\"a\\u0000b\"", NULL},
        {"{\"pattern\":\"^a$\"}", "\"a\\u0000b\"",
         "the value must match the pattern \"^a$\" (t.json:1:12: pattern)"},
        {"{\"pattern\":\"^\\\\d$\"}", "\"\xd9\xa1\"",
         "the value must match the pattern \"^\\\\d$\" (t.json:1:12: pattern)"},

        {"{\"items\":{\"type\":\"string\"}}", "[\"a\",\"b\"]", NULL},
        {"{\"items\":{\"type\":\"string\"}}", "[\"a\",2]",
         "[1] must be of type string (t.json:1:18: type)"},
        {"{\"items\":false}", "[]", NULL},
        {"{\"items\":false}", "[1]", "[0] must not be given (t.json:1:10: false)"},
        {"{\"items\":false}", "{\"a\":1}", NULL},
        {"{\"minItems\":1}", "[1]", NULL},
        {"{\"minItems\":1}", "[]", "the value must have at least 1 item (t.json:1:13: minItems)"},
        {"{\"maxItems\":1}", "[1]", NULL},
        {"{\"maxItems\":1}", "[1,2]", "the value must have at most 1 item (t.json:1:13: maxItems)"},
        {"{\"uniqueItems\":true}", "[1,\"1\",[1],{\"a\":1},{\"a\":2},true,null,false,0]", NULL},
        {"{\"uniqueItems\":true}", "[1,2,1.0]",
         "the value must have no two equal items (t.json:1:16: uniqueItems)"},
        {"{\"uniqueItems\":true}", "[{\"a\":1,\"b\":2},3,{\"b\":2,\"a\":1}]",
         "the value must have no two equal items (t.json:1:16: uniqueItems)"},
        {"{\"uniqueItems\":true}", "[\"a\",\"\\u0061\"]",
         "the value must have no two equal items (t.json:1:16: uniqueItems)"},
        {"{\"uniqueItems\":true}", "[1,1e123456789012345678]",
         "the value must have an exponent of at most 17 digits (t.json:1:16: uniqueItems)"},
        {"{\"uniqueItems\":false}", "[1,1]", NULL},

        {"{\"properties\":{\"a\":{\"maximum\":3}}}", "{\"a\":3,\"b\":9}", NULL},
        {"{\"properties\":{\"a\":{\"maximum\":3}}}", "{\"b\":9,\"a\":4}",
         "a must be at most 3 (t.json:1:31: maximum)"},
        {"{\"properties\":{\"a\":{\"maximum\":3}}}", "{\"\\u0061\":4}",
         "a must be at most 3 (t.json:1:31: maximum)"},
        {"{\"properties\":{\"\\u0061\":{\"maximum\":3}}}", "{\"a\":4}",
         "a must be at most 3 (t.json:1:36: maximum)"},
        {"{\"properties\":{\"a\":false}}", "{\"a\":4}", "a must not be given (t.json:1:20: false)"},
        {"{\"properties\":{\"a\":{\"properties\":{\"b\":{\"items\":{\"const\":1}}}}}}",
         "{\"a\":{\"b\":[1,1,2]}}", "a.b[2] must be 1 (t.json:1:57: const)"},
        {"{\"properties\":{\"a\":false}}", "[]", NULL},
        {"{\"required\":[\"a\",\"\\u0062\"]}", "{\"b\":1,\"a\":null}", NULL},
        {"{\"required\":[\"b\",\"a\"]}", "{\"c\":1}",
         "the value must have the member \"b\" (t.json:1:13: required)"},
        {"{\"required\":[\"b\",\"a\"],\"properties\":{\"a\":true}}", "{\"b\":1}",
         "the value must have the member \"a\" (t.json:1:13: required)"},
        {"{\"required\":[\"a\"]}", NULL,
         "the value must have the member \"a\" (t.json:1:13: required)"},
        {"{\"required\":[]}", "{}", NULL},
        {"{\"required\":[\"a\"]}", "1", NULL},
        {"{\"additionalProperties\":false,\"properties\":{\"a\":true}}", "{\"a\":1}", NULL},
        {"{\"additionalProperties\":false,\"properties\":{\"a\":true}}", "{\"a\":1,\"b\":1}",
         "b must not be given (t.json:1:25: additionalProperties)"},
        {"{\"additionalProperties\":false,\"required\":[\"a\"]}", "{\"a\":1}",
         "a must not be given (t.json:1:25: additionalProperties)"},
        {"{\"additionalProperties\":{\"type\":\"string\"}}", "{\"a\":\"\"}", NULL},
        {"{\"additionalProperties\":{\"type\":\"string\"}}", "{\"a\":1}",
         "a must be of type string (t.json:1:33: type)"},

        {"{\"allOf\":[{\"minimum\":1},{\"maximum\":3}]}", "2", NULL},
        {"{\"allOf\":[{\"minimum\":1},{\"maximum\":3}]}", "4",
         "the value must be at most 3 (t.json:1:36: maximum)"},
        {"{\"anyOf\":[{\"maximum\":1},{\"minimum\":3}]}", "3", NULL},
        {"{\"anyOf\":[{\"maximum\":1},{\"minimum\":3}]}", "1", NULL},
        {"{\"anyOf\":[{\"maximum\":1},{\"minimum\":3}]}", "2",
         "the value must fit one of 2 schemas (t.json:1:10: anyOf)"},
        {"{\"oneOf\":[{\"minimum\":1},{\"minimum\":3}]}", "2", NULL},
        {"{\"oneOf\":[{\"minimum\":1},{\"minimum\":3}]}", "3",
         "the value must fit exactly one of 2 schemas (t.json:1:10: oneOf)"},
        {"{\"oneOf\":[{\"minimum\":1},{\"minimum\":3}]}", "0",
         "the value must fit exactly one of 2 schemas (t.json:1:10: oneOf)"},
        {"{\"not\":{\"const\":1}}", "2", NULL},
        {"{\"not\":{\"const\":1}}", "1",
         "the value must be other than the schema describes (t.json:1:8: not)"},
        {"{\"not\":{\"not\":{\"const\":1}}}", "1", NULL},

        {"{\"$ref\":\"#/$defs/x\",\"$defs\":{\"x\":{\"maximum\":1}}}", "1", NULL},
        {"{\"$ref\":\"#/$defs/x\",\"$defs\":{\"x\":{\"maximum\":1}}}", "2",
         "the value must be at most 1 (t.json:1:45: maximum)"},
        {"{\"$ref\":\"#/definitions/x\",\"definitions\":{\"x\":{\"maximum\":1}}}", "2",
         "the value must be at most 1 (t.json:1:57: maximum)"},
        {"{\"properties\":{\"a\":{\"$ref\":\"#\"},\"v\":{\"type\":\"string\"}}}",
         "{\"a\":{\"a\":{\"v\":\"\"}}}", NULL},
        {"{\"properties\":{\"a\":{\"$ref\":\"#\"},\"v\":{\"type\":\"string\"}}}",
         "{\"a\":{\"a\":{\"v\":1}}}", "a.a.v must be of type string (t.json:1:45: type)"},
        {"{\"$ref\":\"#/$defs/a%20b~1~0\",\"$defs\":{\"a b/~\":false}}", "1",
         "the value must not be given (t.json:1:46: false)"},
        {"{\"allOf\":[true,false],\"not\":{\"$ref\":\"#/allOf/1\"}}", "1",
         "the value must not be given (t.json:1:16: false)"},
        {"{\"$defs\":{\"never\":false}}", "1", NULL},
        {"{\"$defs\":{\"\":{\"const\":1}},\"$ref\":\"#/$defs/\"}", "2",
         "the value must be 1 (t.json:1:23: const)"},

        {"{\"title\":1,\"description\":1,\"default\":1,\"examples\":1,\"$schema\":1,\"$comment\":"
         "1}",
         "2", NULL},
        {"{\"\\u0074ype\":\"string\"}", "2",
         "the value must be of type string (t.json:1:14: type)"},
};

START_TEST(test_case) {
        const Case *c = &cases[_i];
        _cleanup_(schema_freep) Schema *schema = compile(c->schema);
        _cleanup_(freep) char *text = check_text(schema, c->value);

        ck_assert_msg(string_equal(text, c->refusal), "%s with %s: %s", c->schema,
                      c->value ?: "nothing", text ?: "good");
}
END_TEST

/* --- faults --- */

#define SUPPORTED                                                                                  \
        "; supported are type, enum, const, minimum, maximum, exclusiveMinimum, "                  \
        "exclusiveMaximum, multipleOf, minLength, maxLength, pattern, items, minItems, maxItems, " \
        "uniqueItems, properties, required, additionalProperties, allOf, anyOf, oneOf, not, "      \
        "$ref, $defs and definitions"
#define TYPES                                                                                      \
        "is no type; give \"null\", \"boolean\", \"integer\", \"number\", \"string\", \"array\" "  \
        "or \"object\""
#define EMPTY                                                                                      \
        "the list is empty, so that nothing would be allowed: give an entry, or the schema false"
#define DEFINE "define it below $defs and refer by \"#/$defs/NAME\""
#define LOOP                                                                                       \
        "leads back to itself before anything was looked at; let the way pass through "            \
        "properties or items, or leave it out"

typedef struct Fault {
        const char *schema;
        const char *diags[4];
} Fault;

static const Fault faults[] = {
        {"1", {"t.json:1:1: 1 is no schema; give an object ({…}), true or false"}},
        {"[]", {"t.json:1:1: [] is no schema; give an object ({…}), true or false"}},
        {"{\"if\":{}}", {"t.json:1:7: if: unsupported keyword \"if\"" SUPPORTED}},
        {"{\"format\":\"uri\"}", {"t.json:1:11: format: unsupported keyword \"format\"" SUPPORTED}},
        {"{\"Type\":\"string\"}", {"t.json:1:9: Type: unsupported keyword \"Type\"" SUPPORTED}},
        {"{\"$id\":\"x\"}",
         {"t.json:1:8: $id: $id is refused, since references stay within the schema: leave it out, "
          "and refer by \"#/$defs/NAME\""}},
        {"{\"type\":\"int\"}", {"t.json:1:9: type: \"int\" " TYPES}},
        {"{\"type\":1}", {"t.json:1:9: type: 1 " TYPES}},
        {"{\"type\":[]}", {"t.json:1:9: type: " EMPTY}},
        {"{\"type\":[\"string\",\"strin\",\"string\"]}",
         {"t.json:1:19: type[1]: \"strin\" " TYPES,
          "t.json:1:27: type[2]: \"string\" stands twice; leave one out"}},
        {"{\"enum\":1}", {"t.json:1:9: enum: 1 is no array ([…])"}},
        {"{\"enum\":[]}", {"t.json:1:9: enum: " EMPTY}},
        {"{\"minimum\":\"1\",\"maximum\":null,\"exclusiveMinimum\":true,\"exclusiveMaximum\":[]}",
         {"t.json:1:12: minimum: \"1\" is no number", "t.json:1:26: maximum: null is no number",
          "t.json:1:50: exclusiveMinimum: true is no number",
          "t.json:1:74: exclusiveMaximum: [] is no number"}},
        {"{\"minimum\":1e123456789012345678}",
         {"t.json:1:12: minimum: 1e123456789012345678 has an exponent of more than 17 digits; give "
          "fewer"}},
        {"{\"multipleOf\":0}",
         {"t.json:1:15: multipleOf: 0 is no number above 0 with at most 18 significant digits"}},
        {"{\"multipleOf\":-1}",
         {"t.json:1:15: multipleOf: -1 is no number above 0 with at most 18 significant digits"}},
        {"{\"multipleOf\":1234567890123456789}",
         {"t.json:1:15: multipleOf: 1234567890123456789 is no number above 0 with at most 18 "
          "significant digits"}},
        {"{\"multipleOf\":{}}", {"t.json:1:15: multipleOf: {} is no number"}},
        {"{\"minLength\":-1,\"maxLength\":1.5,\"minItems\":\"1\",\"maxItems\":1e20}",
         {"t.json:1:14: minLength: -1 is no whole number from 0 to 2^64 - 1",
          "t.json:1:29: maxLength: 1.5 is no whole number from 0 to 2^64 - 1",
          "t.json:1:44: minItems: \"1\" is no whole number from 0 to 2^64 - 1",
          "t.json:1:59: maxItems: 1e20 is no whole number from 0 to 2^64 - 1"}},
        {"{\"pattern\":1}", {"t.json:1:12: pattern: 1 is no string"}},
        {"{\"pattern\":\"a(b\"}",
         {"t.json:1:12: pattern: the pattern is no regular expression: missing closing "
          "parenthesis, at byte 3 of it"}},
        {"{\"pattern\":\"\\\\C\"}",
         {"t.json:1:12: pattern: the pattern is no regular expression: using \\C is disabled by "
          "the application, at byte 2 of it"}},
        {"{\"items\":[{}]}",
         {"t.json:1:10: items: a list of schemas, one for each place, is not supported; give one "
          "schema for all items"}},
        {"{\"items\":1}",
         {"t.json:1:10: items: 1 is no schema; give an object ({…}), true or false"}},
        {"{\"uniqueItems\":1}", {"t.json:1:16: uniqueItems: 1 is neither true nor false"}},
        {"{\"properties\":[]}", {"t.json:1:15: properties: [] is no object ({…})"}},
        {"{\"properties\":{\"a b\":1}}",
         {"t.json:1:22: properties.a b: 1 is no schema; give an object ({…}), true or false"}},
        {"{\"required\":\"a\"}", {"t.json:1:13: required: \"a\" is no array ([…])"}},
        {"{\"required\":[1]}", {"t.json:1:14: required[0]: 1 is no string"}},
        {"{\"required\":[\"a\",\"b\",\"\\u0061\"]}",
         {"t.json:1:22: required[2]: \"\\u0061\" stands twice; leave one out"}},
        {"{\"additionalProperties\":0}",
         {"t.json:1:25: additionalProperties: 0 is no schema; give an object ({…}), true or "
          "false"}},
        {"{\"allOf\":[],\"anyOf\":{},\"oneOf\":[1],\"not\":null}",
         {"t.json:1:10: allOf: " EMPTY, "t.json:1:21: anyOf: {} is no array ([…])",
          "t.json:1:33: oneOf[0]: 1 is no schema; give an object ({…}), true or false",
          "t.json:1:42: not: null is no schema; give an object ({…}), true or false"}},
        {"{\"$defs\":[],\"definitions\":{\"a\":1}}",
         {"t.json:1:10: $defs: [] is no object ({…})",
          "t.json:1:32: definitions.a: 1 is no schema; give an object ({…}), true or false"}},

        {"{\"$ref\":1}", {"t.json:1:9: $ref: 1 is no string"}},
        {"{\"$ref\":\"http://x/y\"}",
         {"t.json:1:9: $ref: \"http://x/y\" leads out of the schema; " DEFINE}},
        {"{\"$ref\":\"\"}", {"t.json:1:9: $ref: \"\" leads out of the schema; " DEFINE}},
        {"{\"$ref\":\"#x\"}", {"t.json:1:9: $ref: \"#x\" is no JSON pointer; " DEFINE}},
        {"{\"$ref\":\"#/~2\"}", {"t.json:1:9: $ref: \"#/~2\" is no JSON pointer; " DEFINE}},
        {"{\"$ref\":\"#/~\"}", {"t.json:1:9: $ref: \"#/~\" is no JSON pointer; " DEFINE}},
        {"{\"$ref\":\"#/%4\"}", {"t.json:1:9: $ref: \"#/%4\" is no JSON pointer; " DEFINE}},
        {"{\"$ref\":\"#/%gg\"}", {"t.json:1:9: $ref: \"#/%gg\" is no JSON pointer; " DEFINE}},
        {"{\"$ref\":\"#/$defs/x\"}", {"t.json:1:9: $ref: \"#/$defs/x\" leads to nothing; " DEFINE}},
        {"{\"allOf\":[{\"$ref\":\"#/allOf/01\"},{\"$ref\":\"#/allOf/9\"}]}",
         {"t.json:1:19: allOf[0].$ref: \"#/allOf/01\" leads to nothing; " DEFINE,
          "t.json:1:41: allOf[1].$ref: \"#/allOf/9\" leads to nothing; " DEFINE}},
        {"{\"$ref\":\"#/$defs\",\"$defs\":{}}",
         {"t.json:1:9: $ref: \"#/$defs\" leads to what is no schema; " DEFINE}},
        {"{\"$ref\":\"#/default\",\"default\":{}}",
         {"t.json:1:9: $ref: \"#/default\" leads to what is no schema; " DEFINE}},
        {"{\"$ref\":\"#\"}", {"t.json:1:9: $ref: \"#\" " LOOP}},
        {"{\"allOf\":[{\"$ref\":\"#/$defs/a\"}],\"$defs\":{\"a\":{\"not\":{\"$ref\":\"#/$defs/"
         "b\"}},"
         "\"b\":{\"anyOf\":[true,{\"$ref\":\"#/$defs/a\"}]}}}",
         {"t.json:1:102: $defs.b.anyOf[1].$ref: \"#/$defs/a\" " LOOP}},
        {"{\"items\":{\"$ref\":\"#/$defs/a\"},\"$defs\":{\"a\":{\"oneOf\":[{\"$ref\":\"#/$defs/"
         "a\"}]}}}",
         {"t.json:1:62: $defs.a.oneOf[0].$ref: \"#/$defs/a\" " LOOP}},
        {"{\"$ref\":\"#/$defs/a\",\"maximum\":3,\"$defs\":{\"a\":true}}",
         {"t.json:1:9: $ref: $ref stands beside maximum, which some readers would ignore: put both "
          "below allOf"}},

        /* All of them, each in its place. */
        {"{\n  \"properties\": {\n    \"a\": {\"minimum\": \"x\"},\n    \"b\": {\"typ\": 1}\n  },\n"
         "  \"pattern\": \"[\",\n  \"not\": {\"$ref\": \"#/a\"}\n}",
         {"t.json:3:22: properties.a.minimum: \"x\" is no number",
          "t.json:4:18: properties.b.typ: unsupported keyword \"typ\"" SUPPORTED,
          "t.json:6:14: pattern: the pattern is no regular expression: missing terminating ] for "
          "character class, at byte 1 of it",
          "t.json:7:19: not.$ref: \"#/a\" leads to nothing; " DEFINE}},
};

static void check_faults(const char *text, const char *const *wanted, size_t n_max) {
        _cleanup_(json_doc_freep) JsonDoc *doc = scan(text);
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        Schema *schema = NULL;
        size_t n = 0;

        ck_assert_int_eq(schema_compile(doc, json_doc_root(doc), "t.json", &diags, &schema),
                         SCHEMA_E_INVALID);
        ck_assert_ptr_null(schema);
        for (; n < n_max && wanted[n]; n++) {
                _cleanup_(freep) char *line = NULL;

                ck_assert_uint_lt(n, diags.n_items);
                line = diag_format(&diags.items[n]);
                ck_assert_str_eq(line, wanted[n]);
        }
        ck_assert_uint_eq(diags.n_items, n);
}

START_TEST(test_fault) {
        check_faults(faults[_i].schema, faults[_i].diags, ELEMENTSOF(faults[_i].diags));
}
END_TEST

/* A text of n times the same, between two others. */
static char *repeat(const char *before, const char *s, size_t n, const char *after) {
        StrBuf buf = STRBUF_NULL;

        ck_assert_int_eq(strbuf_append_string(&buf, before), 0);
        for (size_t i = 0; i < n; i++)
                ck_assert_int_eq(strbuf_append_string(&buf, s), 0);
        ck_assert_int_eq(strbuf_append_string(&buf, after), 0);
        return strbuf_steal(&buf);
}

START_TEST(test_maxima) {
        _cleanup_(freep) char *deep = repeat("", "{\"not\":", 32, "true");
        _cleanup_(freep) char *deeper = NULL, *ends = repeat("", "}", 32, "");
        _cleanup_(freep) char *entries = repeat("{\"enum\":[0", ",1", 1024, "]}");
        _cleanup_(freep) char *pattern = repeat("{\"pattern\":\"", "a", 1025, "\"}");
        _cleanup_(freep) char *large = repeat("{\"title\":\"", "a", 256 << 10, "\"}");
        _cleanup_(freep) char *nested = repeat("{\"pattern\":\"", "(", 34, "\"}");
        _cleanup_(freep) char *many_inner = repeat("{\"anyOf\":[true", ",true", 1023, "]}");
        _cleanup_(strbuf_done) StrBuf many = STRBUF_NULL;

        ck_assert_int_ge(asprintf(&deeper, "%s%s", deep, ends), 0);
        /* "not." in front of all but the first. */
        {
                _cleanup_(freep) char *path = repeat("t.json:1:225: ", "not.", 31, "not: ");
                _cleanup_(freep) char *wanted = NULL;

                ck_assert_int_ge(asprintf(&wanted,
                                          "%sschemas stand deeper than 32 within one "
                                          "another",
                                          path),
                                 0);
                check_faults(deeper, (const char *const[]){wanted}, 1);
        }
        check_faults(entries,
                     (const char *const[]){"t.json:1:9: enum: 1025 entries are more than 1024"}, 1);
        check_faults(pattern,
                     (const char *const[]){
                             "t.json:1:12: pattern: a pattern of 1025 bytes is longer than 1024"},
                     1);
        check_faults(
                nested,
                (const char *const[]){"t.json:1:12: pattern: the pattern is no regular expression: "
                                      "parentheses are too deeply nested, at byte 33 of it"},
                1);
        check_faults(large,
                     (const char *const[]){"t.json:1:1: a schema of 262156 bytes is larger than "
                                           "262144"},
                     1);

        ck_assert_int_eq(strbuf_append_string(&many, "{\"allOf\":[true"), 0);
        for (size_t i = 0; i < 4; i++)
                ck_assert_int_eq(strbuf_appendf(&many, ",%s", many_inner), 0);
        ck_assert_int_eq(strbuf_append_string(&many, "]}"), 0);
        check_faults(many.data,
                     (const char *const[]){"t.json:1:20512: allOf[4].anyOf[1018]: there are more "
                                           "than 4096 schemas"},
                     1);
}
END_TEST

START_TEST(test_place_in_a_larger_file) {
        static const char text[] = "{\"arguments\":\n {\"run\": {\"properties\":\n   {\"n\": "
                                   "{\"maximum\": 5}}}, \"bad\": {\"x\": 1}}}";
        _cleanup_(json_doc_freep) JsonDoc *doc = scan(text), *value = scan("[{\"n\":6}]");
        _cleanup_(schema_reason_done) SchemaReason reason = SCHEMA_REASON_NULL;
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(schema_freep) Schema *schema = NULL;
        _cleanup_(freep) char *line = NULL;
        const JsonNode *all = json_node_member(doc, json_doc_root(doc), "arguments");

        ck_assert_int_eq(
                schema_compile(doc, json_node_member(doc, all, "bad"), "o.json", &diags, &schema),
                SCHEMA_E_INVALID);
        line = diag_format(&diags.items[0]);
        ck_assert_str_eq(line, "o.json:3:41: arguments.bad.x: unsupported keyword \"x\"" SUPPORTED);

        ck_assert_int_eq(
                schema_compile(doc, json_node_member(doc, all, "run"), "o.json", &diags, &schema),
                0);
        doc = json_doc_free(doc);
        ck_assert_int_eq(schema_check(schema, value, json_doc_root(value)->first, &reason),
                         SCHEMA_E_REFUSED);
        ck_assert_str_eq(reason.path, "n");
        ck_assert_str_eq(reason.keyword, "maximum");
        ck_assert_str_eq(reason.allowed, "be at most 5");
        ck_assert_str_eq(reason.rule, "arguments.run.properties.n.maximum");
        ck_assert_str_eq(reason.file, "o.json");
        ck_assert_uint_eq(reason.line, 3);
        ck_assert_uint_eq(reason.column, 22);
}
END_TEST

/* --- bounds --- */

/* Refused with this text, however it is put: below not, too. */
static void check_bound(const char *schema_text, const char *value, const char *wanted) {
        static const char *const wraps[] = {"%s", "{\"not\":%s}", "{\"anyOf\":[%s,true]}",
                                            "{\"oneOf\":[%s,false]}"};

        for (size_t i = 0; i < ELEMENTSOF(wraps); i++) {
                _cleanup_(schema_freep) Schema *schema = NULL;
                _cleanup_(freep) char *text = NULL, *refusal = NULL;
                const char *mark = strstr(wraps[i], "%s");

                ck_assert_int_ge(asprintf(&text, "%.*s%s%s", (int) (mark - wraps[i]), wraps[i],
                                          schema_text, mark + 2),
                                 0);
                schema = compile(text);
                refusal = check_text(schema, value);
                ck_assert_ptr_nonnull(refusal);
                ck_assert_msg(strstr(refusal, wanted), "%.200s: %.200s", text, refusal);
        }
}

START_TEST(test_bound_of_patterns) {
        static const char cost[] = "must be simpler: to compare it with the pattern costs more "
                                   "than one call may (t.json:1:";
        _cleanup_(freep) char *as = repeat("\"", "a", 4000, "!\"");
        _cleanup_(freep) char *many =
                repeat("[\"!\"", ",\"aaaaaaaaaaaaaaaaaaaaaaaaaaa!\"", 2000, "]");
        _cleanup_(freep) char *most = repeat("\"", "a", 65536, "\"");
        _cleanup_(freep) char *more = repeat("\"", "a", 65537, "\"");
        _cleanup_(schema_freep) Schema *schema = NULL;

        check_bound("{\"pattern\":\"^(a+)+$\"}", as, cost);
        check_bound("{\"pattern\":\"(a*)*[bc]\"}", as, cost);
        check_bound("{\"pattern\":\"(?:a|a)+$\"}", as, cost);
        /* Each place where it may begin, to the end of the text. */
        check_bound("{\"pattern\":\"a++[bc]\"}", most, cost);
        check_bound("{\"items\":{\"not\":{\"pattern\":\"^(a|aa)+$\"}}}", many, cost);
        check_bound("{\"pattern\":\"(?R)a\"}", as, cost);
        check_bound("{\"pattern\":\"a\"}", more,
                    "must have at most 65536 bytes to be compared with a pattern (t.json:1:");

        schema = compile("{\"pattern\":\"^[a-z]+$\"}");
        ck_assert_ptr_null(check_text(schema, most));
        schema = schema_free(schema);
        schema = compile("{\"pattern\":\"^(?:[a-z]{64})+$\"}");
        ck_assert_ptr_null(check_text(schema, most));
}
END_TEST

START_TEST(test_bound_of_steps) {
        static const char cost[] =
                "must be simpler: to check it costs more than one call may (t.json:1:";
        _cleanup_(strbuf_done) StrBuf schema = STRBUF_NULL;
        _cleanup_(freep) char *choices = NULL, *items = NULL;

        /* Each way doubles the next. */
        ck_assert_int_eq(strbuf_append_string(&schema, "{\"$defs\":{"), 0);
        for (int i = 0; i < 40; i++)
                ck_assert_int_eq(strbuf_appendf(&schema,
                                                "\"d%d\":{\"allOf\":[{\"$ref\":\"#/$defs/"
                                                "d%d\"},{\"$ref\":\"#/$defs/d%d\"}]},",
                                                i, i + 1, i + 1),
                                 0);
        ck_assert_int_eq(strbuf_append_string(&schema, "\"d40\":{\"type\":\"null\"}},"
                                                       "\"allOf\":[{\"$ref\":\"#/$defs/d0\"}]}"),
                         0);
        {
                _cleanup_(schema_freep) Schema *compiled = compile(schema.data);
                _cleanup_(freep) char *text = check_text(compiled, "null");

                ck_assert_ptr_nonnull(text);
                ck_assert_msg(strstr(text, cost), "%s", text);
        }

        /* 5000 items against 1000 choices,. */
        choices = repeat("{\"items\":{\"not\":{\"enum\":[0", ",[1]", 1000, "]}}}");
        items = repeat("[2", ",[2]", 5000, "]");
        check_bound(choices, items, cost);
}
END_TEST

/* Schemas that wait for one another: a value of a usual depth, and references in between. */
START_TEST(test_bound_of_depth) {
        _cleanup_(strbuf_done) StrBuf schema = STRBUF_NULL;
        _cleanup_(freep) char *value = repeat("", "[", 60, ""), *ends = repeat("", "]", 60, "");
        _cleanup_(freep) char *whole = NULL;

        ck_assert_int_ge(asprintf(&whole, "%s%s", value, ends), 0);
        ck_assert_int_eq(strbuf_append_string(&schema, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{"), 0);
        for (int i = 0; i < 10; i++)
                ck_assert_int_eq(
                        strbuf_appendf(&schema, "\"d%d\":{\"$ref\":\"#/$defs/d%d\"},", i, i + 1),
                        0);
        ck_assert_int_eq(
                strbuf_append_string(&schema, "\"d10\":{\"items\":{\"$ref\":\"#/$defs/d0\"}}}}"),
                0);
        {
                _cleanup_(schema_freep) Schema *compiled = compile(schema.data);
                _cleanup_(freep) char *text = check_text(compiled, whole);
                _cleanup_(freep) char *good = check_text(compiled, "[[[1],[2]]]");

                ck_assert_ptr_null(good);
                ck_assert_ptr_nonnull(text);
                ck_assert_msg(strstr(text, " must be less deeply nested: to check it takes more "
                                           "than 256 schemas within one another (t.json:1:") &&
                                      strstr(text, ": limit)"),
                              "%s", text);
        }
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("schema");

        tcase_add_loop_test(tcase, test_case, 0, ELEMENTSOF(cases));
        tcase_add_loop_test(tcase, test_fault, 0, ELEMENTSOF(faults));
        tcase_add_test(tcase, test_maxima);
        tcase_add_test(tcase, test_place_in_a_larger_file);
        tcase_add_test(tcase, test_bound_of_patterns);
        tcase_add_test(tcase, test_bound_of_steps);
        tcase_add_test(tcase, test_bound_of_depth);
        return suite_run("schema", tcase);
}
