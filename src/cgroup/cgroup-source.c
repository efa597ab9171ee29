/* SPDX-License-Identifier: Apache-2.0 */

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "basic/error.h"
#include "basic/string-util.h"
#include "cgroup/cgroup-file.h"
#include "cgroup/cgroup-internal.h"
#include "cgroup/cgroup-path.h"
#include "cgroup/cgroup-text.h"

#define PLAIN_PREFIX "agentcrate-"
/* A root is only worth its price with one of these. */
#define PLAIN_CONTROLLERS ((unsigned) (CGROUP_MEMORY | CGROUP_PIDS | CGROUP_CPU))
#define LOCK_TRIES 100U
#define JOBS_LOCK_TRIES 30U
#define JOBS_LOCK_PAUSE_MSEC 10

void cgroup_shared_done(CgroupShared *shared) {
        shared->fd = fd_close(shared->fd);
        shared->oom_fd = fd_close(shared->oom_fd);
        shared->pids_fd = fd_close(shared->pids_fd);
}

static int unavailable(char **ret_reason, const char *reason) {
        return outcome_text(CGROUP_E_UNAVAILABLE, ret_reason, "%s", reason);
}

/* A step that the host refuses is a reason to go without a tree, never one to break. */
static int refused(char **ret_reason, int r, const char *what) {
        if (r == -ENOMEM)
                return error_origin(r);
        if (r == -EROFS)
                return outcome_text(CGROUP_E_UNAVAILABLE, ret_reason,
                                    "%s: the cgroup file system is mounted read-only", what);
        return outcome_text(CGROUP_E_UNAVAILABLE, ret_reason, "%s: %s (%s)", what,
                            strerrordesc_np(-r) ?: "an unknown error", strerrorname_np(-r) ?: "?");
}

static int tree_new(CgroupSource source, CgroupTree **ret_tree) {
        CgroupTree *tree;

        tree = calloc(1, sizeof(CgroupTree));
        if (!tree)
                return error_origin(-ENOMEM);
        tree->source = source;
        tree->parent_fd = tree->root_fd = tree->launcher_fd = -EBADF;
        tree->jobs = CGROUP_SHARED_NULL;
        LIST_INIT(&tree->tenants);
        LIST_INIT(&tree->crates);
        LIST_INIT(&tree->dying);
        *ret_tree = tree;
        return 0;
}

/* --- the own cgroup --- */

static int find_own(int *ret_fd, char **ret_reason) {
        _cleanup_(strbuf_done) StrBuf cgroup = STRBUF_NULL, mountinfo = STRBUF_NULL;
        _cleanup_(freep) char *path = NULL;
        int fd, r;

        r = cgroup_file_read_all(AT_FDCWD, "/proc/self/cgroup", &cgroup);
        if (r == 0)
                r = cgroup_file_read_all(AT_FDCWD, "/proc/self/mountinfo", &mountinfo);
        if (r < 0)
                return refused(ret_reason, r, "the own cgroup cannot be found");

        r = cgroup_path_find(cgroup.data ?: "", mountinfo.data ?: "", &path);
        if (r < 0)
                return error_trace(r);
        if (r > 0)
                return unavailable(ret_reason, "no cgroup2 hierarchy holds this process");

        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return refused(ret_reason, negative_errno(), "the own cgroup cannot be opened");
        *ret_fd = fd;
        return 0;
}

static bool is_writable(int fd) {
        return faccessat(fd, ".", W_OK, AT_EACCESS) >= 0 &&
               faccessat(fd, "cgroup.procs", W_OK, AT_EACCESS) >= 0;
}

/* The service manager marks what it has delegated; the first name is readable by root only. */
static bool is_delegated(int fd) {
        static const char *const names[] = {"trusted.delegate", "user.delegate"};
        char value[2];

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (fgetxattr(fd, names[i], value, sizeof(value)) == 1 && value[0] == '1')
                        return true;
        return false;
}

