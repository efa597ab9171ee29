/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/answers.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "basic/error.h"
#include "basic/macros.h"

struct Answer {
        Answer *next;
        uint16_t type;
        uint32_t id;
        size_t size;
        int fd; /* negative: none */
        char payload[];
};

static void answers_drop(Answers *answers) {
        Answer *first = answers->first;

        answers->first = first->next;
        if (!answers->first)
                answers->last = NULL;
        answers->n--;
        fd_close(first->fd);
        free(first);
}

void answers_done(Answers *answers) {
        while (answers->first)
                answers_drop(answers);
}

static int answers_keep(Answers *answers, uint16_t type, uint32_t id, const void *payload,
                        size_t size, const int *fd) {
        Answer *answer;

        if (answers->n >= ANSWERS_MAX || size > ANSWER_PAYLOAD_MAX)
                return error_origin(-ENOBUFS);
        answer = malloc(sizeof(*answer) + size);
        if (!answer)
                return error_origin(-ENOMEM);
        answer->next = NULL;
        answer->type = type;
        answer->id = id;
        answer->size = size;
        answer->fd = fd ? fcntl(*fd, F_DUPFD_CLOEXEC, 3) : -EBADF;
        if (fd && answer->fd < 0) {
                free(answer);
                return error_origin(negative_errno());
        }
        if (size > 0)
                memcpy(answer->payload, payload, size);
        if (answers->last)
                *answers->last = answer;
        else
                answers->first = answer;
        answers->last = &answer->next;
        answers->n++;
        return 0;
}

int answers_send(Answers *answers, Link *link, uint16_t type, uint32_t id, const void *payload,
                 size_t size, const int *fd) {
        int r = -ENOBUFS;

        if (answers->n == 0)
                r = link_send(link, type, id, payload, size, fd, fd ? 1 : 0);
        if (r == -ENOBUFS)
                return error_trace(answers_keep(answers, type, id, payload, size, fd));
        return r == LINK_E_EOF ? 0 : error_trace(r);
}

int answers_flush(Answers *answers, Link *link) {
        while (answers->first) {
                const Answer *answer = answers->first;
                int r = link_send(link, answer->type, answer->id, answer->payload, answer->size,
                                  answer->fd >= 0 ? &answer->fd : NULL, answer->fd >= 0 ? 1 : 0);

                if (r == -ENOBUFS)
                        return 0;
                if (r < 0)
                        return error_trace(r);
                answers_drop(answers);
        }
        return 0;
}
