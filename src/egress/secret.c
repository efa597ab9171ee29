/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/secret.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "basic/error.h"
#include "basic/string-util.h"

void secret_wipe(void *data, size_t size) {
        if (data && size > 0)
                explicit_bzero(data, size);
}

/* --- memory --- */

int secret_new(size_t capacity, Secret *ret_secret) {
        size_t page = (size_t) sysconf(_SC_PAGESIZE);
        Secret secret = {.capacity = (capacity + page) / page * page};

        secret.data = mmap(NULL, secret.capacity, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (secret.data == MAP_FAILED)
                return error_origin(negative_errno());
        if (mlock(secret.data, secret.capacity) < 0 ||
            madvise(secret.data, secret.capacity, MADV_DONTDUMP) < 0 ||
            madvise(secret.data, secret.capacity, MADV_WIPEONFORK) < 0) {
                int r = negative_errno();

                (void) munmap(secret.data, secret.capacity);
                return error_origin(r);
        }
        *ret_secret = secret;
        return 0;
}

void secret_done(Secret *secret) {
        if (secret->data) {
                secret_wipe(secret->data, secret->capacity);
                (void) munmap(secret->data, secret->capacity);
        }
        *secret = SECRET_NULL;
}

/* --- folders --- */

void secret_folders_done(SecretFolders *folders) {
        folders->systemd_fd = fd_close(folders->systemd_fd);
        folders->folder_fd = fd_close(folders->folder_fd);
        free(folders->systemd);
        free(folders->folder);
        *folders = SECRET_FOLDERS_NULL;
}

static int open_folder(const char *path, int *ret_fd) {
        int fd;

        if (string_empty(path))
                return 0;
        fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 && errno != ENOENT && errno != ENOTDIR && errno != EACCES)
                return error_origin(negative_errno());
        *ret_fd = fd < 0 ? -EBADF : fd;
        return 0;
}

int secret_folders_open(const char *systemd, const char *folder, SecretFolders *ret_folders) {
        _cleanup_(secret_folders_done) SecretFolders folders = SECRET_FOLDERS_NULL;
        int r;

        r = open_folder(systemd, &folders.systemd_fd);
        if (r == 0)
                r = open_folder(folder, &folders.folder_fd);
        if (r < 0)
                return error_trace(r);
        folders.systemd = strdup(systemd ?: "");
        folders.folder = folder ? strdup(folder) : NULL;
        if (!folders.systemd || (folder && !folders.folder))
                return error_origin(-ENOMEM);
        *ret_folders = folders;
        folders = SECRET_FOLDERS_NULL;
        return 0;
}

int secret_folders_find(bool is_service, SecretFolders *ret_folders) {
        const char *config = secure_getenv("XDG_CONFIG_HOME"), *home = secure_getenv("HOME");
        _cleanup_(freep) char *folder = NULL;
        int r = 0;

        if (is_service || geteuid() == 0)
                r = asprintf(&folder, "%s/credentials", SYSCONFDIR);
        else if (config && config[0] == '/')
                r = asprintf(&folder, "%s/agentcrate/credentials", config);
        else if (home && home[0] == '/')
                r = asprintf(&folder, "%s/.config/agentcrate/credentials", home);
        if (r < 0) {
                folder = NULL;
                return error_origin(-ENOMEM);
        }
        r = secret_folders_open(secure_getenv("CREDENTIALS_DIRECTORY"), folder, ret_folders);
        if (r == 0)
                ret_folders->is_service = is_service;
        return error_trace(r);
}

/* --- reading --- */

static bool name_is_valid(const char *name) {
        size_t n =
                strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-");

        return n > 0 && n <= SECRET_NAME_MAX && name[n] == 0 && name[0] != '.';
}

/* --- faults --- */

