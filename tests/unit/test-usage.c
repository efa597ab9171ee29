/* SPDX-License-Identifier: Apache-2.0 */

/* Tokens that answers of language models tell of, whatever the pieces are that they come in. */

#include <inttypes.h>
#include <string.h>

#include "egress/usage.h"
#include "tests/unit/suite.h"

#define NONE UINT64_MAX

static const struct {
        const char *text;
        uint64_t input, output;
} rows[] = {
        {"", NONE, NONE},
        {"{\"id\":\"x\",\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":12,\"total_tokens\":"
         "21,"
         "\"prompt_tokens_details\":{\"cached_tokens\":3,\"input_tokens\":7}}}",
         9, 12},
        {"{\n  \"type\": \"message\",\n  \"usage\": {\n    \"input_tokens\": 2095,\n"
         "    \"output_tokens\": 503\n  }\n}\n",
         2095, 503},
        {"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[],"
         "\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\nevent: content_block_delta\n"
         "data: {\"delta\":{\"text\":\"\\\"usage\\\":{\\\"input_tokens\\\":7\"}}\n\n"
         "event: message_delta\ndata: {\"delta\":{},\"usage\":{\"output_tokens\":15}}\n\n",
         25, 15},
        {"data: {\"choices\":[],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{"
         "\"prompt_tokens\":1,\"completion_tokens\":0}}\n\ndata: [DONE]\n\n",
         1, 0},
        {"data:{\"response\":{\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}}\r\n", 3, 4},
        /* What the model has made up, or somebody else. */
        {"{\"content\":\"\\\"usage\\\":{\\\"input_tokens\\\":7}\"}", NONE, NONE},
        {"{\"content\":[{\"usage\":{\"input_tokens\":7}}]}", NONE, NONE},
        {"{\"message\":[{\"usage\":{\"input_tokens\":7}}]}", NONE, NONE},
        {"{\"input\":{\"message\":{\"usage\":{\"input_tokens\":7}}}}", NONE, NONE},
        {"{\"a\":{\"usage\":{\"input_tokens\":7}}}", NONE, NONE},
        {"[{\"usage\":{\"input_tokens\":7}}]", NONE, NONE},
        {"{\"usage\":[{\"input_tokens\":7}]}", NONE, NONE},
        {"{\"usage\":{\"input_tokens\":-7,\"output_tokens\":1.5}}", NONE, NONE},
        {"{\"usage\":{\"input_tokens\":1e3,\"output_tokens\":\"5\"}}", NONE, NONE},
        {"{\"usage\":{\"input_tokens\":1234567890123456,\"output_tokens\":123456789012345}}", NONE,
         123456789012345},
        {"{\"us\\u0061ge\":{\"input_tokens\":7}}", NONE, NONE},
        {"]]]}}}{\"usage\":{\"input_tokens\":7}}", 7, NONE},
        {"{\"usage\":{\"input_tokens\":7", NONE, NONE},
        {"{\"usage\":{\"input_tokens\":7,", 7, NONE},
};

static void check(size_t row, const Usage *usage) {
        ck_assert_msg((usage->has_input ? usage->input : NONE) == rows[row].input &&
                              (usage->has_output ? usage->output : NONE) == rows[row].output,
                      "%s: %" PRIu64 " and %" PRIu64, rows[row].text, usage->input, usage->output);
}

START_TEST(test_rows) {
        const char *text = rows[_i].text;
        size_t size = strlen(text);

        for (size_t cut = 0; cut <= size; cut++) {
                Usage usage = USAGE_NULL;

                usage_scan(&usage, text, cut);
                usage_scan(&usage, text + cut, size - cut);
                check((size_t) _i, &usage);
        }
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("usage");

        tcase_add_loop_test(tcase, test_rows, 0, sizeof(rows) / sizeof(rows[0]));
        return suite_run("usage", tcase);
}
