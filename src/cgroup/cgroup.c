/* SPDX-License-Identifier: Apache-2.0 */

#include "cgroup/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "basic/error.h"
#include "basic/string-util.h"
#include "basic/time-util.h"
#include "cgroup/cgroup-path.h"

#define CGROUP_ID_SIZE 20U
/* How long the end waits for what is dying. */
#define CGROUP_END_USEC (2 * USEC_PER_SEC)
#define CGROUP_LOOK_MSEC 20

struct CgroupCrate {
        LIST_ENTRY(CgroupCrate) entry; /* of tree->dying, once it is freed */
        CgroupTree *tree;
        char id[CGROUP_ID_SIZE];
        int fd; /* of the crate's directory; -EBADF: it was not made */
        int init_fd, exec_fd;
};

struct CgroupTree {
        int launcher_fd, jobs_fd;
        LIST_HEAD(, CgroupCrate) dying;
};

/* --- files --- */

static int read_text(const char *path, StrBuf *text) {
        _cleanup_(fd_closep) int fd = -EBADF;
        char buffer[4096];
        ssize_t n;
        int r;

        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return error_origin(negative_errno());

        while ((n = read(fd, buffer, sizeof(buffer))) > 0) {
                r = strbuf_append(text, buffer, (size_t) n);
                if (r < 0)
                        return error_trace(r);
        }
        return n < 0 ? error_origin(negative_errno()) : 0;
}

