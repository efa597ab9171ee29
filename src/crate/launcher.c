/* SPDX-License-Identifier: Apache-2.0 */

#include "crate/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "basic/error.h"
#include "basic/process-util.h"
#include "basic/string-util.h"
#include "crate/crate-internal.h"
#include "crate/subuid.h"

#define LAUNCHER_NAME "agentcrate-launcher"
#define LAUNCHER_LINK_FD 3
#define LAUNCHER_END_MSEC 250

enum {
        LAUNCHER_STATE_STARTING = 1U << 0,
        LAUNCHER_STATE_READY = 1U << 1,
};

/* A crate that was asked for and is not gone yet. */
typedef struct LauncherEntry {
        uint32_t id;
        uint32_t uid;
        Crate *crate; /* NULL once it is forgotten */
        struct LauncherEntry *next;
} LauncherEntry;

struct Launcher {
        Link link;
        pid_t pid;
        uint32_t mode;
        uint32_t last_id;
        SubuidPool *subuids; /* root mode */
        LauncherEntry *entries;
        CrateError error;
};

char *launcher_program(void) {
        const char *folder = secure_getenv("AGENTCRATE_LIBEXEC_DIR");
        char *path = NULL;

        if (asprintf(&path, "%s/agentcrate-launcher", string_empty(folder) ? LIBEXECDIR : folder) <
            0)
                return NULL;
        return path;
}

/* The entry of that id, unlinked from the list if take is set. */
static LauncherEntry *launcher_find(Launcher *launcher, uint32_t id, bool take) {
        for (LauncherEntry **p = &launcher->entries; *p; p = &(*p)->next) {
                LauncherEntry *entry = *p;

                if (entry->id != id)
                        continue;
                if (take)
                        *p = entry->next;
                return entry;
        }
        return NULL;
}

static void launcher_release(Launcher *launcher, LauncherEntry *entry) {
        if (launcher->subuids)
                subuid_release(launcher->subuids, entry->uid);
        free(entry);
}

static int on_ready(void *userdata, _unused_ Frame *frame) {
        Launcher *launcher = userdata;

        launcher->link.state = LAUNCHER_STATE_READY;
        return 0;
}

static int on_made(void *userdata, Frame *frame) {
        Launcher *launcher = userdata;
        LauncherEntry *entry;

        entry = launcher_find(launcher, frame->header.id, false);
        if (!entry)
                return error_origin(-EBADMSG);
        if (entry->crate)
                crate_on_made(entry->crate, TAKE_FD(frame->fds[0]));
        return 0;
}

static int on_sockets(void *userdata, Frame *frame) {
        Launcher *launcher = userdata;
        LauncherSockets message;
        LauncherEntry *entry;

        memcpy(&message, frame->payload, sizeof(message));
        entry = launcher_find(launcher, frame->header.id, false);
        if (!entry || message.n != frame->n_fds)
                return error_origin(-EBADMSG);
        return entry->crate
                       ? crate_on_sockets(entry->crate, message.first, frame->fds, frame->n_fds)
                       : 0;
}

static int on_gone(void *userdata, Frame *frame) {
        Launcher *launcher = userdata;
        LauncherEntry *entry;
        Crate *crate;

        entry = launcher_find(launcher, frame->header.id, true);
        if (!entry)
                return error_origin(-EBADMSG);
        crate = entry->crate;
        launcher_release(launcher, entry);
        if (crate)
                crate_on_gone(crate);
        return 0;
}

static void failure_terminate(ProtoFailure *failure) {
        failure->step[sizeof(failure->step) - 1] = 0;
        failure->path[sizeof(failure->path) - 1] = 0;
}

static int on_failed(void *userdata, Frame *frame) {
        Launcher *launcher = userdata;
        LauncherEntry *entry;
        ProtoFailure failure;

        memcpy(&failure, frame->payload, sizeof(failure));
        failure_terminate(&failure);
        if (frame->header.id == 0) {
                (void) crate_explain_failure(&failure, &launcher->error);
                return error_origin(-ECONNABORTED);
        }

        entry = launcher_find(launcher, frame->header.id, false);
        if (!entry)
                return error_origin(-EBADMSG);
        if (entry->crate)
                crate_on_failed(entry->crate, &failure);
        return 0;
}

#define ANY (LAUNCHER_STATE_STARTING | LAUNCHER_STATE_READY)

static const LinkPermit launcher_permits[] = {
        {LAUNCHER_READY, LAUNCHER_STATE_STARTING, sizeof(LauncherReady), sizeof(LauncherReady), 0,
         0, on_ready},
        {LAUNCHER_FAILED, ANY, sizeof(ProtoFailure), sizeof(ProtoFailure), 0, 0, on_failed},
        {LAUNCHER_MADE, LAUNCHER_STATE_READY, sizeof(LauncherMade), sizeof(LauncherMade), 1, 1,
         on_made},
        {LAUNCHER_SOCKETS, LAUNCHER_STATE_READY, sizeof(LauncherSockets), sizeof(LauncherSockets),
         1, FRAME_FDS_MAX, on_sockets},
        {LAUNCHER_GONE, LAUNCHER_STATE_READY, sizeof(LauncherGone), sizeof(LauncherGone), 0, 0,
         on_gone},
};

