// Random numbers: each thread of the program has a stream that is derived from the job's seed, so
// no messages are needed.
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "host/gate.hpp"
#include "host/next.hpp"

namespace cldist::host {
namespace {

// ChaCha20 (RFC 8439), but with a counter of 64 bits and a nonce of two words.
void make_block(const Session &session, Thread &thread, std::uint64_t number) {
    std::array<std::uint32_t, 16> begin{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    std::ranges::copy(session.seed(), begin.begin() + 4);
    begin[12] = static_cast<std::uint32_t>(number);
    begin[13] = static_cast<std::uint32_t>(number >> 32U);
    begin[14] = thread.id;
    begin[15] = session.identity_of_first().number;
    std::array<std::uint32_t, 16> x = begin;
    const auto quarter = [&](std::size_t a, std::size_t b, std::size_t c, std::size_t d) {
        x[a] += x[b], x[d] = std::rotl(x[d] ^ x[a], 16);
        x[c] += x[d], x[b] = std::rotl(x[b] ^ x[c], 12);
        x[a] += x[b], x[d] = std::rotl(x[d] ^ x[a], 8);
        x[c] += x[d], x[b] = std::rotl(x[b] ^ x[c], 7);
    };
    for (int i = 0; i < 10; ++i) {
        quarter(0, 4, 8, 12), quarter(1, 5, 9, 13), quarter(2, 6, 10, 14), quarter(3, 7, 11, 15);
        quarter(0, 5, 10, 15), quarter(1, 6, 11, 12), quarter(2, 7, 8, 13), quarter(3, 4, 9, 14);
    }
    for (std::size_t i = 0; i < x.size(); ++i) thread.block[i] = x[i] + begin[i];
    thread.block_number = number;
}

template <typename T>
T drawn(const Session &session) {
    T value;
    draw(session, &value, sizeof value);
    return value;
}

// Like arc4random_uniform, rejects values that would make some numbers more likely.
std::uint32_t drawn_below(const Session &session, std::uint32_t bound) {
    if (bound < 2) return 0;
    const std::uint32_t least = -bound % bound;
    for (;;)
        if (const auto value = drawn<std::uint32_t>(session); value >= least) return value % bound;
}

}  // namespace

void draw(const Session &session, void *bytes, std::size_t size) {
    Thread &thread = this_thread;
    const Inside inside;
    auto *to = static_cast<std::byte *>(bytes);
    while (size != 0) {
        const std::uint64_t number = thread.drawn / sizeof thread.block;
        const std::size_t offset = thread.drawn % sizeof thread.block;
        if (thread.block_number != number) make_block(session, thread, number);
        const std::size_t part = std::min(size, sizeof thread.block - offset);
        std::memcpy(to, reinterpret_cast<const std::byte *>(thread.block) + offset, part);
        to += part;
        size -= part;
        thread.drawn += part;
    }
}

}  // namespace cldist::host

using namespace cldist::host;

CLDIST_IN_FRONT ssize_t getrandom(void *bytes, std::size_t size, unsigned flags) {
    CLDIST_NEXT(getrandom);
    const Session *const session = wrapped(random_numbers, __builtin_return_address(0));
    if (session == nullptr) return next(bytes, size, flags);
    draw(*session, bytes, size);
    return static_cast<ssize_t>(size);
}

CLDIST_IN_FRONT int getentropy(void *bytes, std::size_t size) {
    CLDIST_NEXT(getentropy);
    const Session *const session = wrapped(random_numbers, __builtin_return_address(0));
    if (session == nullptr || size > 256) return next(bytes, size);
    draw(*session, bytes, size);
    return 0;
}

// These are in glibc since 2.36.
extern "C" {
std::uint32_t arc4random() noexcept;
void arc4random_buf(void *bytes, std::size_t size) noexcept;
std::uint32_t arc4random_uniform(std::uint32_t bound) noexcept;
}

CLDIST_IN_FRONT std::uint32_t arc4random() noexcept {
    CLDIST_NEXT(arc4random);
    const Session *const session = wrapped(random_numbers, __builtin_return_address(0));
    return session == nullptr ? next() : drawn<std::uint32_t>(*session);
}

CLDIST_IN_FRONT void arc4random_buf(void *bytes, std::size_t size) noexcept {
    CLDIST_NEXT(arc4random_buf);
    const Session *const session = wrapped(random_numbers, __builtin_return_address(0));
    if (session == nullptr) return next(bytes, size);
    draw(*session, bytes, size);
}

CLDIST_IN_FRONT std::uint32_t arc4random_uniform(std::uint32_t bound) noexcept {
    CLDIST_NEXT(arc4random_uniform);
    const Session *const session = wrapped(random_numbers, __builtin_return_address(0));
    return session == nullptr ? next(bound) : drawn_below(*session, bound);
}

// std::random_device::_M_getval, which may use the processor's instruction.
extern "C" std::uint32_t _ZNSt13random_device9_M_getvalEv(void *device);
CLDIST_IN_FRONT std::uint32_t _ZNSt13random_device9_M_getvalEv(void *device) {
    CLDIST_NEXT(_ZNSt13random_device9_M_getvalEv);
    const Session *const session = wrapped(random_numbers, __builtin_return_address(0));
    return session == nullptr ? next(device) : drawn<std::uint32_t>(*session);
}
