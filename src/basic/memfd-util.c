/* SPDX-License-Identifier: Apache-2.0 */

#include "basic/memfd-util.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "basic/error.h"
#include "basic/macros.h"

#define MEMFD_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int memfd_new_sealed(const char *name, const void *data, size_t size, int *ret_fd) {
        _cleanup_(fd_closep) int fd = -EBADF;
        size_t done = 0;

        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0)
                return error_origin(negative_errno());

        while (done < size) {
                ssize_t n = pwrite(fd, (const char *) data + done, size - done, (off_t) done);

                if (n < 0 && errno != EINTR)
                        return error_origin(negative_errno());
                if (n > 0)
                        done += (size_t) n;
        }

        if (fcntl(fd, F_ADD_SEALS, MEMFD_SEALS) < 0)
                return error_origin(negative_errno());

        *ret_fd = TAKE_FD(fd);
        return 0;
}

int memfd_map_sealed(int fd, size_t size_max, const void **ret_data, size_t *ret_size) {
        struct stat st;
        void *data;
        int seals;

        seals = fcntl(fd, F_GET_SEALS);
        if (seals < 0)
                return error_origin(negative_errno());
        if ((seals & MEMFD_SEALS) != MEMFD_SEALS)
                return error_origin(-EPERM);
        if (fstat(fd, &st) < 0)
                return error_origin(negative_errno());
        if (st.st_size <= 0 || (uint64_t) st.st_size > size_max)
                return error_origin(-EFBIG);

        data = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED)
                return error_origin(negative_errno());

        *ret_data = data;
        *ret_size = (size_t) st.st_size;
        return 0;
}