static const struct {
        const char *text, *remedy;
} faults[_SECRET_FAULT_MAX] = {
        [SECRET_BAD_NAME] = {"has a name that is none", "give one of letters, digits, _, . and -"},
        [SECRET_MISSING] = {"is missing", "write it to its file"},
        [SECRET_UNREADABLE] = {"cannot be read by agentcrate-egress",
                               "chown its file to the user that this runs as, with mode 0600"},
        [SECRET_LINK] = {"is a link", "put the file itself in its place"},
        [SECRET_UNOPENED] = {"cannot be opened", "put a file of mode 0600 in its place"},
        [SECRET_NO_FILE] = {"is no file", "put a file of that name in its place"},
        [SECRET_WORLD] = {"can be read by everybody",
                          "chmod 0600 its file, and replace it where it is used, for it is known "
                          "now"},
        [SECRET_GROUP] = {"can be read by its group", "chmod 0600 its file"},
        [SECRET_FOREIGN] = {"belongs to another user",
                            "chown its file to the user that agentcrate-egress runs as"},
        [SECRET_UNLOCKED] = {"cannot be kept", "memory cannot be locked (see RLIMIT_MEMLOCK)"},
        [SECRET_BROKEN] = {"cannot be read", "write it anew"},
        [SECRET_EMPTY] = {"is empty", "write it to its file"},
        [SECRET_LINES] = {"has more than one line",
                          "it can have one only, with or without a line end (\\n) behind it"},
        [SECRET_LONG] = {"is longer than 4096 bytes", "write the secret and nothing else"},
        [SECRET_BYTES] = {"holds a byte that is not printable ASCII",
                          "write it as the upstream expects it in a header, in base64 for example"},
        [SECRET_SPACE] = {"begins or ends with a space", "take it away"},
        [SECRET_SHORT] = {"is shorter than 8 bytes, too short to be found in replies",
                          "have the upstream give a longer one"},
};

const char *secret_fault_text(SecretFault fault) {
        return faults[fault].text;
}

const char *secret_fault_remedy(SecretFault fault) {
        return faults[fault].remedy;
}

static int refuse(SecretFault fault, SecretFault *ret_fault) {
        *ret_fault = fault;
        return SECRET_E_UNUSABLE;
}

/* What systemd puts there is for this service alone; who else may read it is its matter, but for
 * everybody. A file of ours is its owner's only. */
static SecretFault find_fault(const struct stat *st, SecretPlace place) {
        if (!S_ISREG(st->st_mode))
                return SECRET_NO_FILE;
        if (st->st_mode & S_IRWXO)
                return SECRET_WORLD;
        if (place == SECRET_OF_FOLDER && st->st_mode & S_IRWXG)
                return SECRET_GROUP;
        if (place == SECRET_OF_FOLDER && st->st_uid != geteuid() && st->st_uid != 0)
                return SECRET_FOREIGN;
        return SECRET_GOOD;
}

