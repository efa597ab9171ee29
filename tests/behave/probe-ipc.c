/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What two jobs, or a job and the host, could share. ipc-make is run on one side, ipc-find on the
 * other, ipc-drop where it was made.
 */

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

#include "probe.h"

static void queue_name(key_t key, char *ret_name, size_t size) {
        (void) snprintf(ret_name, size, "/agentcrate-probe-%d", (int) key);
}

static void answer_ipc_make(char *const *args) {
        key_t key = (key_t) number(args[0]);
        struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = 1};
        char name[64];

        queue_name(key, name, sizeof(name));
        say_result(result_of(shmget(key, 4096, IPC_CREAT | 0666)));
        say(" ");
        say_result(result_of(semget(key, 1, IPC_CREAT | 0666)));
        say(" ");
        say_result(result_of(msgget(key, IPC_CREAT | 0666)));
        say(" ");
        say_result(result_of(mq_open(name, O_RDWR | O_CREAT, 0666, &attr)));
}

static void answer_ipc_find(char *const *args) {
        key_t key = (key_t) number(args[0]);
        char name[64];

        queue_name(key, name, sizeof(name));
        say_result(result_of(shmget(key, 0, 0)));
        say(" ");
        say_result(result_of(semget(key, 0, 0)));
        say(" ");
        say_result(result_of(msgget(key, 0)));
        say(" ");
        say_result(result_of(mq_open(name, O_RDONLY)));
}

static void answer_ipc_drop(char *const *args) {
        key_t key = (key_t) number(args[0]);
        char name[64];

        queue_name(key, name, sizeof(name));
        (void) shmctl(shmget(key, 0, 0), IPC_RMID, NULL);
        (void) semctl(semget(key, 0, 0), 0, IPC_RMID);
        (void) msgctl(msgget(key, 0), IPC_RMID, NULL);
        (void) mq_unlink(name);
        say("OK");
}

const Question probe_ipc[] = {
        {"ipc-make", 1, false, answer_ipc_make},
        {"ipc-find", 1, false, answer_ipc_find},
        {"ipc-drop", 1, false, answer_ipc_drop},
        {},
};
