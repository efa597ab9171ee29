/* SPDX-License-Identifier: Apache-2.0 */

/* Files, devices and mounts. Relative names are those of the working directory. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "probe.h"

#define NR_FCHMODAT2 452

static void answer_open(char *const *args) {
        int flags = strcmp(args[1], "w") == 0    ? O_WRONLY
                    : strcmp(args[1], "rw") == 0 ? O_RDWR
                                                 : O_RDONLY;
        _cleanup_(fd_closep) int fd = open(args[0], flags | O_CLOEXEC | O_NONBLOCK);

        say_result(fd < 0 ? -errno : 0);
}

static void answer_write(char *const *args) {
        _cleanup_(fd_closep) int fd = open(args[0], O_WRONLY | O_CLOEXEC);

        say_result(fd < 0 ? -errno : result_of(write(fd, args[1], strlen(args[1]))));
}

static void answer_create(char *const *args) {
        _cleanup_(fd_closep) int fd = open(args[0], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        say_result(fd < 0 ? -errno : 0);
}

/* How many bytes a file shows. */
static void answer_read(char *const *args) {
        _cleanup_(fd_closep) int fd = open(args[0], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        char buffer[4096];
        long total = 0;
        ssize_t n;

        if (fd < 0) {
                say_result(-errno);
                return;
        }
        while ((n = read(fd, buffer, sizeof(buffer))) > 0)
                total += n;
        if (n < 0 && total == 0)
                say_result(-errno);
        else
                say("%ld bytes", total);
}

static void answer_exists(char *const *args) {
        struct stat st;

        say_result(result_of(lstat(args[0], &st)));
}

static void answer_list(char *const *args) {
        struct dirent **entries = NULL;
        int n = scandir(args[0], &entries, NULL, alphasort), said = 0;

        if (n < 0) {
                say_result(-errno);
                return;
        }
        for (int i = 0; i < n; i++) {
                if (strcmp(entries[i]->d_name, ".") != 0 && strcmp(entries[i]->d_name, "..") != 0)
                        say("%s%s", said++ > 0 ? " " : "", entries[i]->d_name);
                free(entries[i]);
        }
        free(entries);
        if (said == 0)
                say("empty");
}

/* "char 1:3 666", "dir 755", "file 644" … */
static void answer_stat(char *const *args) {
        struct stat st;

        if (lstat(args[0], &st) < 0) {
                say_result(-errno);
                return;
        }
        if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))
                say("%s %u:%u", S_ISCHR(st.st_mode) ? "char" : "block", major(st.st_rdev),
                    minor(st.st_rdev));
        else
                say("%s", S_ISDIR(st.st_mode)    ? "dir"
                          : S_ISREG(st.st_mode)  ? "file"
                          : S_ISLNK(st.st_mode)  ? "link"
                          : S_ISFIFO(st.st_mode) ? "fifo"
                                                 : "socket");
        say(" %o", st.st_mode & 07777U);
}

static void answer_filesystem(char *const *args) {
        struct statfs fs;

        if (statfs(args[0], &fs) < 0)
                say_result(-errno);
        else
                say("%lx", (unsigned long) fs.f_type);
}

static void answer_mknod(char *const *args) {
        mode_t type = strcmp(args[0], "char") == 0    ? S_IFCHR
                      : strcmp(args[0], "block") == 0 ? S_IFBLK
                      : strcmp(args[0], "fifo") == 0  ? S_IFIFO
                                                      : S_IFREG;
        char name[] = "probe-node";
        long result = result_of(mknod(name, type | 0600, makedev(1, 3)));

        (void) unlink(name);
        say_result(result);
}

static void answer_ioctl(char *const *args) {
        char buffer[256] = " ";

        say_result(result_of(syscall(SYS_ioctl, number(args[0]), number(args[1]), buffer)));
}

/* --- set-id bits --- */

typedef struct Setid {
        const char *name;
        long (*make)(const char *file, int fd, const char *new_name);
} Setid;

static long setid_chmod_u(const char *file, int fd _unused_, const char *new_name _unused_) {
        return syscall(SYS_chmod, file, 04755L);
}

static long setid_chmod_g(const char *file, int fd _unused_, const char *new_name _unused_) {
        return syscall(SYS_chmod, file, 02755L);
}