static int read_all(int fd, Secret *secret) {
        for (;;) {
                ssize_t n =
                        read(fd, secret->data + secret->size, SECRET_SIZE_MAX + 2 - secret->size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return error_origin(negative_errno());
                if (n == 0)
                        break;
                secret->size += (size_t) n;
        }
        return 0;
}

/* One line end behind it is what an editor or echo left. */
static SecretFault trim_and_check(Secret *secret) {
        if (secret->size > 0 && secret->data[secret->size - 1] == '\n')
                secret->size--;
        if (secret->size == 0)
                return SECRET_EMPTY;
        if (memchr(secret->data, '\n', secret->size) || memchr(secret->data, '\r', secret->size))
                return SECRET_LINES;
        if (secret->size > SECRET_SIZE_MAX)
                return SECRET_LONG;
        for (size_t i = 0; i < secret->size; i++)
                if (secret->data[i] < ' ' || secret->data[i] > '~')
                        return SECRET_BYTES;
        if (secret->data[0] == ' ' || secret->data[secret->size - 1] == ' ')
                return SECRET_SPACE;
        if (secret->size < SECRET_SIZE_MIN)
                return SECRET_SHORT;
        secret_wipe(secret->data + secret->size, secret->capacity - secret->size);
        return SECRET_GOOD;
}

static SecretFault fault_of_open(int error) {
        return error == EACCES   ? SECRET_UNREADABLE
               : error == ELOOP  ? SECRET_LINK
               : error == ENOENT ? SECRET_MISSING
                                 : SECRET_UNOPENED;
}

int secret_load_file(int folder_fd, const char *file, SecretPlace place, Secret *ret_secret,
                     SecretFault *ret_fault) {
        _cleanup_(secret_done) Secret secret = SECRET_NULL;
        _cleanup_(fd_closep) int fd = -EBADF;
        SecretFault fault;
        struct stat st;

        fd = openat(folder_fd, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return refuse(fault_of_open(errno), ret_fault);
        if (fstat(fd, &st) < 0)
                return error_origin(negative_errno());
        fault = find_fault(&st, place);
        if (fault != SECRET_GOOD)
                return refuse(fault, ret_fault);
        if (secret_new(SECRET_SIZE_MAX + 2, &secret) < 0)
                return refuse(SECRET_UNLOCKED, ret_fault);
        if (read_all(fd, &secret) < 0)
                return refuse(SECRET_BROKEN, ret_fault);
        fault = trim_and_check(&secret);
        if (fault != SECRET_GOOD)
                return refuse(fault, ret_fault);
        *ret_secret = secret;
        secret = SECRET_NULL;
        *ret_fault = SECRET_GOOD;
        return 0;
}

static bool is_there(int folder_fd, const char *name) {
        struct stat st;

        return folder_fd >= 0 &&
               (fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT);
}

int secret_find(const SecretFolders *folders, const char *name, Secret *ret_secret,
                SecretPlace *ret_place, SecretFault *ret_fault) {
        *ret_place = SECRET_NOWHERE;
        if (!name_is_valid(name))
                return refuse(SECRET_BAD_NAME, ret_fault);
        if (is_there(folders->systemd_fd, name))
                *ret_place = SECRET_OF_SYSTEMD;
        else if (is_there(folders->folder_fd, name))
                *ret_place = SECRET_OF_FOLDER;
        else
                return refuse(SECRET_MISSING, ret_fault);
        return secret_load_file(*ret_place == SECRET_OF_SYSTEMD ? folders->systemd_fd
                                                                : folders->folder_fd,
                                name, *ret_place, ret_secret, ret_fault);
}

#define BY_UNIT "LoadCredential= or LoadCredentialEncrypted="

/* The way that is usual there comes first. */
static int missing(const SecretFolders *folders, const char *name, char **ret_text) {
        const char *folder = folders->folder ?: "credentials";

        if (folders->is_service)
                return outcome_text(
                        SECRET_E_UNUSABLE, ret_text,
                        "the secret %s is missing: give it to agentcrate-egress by " BY_UNIT
                        ", or write it to %s/%s with mode 0600",
                        name, folder, name);
        return outcome_text(SECRET_E_UNUSABLE, ret_text,
                            "the secret %s is missing: write it to %s/%s with mode 0600, or give "
                            "it to the service that uses it by " BY_UNIT,
                            name, folder, name);
}

int secret_load(const SecretFolders *folders, const char *name, Secret *ret_secret,
                char **ret_text) {
        SecretPlace place;
        SecretFault fault;
        int r;

        r = secret_find(folders, name, ret_secret, &place, &fault);
        if (r <= 0)
                return r;
        if (fault == SECRET_BAD_NAME)
                return outcome_text(SECRET_E_UNUSABLE, ret_text, "a secret %s",
                                    secret_fault_text(fault));
        if (fault == SECRET_MISSING)
                return missing(folders, name, ret_text);
        return outcome_text(SECRET_E_UNUSABLE, ret_text, "the secret %s %s: %s; its file is %s/%s",
                            name, secret_fault_text(fault), secret_fault_remedy(fault),
                            place == SECRET_OF_SYSTEMD ? folders->systemd : folders->folder, name);
}