int launcher_adopt(pid_t pid, uint32_t mode, int link_fd, Launcher **ret_launcher) {
        Launcher *launcher;

        launcher = calloc(1, sizeof(*launcher));
        if (!launcher) {
                (void) fd_close(link_fd);
                return error_origin(-ENOMEM);
        }
        *launcher = (Launcher){
                .link = {.fd = link_fd,
                         .name = "launcher",
                         .permits = launcher_permits,
                         .n_permits = ELEMENTSOF(launcher_permits),
                         .state = LAUNCHER_STATE_STARTING,
                         .userdata = launcher},
                .pid = pid,
                .mode = mode,
        };
        *ret_launcher = launcher;
        return 0;
}

/* What the child does: another program, or a function of this one. */
typedef struct LauncherChild {
        const char *program;
        char **argv;
        int (*run)(int link_fd);
} LauncherChild;

static int launcher_new(const LauncherChild *child, Launcher **ret_launcher) {
        uint32_t mode = geteuid() == 0 ? LAUNCHER_MODE_ROOT : LAUNCHER_MODE_USER;
        _cleanup_(fd_closep) int ours = -EBADF, theirs = -EBADF;
        pid_t pid;
        int r;

        r = link_pair(&ours, &theirs);
        if (r < 0)
                return error_trace(r);
        r = child->program ? process_spawn_with_link(child->program, LAUNCHER_NAME, theirs,
                                                     LAUNCHER_LINK_FD, &pid)
                           : process_fork_with_link(LAUNCHER_NAME, child->argv, theirs,
                                                    LAUNCHER_LINK_FD, child->run, &pid);
        if (r < 0)
                return error_trace(r);
        /* If that fails, the child sees the end of its link. */
        return error_trace(launcher_adopt(pid, mode, TAKE_FD(ours), ret_launcher));
}

int launcher_fork(char **argv, int (*run)(int link_fd), Launcher **ret_launcher) {
        return error_trace(launcher_new(&(LauncherChild){.argv = argv, .run = run}, ret_launcher));
}

int launcher_spawn(const char *program, Launcher **ret_launcher, CrateError *ret_error) {
        _cleanup_(freep) char *path = NULL;
        int r;

        path = program ? strdup(program) : launcher_program();
        if (!path)
                return error_origin(-ENOMEM);
        r = launcher_new(&(LauncherChild){.program = path}, ret_launcher);
        if (r >= 0)
                return 0;
        (void) crate_error_set(ret_error, "launcher", -r, path,
                               "install AgentCrate completely, or set AGENTCRATE_LIBEXEC_DIR",
                               "the launcher %s cannot be started: %s", path, strerror(-r));
        return LAUNCHER_E_FAILED;
}

static int launcher_send_setup(Launcher *launcher, const LauncherConfig *config) {
        LauncherSetup setup = {.mode = launcher->mode, .net_stock = (uint32_t) config->net_stock};
        _cleanup_(fd_closep) int plan_fd = -EBADF;
        size_t n = 0;
        int fds[3], r;

        r = plan_to_memfd(config->tree, &plan_fd);
        if (r < 0)
                return error_trace(r);
        fds[n++] = plan_fd;
        if (launcher->subuids) {
                setup.flags |= LAUNCHER_SETUP_SUBUIDS;
                fds[n++] = subuid_pool_get_fd(launcher->subuids);
        }
        if (config->one_shot)
                setup.flags |= LAUNCHER_SETUP_ONE_SHOT;
        if (config->no_late)
                setup.flags |= LAUNCHER_SETUP_NO_LATE;
        if (config->cgroups) {
                setup.flags |= LAUNCHER_SETUP_CGROUP;
                fds[n++] = cgroup_tree_launcher_fd(config->cgroups);
        }
        r = link_send(&launcher->link, LAUNCHER_SETUP, 0, &setup, sizeof(setup), fds, n);
        /* One that has ended already has said why: launcher_dispatch() reads that. */
        return r == LINK_E_EOF ? 0 : error_fold(r);
}

int launcher_set_up(Launcher *launcher, const LauncherConfig *config, CrateError *ret_error) {
        int r;

        if (launcher->mode == LAUNCHER_MODE_ROOT) {
                r = subuid_pool_new(config->subuid_base, config->subuid_count, &launcher->subuids,
                                    ret_error);
                if (r != 0)
                        return r == SUBUID_E_FAILED ? LAUNCHER_E_FAILED : error_trace(r);
        }
        return launcher_send_setup(launcher, config);
}