static bool is_alone(int fd) {
        char text[CGROUP_FILE_SIZE], own[32];

        if (cgroup_file_read(fd, "cgroup.procs", text, sizeof(text)) < 0)
                return false;
        (void) snprintf(own, sizeof(own), "%d\n", getpid());
        return string_equal(text, own);
}

/*
 * User managers before systemd 253 cannot mark what they delegate (trusted attributes are root's),
 * so our user unit says so in the environment. That is believed only for a cgroup of our own user
 * in which nobody else is: a shell's scope never becomes ours by a stray variable.
 */
static bool is_declared_delegated(int fd) {
        struct stat st;

        return string_equal(secure_getenv("AGENTCRATE_DELEGATED"), "1") && fstat(fd, &st) >= 0 &&
               st.st_uid == geteuid() && is_alone(fd);
}

/* Without a service manager nobody else has a say in a cgroup that holds only us, as in a
 * container whose one process we are. */
static bool is_ours(int fd) {
        return is_delegated(fd) || is_declared_delegated(fd) ||
               (!cgroup_host_has_systemd() && is_alone(fd));
}

/* --- the parts --- */

static int make_parts(CgroupTree *tree, char **ret_reason) {
        int r;

        r = cgroup_dir_make(tree->root_fd, "launcher", O_PATH, &tree->launcher_fd);
        if (r < 0)
                return refused(ret_reason, r, "launcher/ cannot be made in the own cgroup");
        /* Closed to others: whoever can open it can hold its lock, and keep its owner from it. */
        if (mkdirat(tree->root_fd, CGROUP_JOBS, 0700) < 0 && errno != EEXIST)
                r = negative_errno();
        else
                r = cgroup_dir_open(tree->root_fd, CGROUP_JOBS, O_RDONLY, &tree->jobs.fd);
        if (r < 0)
                return refused(ret_reason, r, CGROUP_JOBS "/ cannot be made in the own cgroup");
        return 0;
}

/* --- what was left by a process that could not clean up --- */

typedef struct Leftovers {
        CgroupTree *tree;
        const char *tenant;
} Leftovers;

/* One that is still dying is for the sweeps to come. */
static int remove_crate(int tenant_fd, const char *name, void *userdata) {
        Leftovers *leftovers = userdata;
        CgroupCrate *crate;
        int n;

        if (cgroup_kill_and_remove(tenant_fd, name) == 0)
                return 0;
        crate = calloc(1, sizeof(CgroupCrate));
        if (!crate)
                return error_origin(-ENOMEM);
        crate->tree = leftovers->tree;
        n = snprintf(crate->path, sizeof(crate->path), CGROUP_JOBS "/%s/%s", leftovers->tenant,
                     name);
        if (n < 0 || (size_t) n >= sizeof(crate->path)) {
                free(crate); /* no name of ours */
                return 0;
        }
        LIST_INSERT_HEAD(&leftovers->tree->dying, crate, entry);
        return 0;
}

static int remove_tenant(int jobs_fd, const char *name, void *userdata) {
        Leftovers leftovers = {.tree = userdata, .tenant = name};
        _cleanup_(fd_closep) int fd = -EBADF;
        int r;

        if (cgroup_dir_open(jobs_fd, name, O_RDONLY, &fd) < 0)
                return 0;
        r = cgroup_each_child(fd, "", remove_crate, &leftovers);
        if (r == -ENOMEM)
                return error_trace(r);
        (void) unlinkat(jobs_fd, name, AT_REMOVEDIR);
        return 0;
}

/* Whoever is about to end still holds it for a moment. */
static bool lock_jobs(int fd) {
        for (unsigned i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
                if (errno != EWOULDBLOCK || i >= JOBS_LOCK_TRIES)
                        return false;
                (void) poll(NULL, 0, JOBS_LOCK_PAUSE_MSEC);
        }
        return true;
}

