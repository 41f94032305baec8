#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>

#include "mpi_interop/local_name.hpp"
#include "pipeline/descriptor.hpp"

namespace cldist {

[[nodiscard]] sockaddr_un address_of(const LocalName &name, socklen_t &size);

/// Opens a datagram socket with a random name. Returns nothing and sets errno on failure.
[[nodiscard]] Descriptor open_local_socket(LocalName &name);

/// Sends `content`, and `descriptor` if it is not negative, without waiting. Returns false and sets
/// errno on failure.
template <typename T>
bool send_with(int socket, const T &content, int descriptor, const sockaddr_un *to = nullptr,
               socklen_t to_size = 0) {
    T copy = content;
    iovec part{&copy, sizeof copy};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> extra{};
    msghdr message{};
    message.msg_name = const_cast<sockaddr_un *>(to);
    message.msg_namelen = to_size;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (descriptor >= 0) {
        message.msg_control = extra.data();
        message.msg_controllen = extra.size();
        cmsghdr *const header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof descriptor);
        std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    }
    return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) ==
           static_cast<ssize_t>(sizeof copy);
}

/// Receives a message without waiting. Returns false if there is none. If the message has another
/// size, `content` becomes T{}. The descriptor is missing if this process has reached its limit of
/// open files. `sender`, if not null, receives the user id of the sender; the socket must have
/// SO_PASSCRED.
template <typename T>
bool receive_with(int socket, T &content, Descriptor &descriptor, uid_t *sender = nullptr) {
    iovec part{&content, sizeof content};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(ucred))> extra{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = extra.data();
    message.msg_controllen = extra.size();
    const ssize_t bytes = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (bytes <= 0) return false;
    descriptor = {};
    for (cmsghdr *header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET) continue;
        if (header->cmsg_type == SCM_RIGHTS) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
            descriptor = Descriptor(fd);
        }
        if (header->cmsg_type == SCM_CREDENTIALS && sender != nullptr) {
            ucred maker{};
            std::memcpy(&maker, CMSG_DATA(header), sizeof maker);
            *sender = maker.uid;
        }
    }
    if (bytes != static_cast<ssize_t>(sizeof content)) content = T{};
    return true;
}

}  // namespace cldist
