/* SPDX-License-Identifier: Apache-2.0 */

#include "crate/subuid.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "basic/error.h"

#define SUBUID_FOLDER "/run/agentcrate"
#define SUBUID_FILE SUBUID_FOLDER "/subuids"
#define SUBUID_REMEDY "set subuid_range in agentcrated.json to ids that exist here"

struct SubuidPool {
        int fd;
        uint64_t base, count;
        /* Bits, of this process: locks of one description do not exclude each other. */
        uint8_t *held;
        uint64_t next; /* where the search begins, so that a uid is not used again at once */
};

static bool is_held(const SubuidPool *pool, uint64_t n) {
        return pool->held[n / 8] & (1U << n % 8);
}

static void set_held(SubuidPool *pool, uint64_t n, bool held) {
        uint8_t bit = (uint8_t) (1U << n % 8);

        pool->held[n / 8] = (uint8_t) (held ? pool->held[n / 8] | bit : pool->held[n / 8] & ~bit);
}

SubuidPool *subuid_pool_free(SubuidPool *pool) {
        if (!pool)
                return NULL;
        pool->fd = fd_close(pool->fd);
        free(pool->held);
        free(pool);
        return NULL;
}

/* Whether [base, base + count) lies within one line of that map file; the host's own namespace has
 * one line for all. */
static bool range_is_mapped(const char *map, uint64_t base, uint64_t count) {
        uint64_t inside, outside, n;
        bool mapped = false;
        FILE *file;

        file = fopen(map, "re");
        if (!file)
                return false;
        while (!mapped &&
               fscanf(file, "%" SCNu64 " %" SCNu64 " %" SCNu64, &inside, &outside, &n) == 3)
                mapped = base >= inside && base - inside < n && count <= n - (base - inside);
        (void) fclose(file);
        return mapped;
}

bool subuid_range_is_mapped(uint64_t base, uint64_t count) {
        return count > 0 && range_is_mapped("/proc/self/uid_map", base, count) &&
               range_is_mapped("/proc/self/gid_map", base, count);
}

static int open_lock_file(CrateError *ret_error) {
        struct stat st;
        int fd, error;

        fd = open(SUBUID_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 && errno == ENOENT && (mkdir(SUBUID_FOLDER, 0755) == 0 || errno == EEXIST))
                fd = open(SUBUID_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                goto fail;
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != 0) {
                (void) close(fd);
                errno = EPERM;
                goto fail;
        }
        return fd;

fail:
        error = errno;
        (void) crate_error_set(ret_error, "sub-uid", error, SUBUID_FILE,
                               "make " SUBUID_FOLDER " a folder of root's",
                               "the lock file of the sub-uids, " SUBUID_FILE
                               ", cannot be opened: %s",
                               strerror(error));
        return -error;
}

int subuid_pool_new(uint64_t base, uint64_t count, SubuidPool **ret_pool, CrateError *ret_error) {
        _cleanup_(subuid_pool_freep) SubuidPool *pool = NULL;

        if (!subuid_range_is_mapped(base, count)) {
                (void) crate_error_set(ret_error, "sub-uid", EINVAL, NULL, SUBUID_REMEDY,
                                       "the sub-uid range %" PRIu64 "+%" PRIu64
                                       " is not mapped in this user namespace",
                                       base, count);
                return SUBUID_E_FAILED;
        }

        pool = calloc(1, sizeof(*pool));
        if (!pool)
                return error_origin(-ENOMEM);
        *pool = (SubuidPool){.fd = -EBADF, .base = base, .count = count};
        pool->held = calloc((size_t) count / 8 + 1, 1);
        if (!pool->held)
                return error_origin(-ENOMEM);
        pool->fd = open_lock_file(ret_error);
        if (pool->fd < 0)
                return SUBUID_E_FAILED;
        /* Two runners that start together would else both try the same first numbers. */
        pool->next = (uint64_t) getpid() * 61 % count;

        *ret_pool = TAKE_PTR(pool);
        return 0;
}

/* The byte is that of the uid itself, not of its place in the range: pools of different ranges may
 * overlap. */
static int lock_uid(const SubuidPool *pool, uint64_t n, short type) {
        struct flock lock = {
                .l_type = type,
                .l_whence = SEEK_SET,
                .l_start = (off_t) (pool->base + n),
                .l_len = 1,
        };

        return fcntl(pool->fd, F_OFD_SETLK, &lock) < 0 ? negative_errno() : 0;
}

int subuid_acquire(SubuidPool *pool, uint32_t *ret_uid, CrateError *ret_error) {
        for (uint64_t i = 0; i < pool->count; i++) {
                uint64_t n = (pool->next + i) % pool->count;
                int r;

                if (is_held(pool, n))
                        continue;
                r = lock_uid(pool, n, F_WRLCK);
                if (r == -EAGAIN || r == -EACCES)
                        continue;
                if (r < 0)
                        return error_trace(r);
                set_held(pool, n, true);
                pool->next = n + 1;
                *ret_uid = (uint32_t) (pool->base + n);
                return 0;
        }

        (void) crate_error_set(ret_error, "sub-uid", EAGAIN, NULL,
                               "wait for crates to end, or widen subuid_range",
                               "all %" PRIu64 " sub-uids are in use", pool->count);
        return SUBUID_E_FAILED;
}

void subuid_release(SubuidPool *pool, uint32_t uid) {
        uint64_t n = uid - pool->base;

        (void) lock_uid(pool, n, F_UNLCK);
        set_held(pool, n, false);
}

int subuid_pool_get_fd(const SubuidPool *pool) {
        return pool->fd;
}