static long setid_chmod_high(const char *file, int fd _unused_, const char *new_name _unused_) {
        return syscall(SYS_chmod, file, 0x100000000L | 04755);
}

static long setid_fchmod(const char *file _unused_, int fd, const char *new_name _unused_) {
        return syscall(SYS_fchmod, fd, 04755L);
}

static long setid_fchmodat(const char *file, int fd _unused_, const char *new_name _unused_) {
        return syscall(SYS_fchmodat, AT_FDCWD, file, 04755L);
}

static long setid_fchmodat2(const char *file, int fd _unused_, const char *new_name _unused_) {
        return syscall(NR_FCHMODAT2, AT_FDCWD, file, 04755L, 0L);
}

static long setid_open(const char *file _unused_, int fd _unused_, const char *new_name) {
        return syscall(SYS_open, new_name, O_WRONLY | O_CREAT, 04755L);
}

static long setid_openat(const char *file _unused_, int fd _unused_, const char *new_name) {
        return syscall(SYS_openat, AT_FDCWD, new_name, O_WRONLY | O_CREAT, 02755L);
}

static long setid_tmpfile(const char *file _unused_, int fd _unused_, const char *new_name) {
        long r = syscall(SYS_openat, AT_FDCWD, ".", O_WRONLY | O_TMPFILE, 04755L);

        /* Without a name it would be harmless, but a link gives it one. */
        if (r >= 0 && linkat((int) r, "", AT_FDCWD, new_name, AT_EMPTY_PATH) < 0)
                return r;
        return r;
}

static long setid_openat2(const char *file _unused_, int fd _unused_, const char *new_name) {
        struct open_how how = {.flags = O_WRONLY | O_CREAT, .mode = 04755};

        return syscall(SYS_openat2, AT_FDCWD, new_name, &how, sizeof(how));
}

static long setid_creat(const char *file _unused_, int fd _unused_, const char *new_name) {
        return syscall(SYS_creat, new_name, 04755L);
}

static long setid_mkdir(const char *file _unused_, int fd _unused_, const char *new_name) {
        return syscall(SYS_mkdir, new_name, 02777L);
}

static long setid_mkdirat(const char *file _unused_, int fd _unused_, const char *new_name) {
        return syscall(SYS_mkdirat, AT_FDCWD, new_name, 02777L);
}

static long setid_mknod(const char *file _unused_, int fd _unused_, const char *new_name) {
        return syscall(SYS_mknod, new_name, (long) (S_IFREG | 04755), 0L);
}

static long setid_mknodat(const char *file _unused_, int fd _unused_, const char *new_name) {
        return syscall(SYS_mknodat, AT_FDCWD, new_name, (long) (S_IFREG | 02755), 0L);
}

static const Setid setids[] = {
        {"chmod_u", setid_chmod_u}, {"chmod_g", setid_chmod_g},   {"chmod_high", setid_chmod_high},
        {"fchmod", setid_fchmod},   {"fchmodat", setid_fchmodat}, {"fchmodat2", setid_fchmodat2},
        {"open", setid_open},       {"openat", setid_openat},     {"tmpfile", setid_tmpfile},
        {"openat2", setid_openat2}, {"creat", setid_creat},       {"mkdir", setid_mkdir},
        {"mkdirat", setid_mkdirat}, {"mknod", setid_mknod},       {"mknodat", setid_mknodat},
};

/* Leaves what it could make, for the host to look at. */
static void answer_setid(char *const *args) {
        char file[64], new_name[64];
        _cleanup_(fd_closep) int fd = -EBADF;

        (void) snprintf(file, sizeof(file), "setid-%s-file", args[0]);
        (void) snprintf(new_name, sizeof(new_name), "setid-%s-new", args[0]);
        fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0) {
                say("create ");
                say_result(-errno);
                return;
        }
        for (size_t i = 0; i < ELEMENTSOF(setids); i++)
                if (strcmp(setids[i].name, args[0]) == 0) {
                        say_result(result_of(setids[i].make(file, fd, new_name)));
                        return;
                }
        say("unknown way");
}

/* --- the whole tree --- */

static struct {
        size_t sockets, cgroup_files, devices;
        char example[256];
} found;

