/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The head of an upstream's answer, line by line: which of its fields are passed on, with the
 * secret taken out of them, and what makes the whole answer one that is not.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "basic/string-util.h"
#include "egress/redact.h"

/* What is wrong with a head: one word, and a clause; both static. */
typedef struct AnswerHeadFault {
        const char *reason, *text;
} AnswerHeadFault;

typedef struct AnswerHead {
        StrBuf fields;      /* that are passed on, each with its line end */
        size_t size;        /* of all heads of one answer */
        unsigned n_lengths; /* fields that say where the answer ends */
        uint64_t length;    /* if it says one: of the content; UINT64_MAX: that or more */
        bool has_length;
        bool within;      /* the status line came */
        bool is_stream;   /* of events, which lasts as long as it is wanted */
        bool tells_usage; /* the answer is of a type that may tell of tokens */
} AnswerHead;

void answer_head_done(AnswerHead *head);

enum {
        _ANSWER_HEAD_E_SUCCESS,
        ANSWER_HEAD_E_ENDED, /* this was the last line of a head */
        ANSWER_HEAD_E_FAULT, /* the answer is none that may be passed on: *ret_fault tells */
};

/* Takes the next line, with its end. A head that follows an interim one begins anew; what comes
 * when the answer has begun is only counted. Or a negative errno. */
int answer_head_line(AnswerHead *head, Redactor *redactor, bool answered, const char *line,
                     size_t size, AnswerHeadFault *ret_fault);