int launcher_start(const LauncherConfig *config, Launcher **ret_launcher, CrateError *ret_error) {
        _cleanup_(launcher_freep) Launcher *launcher = NULL;
        int r;

        r = launcher_spawn(NULL, &launcher, ret_error);
        if (r == 0)
                r = launcher_set_up(launcher, config, ret_error);
        if (r != 0)
                return r;
        *ret_launcher = TAKE_PTR(launcher);
        return 0;
}

/*
 * It ends by itself when its link does, after its crates. But whoever frees it must not wait for a
 * launcher that was stopped, or is not what it should be; and killing it loses nothing, since each
 * crate's init sees the end of its own link.
 */
Launcher *launcher_free(Launcher *launcher) {
        LauncherEntry *next;

        if (!launcher)
                return NULL;

        link_done(&launcher->link);
        if (launcher->pid > 0)
                process_end(launcher->pid, LAUNCHER_END_MSEC);
        /* Their locks are not given back here: they go with the last copy of the lock file's
         * descriptor, which each crate's init holds. */
        for (LauncherEntry *entry = launcher->entries; entry; entry = next) {
                next = entry->next;
                free(entry);
        }
        launcher->subuids = subuid_pool_free(launcher->subuids);
        crate_error_done(&launcher->error);
        free(launcher);
        return NULL;
}

int launcher_get_fd(const Launcher *launcher) {
        return launcher->link.fd;
}

pid_t launcher_get_pid(const Launcher *launcher) {
        return launcher->pid;
}

bool launcher_is_ready(const Launcher *launcher) {
        return launcher->link.state == LAUNCHER_STATE_READY;
}

const CrateError *launcher_get_error(const Launcher *launcher) {
        return &launcher->error;
}

/* No more will come from it: every crate is told. */
static int launcher_lose(Launcher *launcher) {
        if (!launcher->error.text)
                (void) crate_error_set(&launcher->error, "launcher", 0, NULL, NULL,
                                       "the launcher ended unexpectedly");
        for (;;) {
                LauncherEntry *entry;
                Crate *crate = NULL;

                for (entry = launcher->entries; entry && !entry->crate; entry = entry->next)
                        ;
                if (!entry)
                        return LAUNCHER_E_FAILED;
                crate = entry->crate;
                entry->crate = NULL;
                crate_on_launcher_lost(crate, &launcher->error);
        }
}

int launcher_dispatch(Launcher *launcher) {
        int r;

        do
                r = link_dispatch(&launcher->link, MSG_DONTWAIT);
        while (r == 0);
        return r == LINK_E_AGAIN ? 0 : launcher_lose(launcher);
}

/* Nothing can be sent to it any more. If it has ended, its last words are still to be read. */
static int launcher_refuse(Launcher *launcher, int send_result, CrateError *ret_error) {
        const CrateError *last = &launcher->error;

        if (send_result == LINK_E_EOF)
                while (link_dispatch(&launcher->link, MSG_DONTWAIT) == 0)
                        ;
        if (last->text)
                (void) crate_error_set(ret_error, last->step ?: "launcher", last->error, last->path,
                                       last->remedy, "%s", last->text);
        else
                (void) crate_error_set(ret_error, "launcher",
                                       send_result < 0 ? -send_result : EPIPE, NULL, "try again",
                                       send_result == -ENOBUFS ? "the launcher is busy"
                                                               : "the launcher has ended");
        return LAUNCHER_E_FAILED;
}

int launcher_make(Launcher *launcher, Crate *crate, int control_fd, int plan_fd, int cgroup_fd,
                  uint32_t *ret_id, CrateError *ret_error) {
        LauncherMake make = {.uid = geteuid(), .gid = getegid(), .has_cgroup = cgroup_fd >= 0};
        const int fds[] = {control_fd, plan_fd, cgroup_fd};
        LauncherEntry *entry;
        int r;

        if (launcher->subuids) {
                r = subuid_acquire(launcher->subuids, &make.uid, ret_error);
                if (r != 0)
                        return r == SUBUID_E_FAILED ? LAUNCHER_E_FAILED : error_trace(r);
                make.gid = make.uid;
        }
        entry = calloc(1, sizeof(*entry));
        if (!entry) {
                if (launcher->subuids)
                        subuid_release(launcher->subuids, make.uid);
                return error_origin(-ENOMEM);
        }
        *entry = (LauncherEntry){
                .id = ++launcher->last_id ?: ++launcher->last_id, .uid = make.uid, .crate = crate};

        r = link_send(&launcher->link, LAUNCHER_MAKE, entry->id, &make, sizeof(make), fds,
                      make.has_cgroup ? 3 : 2);
        if (r != 0) {
                launcher_release(launcher, entry);
                return launcher_refuse(launcher, r, ret_error);
        }
        entry->next = launcher->entries;
        launcher->entries = entry;
        *ret_id = entry->id;
        return 0;
}

void launcher_forget(Launcher *launcher, uint32_t id) {
        LauncherEntry *entry = launcher_find(launcher, id, false);

        if (entry)
                entry->crate = NULL;
}