static bool entry_is_odd(const char *path, const char *name, unsigned char type) {
        switch (type) {
        case DT_SOCK:
                return ++found.sockets;
        case DT_CHR:
        case DT_BLK:
                return strncmp(path, "/dev", 4) != 0 && ++found.devices;
        case DT_REG:
                return (strcmp(name, "release_agent") == 0 || strcmp(name, "cgroup.procs") == 0) &&
                       ++found.cgroup_files;
        default:
                return false;
        }
}

/* By the types that the folders tell: a stat of each file would take several times as long. */
static void walk_folder(int parent, const char *name, const char *path) {
        _cleanup_(fd_closep) int fd =
                openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct dirent *entry;
        DIR *folder;

        folder = fd < 0 ? NULL : fdopendir(fd);
        if (!folder)
                return;
        while ((entry = readdir(folder))) {
                _cleanup_(freep) char *below = NULL;

                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
                    asprintf(&below, "%s/%s", path, entry->d_name) < 0)
                        continue;
                if (entry_is_odd(path, entry->d_name, entry->d_type) && !found.example[0])
                        (void) snprintf(found.example, sizeof(found.example), " (%s)", below);
                if (entry->d_type == DT_DIR && strcmp(below, "/proc") != 0)
                        walk_folder(fd, entry->d_name, below);
        }
        (void) TAKE_FD(fd);
        (void) closedir(folder);
}

static void answer_walk(char *const *args) {
        walk_folder(AT_FDCWD, args[0], strcmp(args[0], "/") == 0 ? "" : args[0]);
        say("sockets %zu, cgroup files %zu, devices %zu%s", found.sockets, found.cgroup_files,
            found.devices, found.example);
}

/* Mount points that lack an option, space-separated; "none" if all have it. */
static void answer_mounts_without(char *const *args) {
        _cleanup_(freep) char *line = NULL;
        FILE *mounts = fopen("/proc/self/mounts", "re");
        size_t size = 0, n = 0, length = strlen(args[0]);

        if (!mounts) {
                say_result(-errno);
                return;
        }
        while (getline(&line, &size, mounts) > 0) {
                char *rest = line, *options, *option, *path;
                bool has = false;

                (void) strsep(&rest, " ");
                path = strsep(&rest, " ");
                (void) strsep(&rest, " ");
                options = strsep(&rest, " ");
                while ((option = strsep(&options, ",")))
                        has = has || (strncmp(option, args[0], length) == 0 && !option[length]);
                if (!has)
                        say("%s%s", n++ > 0 ? " " : "", path ?: "?");
        }
        if (n == 0)
                say("none");
        (void) fclose(mounts);
}

/* --- filling up --- */

static void answer_fill(char *const *args) {
        static char chunk[1 << 16];
        _cleanup_(fd_closep) int fd = open(args[0], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        unsigned long long most = number(args[1]), total = 0;
        long n = 0;

        if (fd < 0) {
                say_result(-errno);
                return;
        }
        memset(chunk, 'f', sizeof(chunk));
        while (total < most && (n = write(fd, chunk, sizeof(chunk))) > 0)
                total += (unsigned long long) n;
        say("%llu ", total);
        say_result(result_of(n));
}

static void answer_fill_inodes(char *const *args) {
        unsigned long long most = number(args[1]), n;

        if (mkdir(args[0], 0700) < 0 || chdir(args[0]) < 0) {
                say_result(-errno);
                return;
        }
        for (n = 0; n < most; n++) {
                char name[32];
                int fd;

                (void) snprintf(name, sizeof(name), "%llu", n);
                fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
                if (fd < 0) {
                        int error = errno;

                        say("%llu ", n);
                        say_result(-error);
                        return;
                }
                (void) close(fd);
        }
        say("%llu OK", n);
}

const Question probe_files[] = {
        {"open", 2, false, answer_open},
        {"write", 2, false, answer_write},
        {"create", 1, false, answer_create},
        {"read", 1, false, answer_read},
        {"exists", 1, false, answer_exists},
        {"list", 1, false, answer_list},
        {"stat", 1, false, answer_stat},
        {"filesystem", 1, false, answer_filesystem},
        {"mknod", 1, false, answer_mknod},
        {"ioctl", 2, false, answer_ioctl},
        {"setid", 1, false, answer_setid},
        {"walk", 1, false, answer_walk},
        {"mounts-without", 1, false, answer_mounts_without},
        {"fill", 2, false, answer_fill},
        {"fill-inodes", 2, false, answer_fill_inodes},
        {},
};