/* Unless somebody else uses it. */
static int take_jobs(CgroupTree *tree, char **ret_reason) {
        int r;

        if (!lock_jobs(tree->jobs.fd)) {
                /* Nor is it ours to tidy up. */
                tree->jobs.fd = fd_close(tree->jobs.fd);
                return unavailable(ret_reason, "another process uses the own cgroup");
        }
        r = cgroup_each_child(tree->jobs.fd, "t-", remove_tenant, tree);
        return r == -ENOMEM ? error_trace(r) : 0;
}

static int move_to_broker(CgroupTree *tree, char **ret_reason) {
        _cleanup_(fd_closep) int broker_fd = -EBADF;
        int r;

        r = cgroup_dir_make(tree->root_fd, "broker", O_PATH, &broker_fd);
        if (r == 0)
                r = cgroup_file_write(broker_fd, "cgroup.procs", "0");
        return r < 0 ? refused(ret_reason, r, "this process cannot be moved to broker/") : 0;
}

int cgroup_tree_new_own(CgroupTree **ret_tree, char **ret_reason) {
        _cleanup_(cgroup_tree_freep) CgroupTree *tree = NULL;
        int r;

        r = tree_new(CGROUP_SOURCE_OWN, &tree);
        if (r < 0)
                return error_trace(r);
        r = find_own(&tree->root_fd, ret_reason);
        if (r != 0)
                return r;
        if (!is_ours(tree->root_fd))
                return unavailable(ret_reason, "the own cgroup is not delegated (Delegate=yes)");
        if (!is_writable(tree->root_fd))
                return unavailable(ret_reason, "the own cgroup is not writable");

        r = make_parts(tree, ret_reason);
        if (r == 0)
                r = take_jobs(tree, ret_reason);
        if (r == 0)
                r = move_to_broker(tree, ret_reason);
        if (r != 0)
                return r;
        *ret_tree = TAKE_PTR(tree);
        return 0;
}

/* --- a child of the own cgroup --- */

/* Only the real root may have processes and enabled controllers at once; it has no such file. */
static bool is_real_root(int fd) {
        return faccessat(fd, "cgroup.events", F_OK, 0) < 0 && errno == ENOENT;
}

/* What a child has, or will have once it is enabled for it: nobody but us needs to do that where
 * there is no manager, and it takes nothing from anyone. */
static unsigned child_controllers(int fd) {
        char text[CGROUP_FILE_SIZE];
        unsigned enabled;

        if (cgroup_file_read(fd, "cgroup.subtree_control", text, sizeof(text)) < 0)
                return 0;
        enabled = cgroup_text_controllers(text);
        if (!is_real_root(fd) || cgroup_file_read(fd, "cgroup.controllers", text, sizeof(text)) < 0)
                return enabled;
        for (unsigned bit = 1, missing = cgroup_text_controllers(text) & ~enabled;
             bit & _CGROUP_ALL; bit <<= 1) {
                char change[16];

                if (!(missing & bit))
                        continue;
                (void) snprintf(change, sizeof(change), "+%s",
                                cgroup_controller_to_string((CgroupController) bit));
                if (cgroup_file_write(fd, "cgroup.subtree_control", change) == 0)
                        enabled |= bit;
        }
        return enabled;
}

/* Whoever made a root holds a lock on its directory as long as he lives. */
static int remove_root(int parent_fd, const char *name, void *userdata _unused_) {
        _cleanup_(fd_closep) int fd = -EBADF;

        if (cgroup_dir_open(parent_fd, name, O_RDONLY, &fd) == 0 &&
            flock(fd, LOCK_EX | LOCK_NB) >= 0)
                (void) cgroup_kill_and_remove(parent_fd, name);
        return 0;
}

/* Between making a root and locking it, it looks like a dead owner's: those who look for such take
 * this lock alone, those who make one share it. Whoever cannot have it goes on without. */