static int write_text(int dir, const char *name, const char *text) {
        _cleanup_(fd_closep) int fd = -EBADF;

        fd = openat(dir, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return error_origin(negative_errno());
        if (write(fd, text, strlen(text)) < 0)
                return error_origin(negative_errno());
        return 0;
}

static int open_dir(int dir, const char *name, int flags, int *ret_fd) {
        int fd;

        fd = openat(dir, name, O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW | flags);
        if (fd < 0)
                return error_origin(negative_errno());
        *ret_fd = fd;
        return 0;
}

/* The parts of the tree are ours by their place in the delegated subtree: they may be there. */
static int make_part(int dir, const char *name, int flags, int *ret_fd) {
        if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
                return error_origin(negative_errno());
        return error_trace(open_dir(dir, name, flags, ret_fd));
}

/* --- crates --- */

/* 0, or -EBUSY while something lives in it. What is gone already is no error. */
static int remove_crate(int jobs_fd, const char *id) {
        _cleanup_(fd_closep) int fd = -EBADF;
        int r;

        r = open_dir(jobs_fd, id, O_RDONLY, &fd);
        if (r < 0)
                return r == -ENOENT ? 0 : error_trace(r);

        if (unlinkat(fd, "exec-1", AT_REMOVEDIR) < 0 && errno != ENOENT)
                return negative_errno();
        if (unlinkat(fd, "init", AT_REMOVEDIR) < 0 && errno != ENOENT)
                return negative_errno();
        if (unlinkat(jobs_fd, id, AT_REMOVEDIR) < 0 && errno != ENOENT)
                return negative_errno();
        return 0;
}

static void crate_close(CgroupCrate *crate) {
        crate->fd = fd_close(crate->fd);
        crate->init_fd = fd_close(crate->init_fd);
        crate->exec_fd = fd_close(crate->exec_fd);
}

static int make_leaves(CgroupCrate *crate) {
        int r;

        r = make_part(crate->fd, "init", O_PATH, &crate->init_fd);
        if (r == 0)
                r = make_part(crate->fd, "exec-1", O_PATH, &crate->exec_fd);
        if (r < 0)
                return error_trace(r);

        /* Init has an id of its own and clones the job from init/ to exec-1/, for which it must be
         * able to write to the leaf and to what both have in common. It is handed these fds, and
         * nobody else of its id can come here: the way down is closed to it. */
        if (fchmodat(crate->fd, "cgroup.procs", 0666, 0) < 0 ||
            fchmodat(crate->fd, "exec-1/cgroup.procs", 0666, 0) < 0)
                return error_origin(negative_errno());
        return 0;
}

int cgroup_crate_new(CgroupTree *tree, CgroupCrate **ret_crate) {
        _cleanup_(cgroup_crate_freep) CgroupCrate *crate = NULL;
        uint64_t id;
        int r;

        (void) cgroup_tree_sweep(tree);
        if (getrandom(&id, sizeof(id), 0) != sizeof(id))
                return error_origin(negative_errno());

        crate = calloc(1, sizeof(CgroupCrate));
        if (!crate)
                return error_origin(-ENOMEM);

        crate->tree = tree;
        crate->fd = crate->init_fd = crate->exec_fd = -EBADF;
        (void) snprintf(crate->id, sizeof(crate->id), "c-%016" PRIx64, id);
        if (mkdirat(tree->jobs_fd, crate->id, 0755) < 0)
                return error_origin(negative_errno());
        r = open_dir(tree->jobs_fd, crate->id, O_RDONLY, &crate->fd);
        if (r == 0)
                r = make_leaves(crate);
        if (r < 0)
                return error_trace(r);

        *ret_crate = TAKE_PTR(crate);
        return 0;
}

int cgroup_crate_kill(CgroupCrate *crate) {
        return error_trace(write_text(crate->fd, "cgroup.kill", "1"));
}

CgroupCrate *cgroup_crate_free(CgroupCrate *crate) {
        if (!crate)
                return NULL;

        /* After a kill nothing can come to life in it any more. */
        if (crate->fd >= 0)
                (void) cgroup_crate_kill(crate);
        crate_close(crate);
        if (remove_crate(crate->tree->jobs_fd, crate->id) == 0)
                free(crate);
        else
                LIST_INSERT_HEAD(&crate->tree->dying, crate, entry);
        return NULL;
}

int cgroup_crate_init_fd(const CgroupCrate *crate) {
        return crate->init_fd;
}

int cgroup_crate_exec_fd(const CgroupCrate *crate) {
        return crate->exec_fd;
}

/* --- the tree --- */

size_t cgroup_tree_sweep(CgroupTree *tree) {
        CgroupCrate *crate = LIST_FIRST(&tree->dying), *next;
        size_t n = 0;

        for (; crate; crate = next) {
                next = LIST_NEXT(crate, entry);
                if (remove_crate(tree->jobs_fd, crate->id) < 0) {
                        n++;
                        continue;
                }
                LIST_REMOVE(crate, entry);
                free(crate);
        }
        return n;
}

int cgroup_tree_launcher_fd(const CgroupTree *tree) {
        return tree->launcher_fd;
}

CgroupTree *cgroup_tree_free(CgroupTree *tree) {
        uint64_t end = now_usec() + CGROUP_END_USEC;

        if (!tree)
                return NULL;

        while (cgroup_tree_sweep(tree) > 0 && now_usec() < end)
                (void) poll(NULL, 0, CGROUP_LOOK_MSEC);
        while (!LIST_EMPTY(&tree->dying)) {
                CgroupCrate *crate = LIST_FIRST(&tree->dying);

                LIST_REMOVE(crate, entry);
                free(crate);
        }
        fd_close(tree->launcher_fd);
        fd_close(tree->jobs_fd);
        free(tree);
        return NULL;
}

static int unavailable(char **ret_reason, const char *reason) {
        *ret_reason = strdup(reason);
        return *ret_reason ? CGROUP_E_UNAVAILABLE : error_origin(-ENOMEM);
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

/*
 * User managers before systemd 253 cannot mark what they delegate (trusted attributes are root's),
 * so our user unit says so in the environment. That is believed only for a cgroup of our own user
 * in which nobody else is: a shell's scope never becomes ours by a stray variable.
 */
static bool is_declared_delegated(int fd) {
        const char *declared = secure_getenv("AGENTCRATE_DELEGATED");
        _cleanup_(fd_closep) int procs_fd = -EBADF;
        char text[64] = {}, own[32];
        struct stat st;

        if (!string_equal(declared, "1") || fstat(fd, &st) < 0 || st.st_uid != geteuid())
                return false;
        procs_fd = openat(fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
        if (procs_fd < 0 || read(procs_fd, text, sizeof(text) - 1) < 0)
                return false;
        (void) snprintf(own, sizeof(own), "%d\n", getpid());
        return string_equal(text, own);
}

static int find_delegated(int *ret_fd, char **ret_reason) {
        _cleanup_(strbuf_done) StrBuf cgroup = STRBUF_NULL, mountinfo = STRBUF_NULL;
        _cleanup_(freep) char *path = NULL;
        _cleanup_(fd_closep) int fd = -EBADF;
        int r;

        r = read_text("/proc/self/cgroup", &cgroup);
        if (r == 0)
                r = read_text("/proc/self/mountinfo", &mountinfo);
        if (r < 0)
                return error_trace(r);

        r = cgroup_path_find(cgroup.data ?: "", mountinfo.data ?: "", &path);
        if (r < 0)
                return error_trace(r);
        if (r > 0)
                return unavailable(ret_reason, "no cgroup2 hierarchy holds this process");

        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return unavailable(ret_reason, "the own cgroup cannot be opened");
        if (!is_delegated(fd) && !is_declared_delegated(fd))
                return unavailable(ret_reason, "the own cgroup is not delegated (Delegate=yes)");
        if (faccessat(fd, ".", W_OK, AT_EACCESS) < 0 ||
            faccessat(fd, "cgroup.procs", W_OK, AT_EACCESS) < 0)
                return unavailable(ret_reason, "the own cgroup is not writable");

        *ret_fd = TAKE_FD(fd);
        return 0;
}

static void remove_leftover(CgroupTree *tree, const char *id) {
        CgroupCrate *crate;

        crate = calloc(1, sizeof(CgroupCrate));
        if (!crate)
                return;

        crate->tree = tree;
        crate->fd = crate->init_fd = crate->exec_fd = -EBADF;
        memcpy(crate->id, id, strlen(id));
        (void) open_dir(tree->jobs_fd, id, O_RDONLY, &crate->fd);
        cgroup_crate_free(crate);
}

/* What was left by a process that could not clean up. Only while no one else uses the tree. */
static void remove_leftovers(CgroupTree *tree) {
        _cleanup_(fd_closep) int fd = -EBADF;
        struct dirent *entry;
        DIR *dir;

        if (flock(tree->jobs_fd, LOCK_EX | LOCK_NB) < 0 ||
            open_dir(tree->jobs_fd, ".", O_RDONLY, &fd) < 0)
                return;

        dir = fdopendir(fd);
        if (!dir)
                return;
        fd = -EBADF; /* it is the directory's now */

        while ((entry = readdir(dir)))
                if (string_after(entry->d_name, "c-") && strlen(entry->d_name) < CGROUP_ID_SIZE)
                        remove_leftover(tree, entry->d_name);
        (void) closedir(dir);
}

static int tree_make(CgroupTree *tree, int root_fd) {
        _cleanup_(fd_closep) int broker_fd = -EBADF;
        int r;

        r = make_part(root_fd, "broker", O_RDONLY, &broker_fd);
        if (r == 0)
                r = make_part(root_fd, "launcher", O_PATH, &tree->launcher_fd);
        if (r == 0)
                r = make_part(root_fd, "jobs", O_RDONLY, &tree->jobs_fd);
        if (r < 0)
                return error_trace(r);

        remove_leftovers(tree);
        /* Held as long as the tree is used. */
        if (flock(tree->jobs_fd, LOCK_SH | LOCK_NB) < 0)
                return error_origin(negative_errno());
        return error_trace(write_text(broker_fd, "cgroup.procs", "0"));
}

int cgroup_tree_open(CgroupTree **ret_tree, char **ret_reason) {
        _cleanup_(cgroup_tree_freep) CgroupTree *tree = NULL;
        _cleanup_(fd_closep) int root_fd = -EBADF;
        int r;

        r = find_delegated(&root_fd, ret_reason);
        if (r != 0)
                return r;

        tree = calloc(1, sizeof(CgroupTree));
        if (!tree)
                return error_origin(-ENOMEM);

        tree->launcher_fd = tree->jobs_fd = -EBADF;
        LIST_INIT(&tree->dying);
        r = tree_make(tree, root_fd);
        if (r < 0)
                return error_trace(r);

        *ret_tree = TAKE_PTR(tree);
        return 0;
}
