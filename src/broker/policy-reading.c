/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/policy-reading.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "basic/error.h"

struct PolicyReading {
        PolicyReadingCallback callback;
        void *userdata;
        sd_event_source *source;
        int done_fd; /* the thread's last word */
        pthread_t thread;
        PolicyRead read;
        bool busy;     /* from start to callback */
        bool threaded; /* the thread is to be joined */
        bool again;    /* another one was asked for meanwhile */
};

void policy_read_run(PolicyInstance instance, PolicyRead *ret_read) {
        *ret_read = (PolicyRead){.instance = instance};
        ret_read->result = policy_instance_dirs(instance, &ret_read->dirs);
        if (ret_read->result == 0)
                ret_read->result = policy_load_instance(instance, &ret_read->dirs, &ret_read->diags,
                                                        &ret_read->policy);
}

void policy_read_done(PolicyRead *read) {
        (void) policy_free(read->policy);
        diag_list_done(&read->diags);
        strv_done(&read->dirs);
        *read = (PolicyRead){};
}

static void *reading_run(void *userdata) {
        PolicyReading *reading = userdata;

        policy_read_run(reading->read.instance, &reading->read);
        (void) eventfd_write(reading->done_fd, 1);
        return NULL;
}

static void reading_join(PolicyReading *reading) {
        if (reading->threaded)
                (void) pthread_join(reading->thread, NULL);
        reading->threaded = false;
}

static int on_done(sd_event_source *source _unused_, int fd, uint32_t events _unused_,
                   void *userdata) {
        PolicyReading *reading = userdata;
        PolicyInstance instance;
        eventfd_t value;

        if (eventfd_read(fd, &value) < 0)
                return 0;
        reading_join(reading);
        instance = reading->read.instance;
        reading->callback(&reading->read, reading->userdata);
        policy_read_done(&reading->read);
        reading->busy = false;
        if (reading->again)
                (void) policy_reading_start(reading, instance);
        return 0;
}

bool policy_reading_start(PolicyReading *reading, PolicyInstance instance) {
        reading->again = reading->busy;
        if (reading->busy)
                return false;

        reading->busy = true;
        reading->read = (PolicyRead){.instance = instance};
        /* On a host that has no room for a thread, calls wait. */
        reading->threaded = pthread_create(&reading->thread, NULL, reading_run, reading) == 0;
        if (!reading->threaded)
                (void) reading_run(reading);
        return true;
}

int policy_reading_new(sd_event *event, PolicyReadingCallback callback, void *userdata,
                       PolicyReading **ret_reading) {
        _cleanup_(policy_reading_freep) PolicyReading *reading = NULL;
        int r;

        reading = calloc(1, sizeof(PolicyReading));
        if (!reading)
                return error_origin(-ENOMEM);
        reading->callback = callback;
        reading->userdata = userdata;
        reading->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (reading->done_fd < 0)
                return error_origin(negative_errno());
        r = sd_event_add_io(event, &reading->source, reading->done_fd, EPOLLIN, on_done, reading);
        if (r < 0)
                return error_origin(r);
        *ret_reading = TAKE_PTR(reading);
        return 0;
}

PolicyReading *policy_reading_free(PolicyReading *reading) {
        if (!reading)
                return NULL;

        reading_join(reading);
        policy_read_done(&reading->read);
        sd_event_source_disable_unref(reading->source);
        (void) fd_close(reading->done_fd);
        free(reading);
        return NULL;
}
