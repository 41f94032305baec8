/* A preloaded library. It refuses the system calls for shared memory that CLDIST_TEST_REFUSES
 * selects, or reports a run-time limit for kernels (limit). */
#undef _FILE_OFFSET_BITS /* both names of a call are defined here */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CL/cl_ext.h>

static int refuses(const char *what) {
    const char *refused = getenv("CLDIST_TEST_REFUSES");
    return refused != NULL && strcmp(refused, what) == 0;
}

/* Returns 0 for MPI's sockets, which must work. */
static int is_cldists_call(const void *caller) {
    Dl_info info;
    return dladdr(caller, &info) != 0 && info.dli_fname != NULL &&
           strstr(info.dli_fname, "libcldist") != NULL;
}

int socket(int domain, int type, int protocol) {
    static int (*next)(int, int, int);
    if (domain == AF_UNIX && refuses("socket") && is_cldists_call(__builtin_return_address(0))) {
        errno = EACCES;
        return -1;
    }
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "socket");
    }
    return next(domain, type, protocol);
}

int socketpair(int domain, int type, int protocol, int sockets[2]) {
    static int (*next)(int, int, int, int[2]);
    if (domain == AF_UNIX && refuses("socketpair") &&
        is_cldists_call(__builtin_return_address(0))) {
        errno = EMFILE;
        return -1;
    }
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "socketpair");
    }
    return next(domain, type, protocol, sockets);
}

int memfd_create(const char *name, unsigned flags) {
    static int (*next)(const char *, unsigned);
    if (strcmp(name, "cldist") == 0 && refuses("memfd")) {
        errno = EMFILE;
        return -1;
    }
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "memfd_create");
    }
    return next(name, flags);
}

/* Returns 0 for MPI's shared memory, which must work. */
static int is_cldists(int fd) {
    char link[64];
    char name[64] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, name, sizeof name - 1) > 0 &&
           strncmp(name, "/memfd:cldist", strlen("/memfd:cldist")) == 0;
}

int posix_fallocate64(int fd, off64_t offset, off64_t size) {
    static int (*next)(int, off64_t, off64_t);
    if (is_cldists(fd) && refuses("memory")) {
        return ENOSPC;
    }
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "posix_fallocate64");
    }
    return next(fd, offset, size);
}

int posix_fallocate(int fd, off_t offset, off_t size) {
    return posix_fallocate64(fd, offset, size);
}

/* Simulates a process at its limit of descriptors: messages arrive without their descriptors. */
ssize_t recvmsg(int socket_fd, struct msghdr *message, int flags) {
    static ssize_t (*next)(int, struct msghdr *, int);
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "recvmsg");
    }
    ssize_t bytes = next(socket_fd, message, flags);
    int type = 0;
    socklen_t size = sizeof type;
    if (bytes > 0 && message->msg_controllen != 0 &&
        getsockopt(socket_fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
        ((type == SOCK_DGRAM && refuses("link")) || (type == SOCK_SEQPACKET && refuses("ring")))) {
        for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
             header = CMSG_NXTHDR(message, header)) {
            int fd = -1;
            if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
                memcpy(&fd, CMSG_DATA(header), sizeof fd);
                close(fd);
            }
        }
        message->msg_controllen = 0;
        message->msg_flags |= MSG_CTRUNC;
    }
    return bytes;
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void *value,
                       size_t *value_size) {
    static cl_int (*next)(cl_device_id, cl_device_info, size_t, void *, size_t *);
    if (what == CL_DEVICE_KERNEL_EXEC_TIMEOUT_NV && refuses("limit")) {
        if (value != NULL) {
            *(cl_bool *)value = CL_TRUE;
        }
        if (value_size != NULL) {
            *value_size = sizeof(cl_bool);
        }
        return CL_SUCCESS;
    }
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "clGetDeviceInfo");
    }
    return next(device, what, size, value, value_size);
}