static void lock_parent(CgroupTree *tree) {
        if (flock(tree->parent_fd, LOCK_EX | LOCK_NB) >= 0)
                (void) cgroup_each_child(tree->parent_fd, PLAIN_PREFIX, remove_root, NULL);
        for (unsigned i = 0; flock(tree->parent_fd, LOCK_SH | LOCK_NB) < 0 && i < LOCK_TRIES; i++)
                (void) poll(NULL, 0, 1);
}

static int make_plain_root(CgroupTree *tree, char **ret_reason) {
        uint64_t id;
        int r;

        if (getrandom(&id, sizeof(id), 0) != sizeof(id))
                return error_origin(negative_errno());
        (void) snprintf(tree->name, sizeof(tree->name), PLAIN_PREFIX "%016" PRIx64, id);
        if (mkdirat(tree->parent_fd, tree->name, 0755) < 0)
                return refused(ret_reason, negative_errno(),
                               "no cgroup can be made below the own one");
        r = cgroup_dir_open(tree->parent_fd, tree->name, O_RDONLY, &tree->root_fd);
        /* Held as long as we live, so that others know whose it is. */
        if (r == 0 && flock(tree->root_fd, LOCK_EX | LOCK_NB) < 0)
                r = negative_errno();
        return r < 0 ? refused(ret_reason, r, "the new cgroup cannot be used") : 0;
}

int cgroup_tree_new_plain(CgroupTree **ret_tree, char **ret_reason) {
        _cleanup_(cgroup_tree_freep) CgroupTree *tree = NULL;
        int r;

        if (cgroup_host_has_systemd())
                return unavailable(ret_reason, "cgroups are the service manager's on this host");
        r = cgroup_host_check(ret_reason);
        if (r != 0)
                return r;
        r = tree_new(CGROUP_SOURCE_PLAIN, &tree);
        if (r < 0)
                return error_trace(r);
        r = find_own(&tree->parent_fd, ret_reason);
        if (r != 0)
                return r;
        if (!is_writable(tree->parent_fd))
                return unavailable(ret_reason, "the own cgroup is not writable");
        if (!(child_controllers(tree->parent_fd) & PLAIN_CONTROLLERS))
                return unavailable(ret_reason, "the own cgroup passes neither memory nor pids nor "
                                               "cpu on to cgroups below it");

        lock_parent(tree);
        r = make_plain_root(tree, ret_reason);
        (void) flock(tree->parent_fd, LOCK_UN);
        if (r == 0)
                r = make_parts(tree, ret_reason);
        if (r != 0)
                return r;
        *ret_tree = TAKE_PTR(tree);
        return 0;
}

/* --- what others have made --- */

int cgroup_tree_new_scope(int root_fd, CgroupTree **ret_tree, char **ret_reason) {
        _cleanup_(cgroup_tree_freep) CgroupTree *tree = NULL;
        int r;

        r = tree_new(CGROUP_SOURCE_SCOPE, &tree);
        if (r < 0) {
                fd_close(root_fd);
                return error_trace(r);
        }
        tree->root_fd = root_fd;
        r = make_parts(tree, ret_reason);
        if (r != 0)
                return r;
        *ret_tree = TAKE_PTR(tree);
        return 0;
}

int cgroup_tree_new_service(int jobs_fd, CgroupTree **ret_tree, char **ret_reason) {
        _cleanup_(cgroup_tree_freep) CgroupTree *tree = NULL;
        int r;

        r = tree_new(CGROUP_SOURCE_SERVICE, &tree);
        if (r < 0) {
                fd_close(jobs_fd);
                return error_trace(r);
        }
        tree->jobs.fd = jobs_fd;
        if (!is_writable(tree->jobs.fd))
                return unavailable(ret_reason,
                                   "the cgroup that the launcher service gave is not writable");
        r = take_jobs(tree, ret_reason);
        if (r != 0)
                return r;
        *ret_tree = TAKE_PTR(tree);
        return 0;
}
