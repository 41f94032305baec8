#include "host_channel.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

namespace cldist::tool {
namespace {

namespace fs = std::filesystem;
using host::Channel;

constexpr int connect_ms = 3000;
// The maximum number of connections without greeting. A further connection closes the oldest one.
constexpr std::size_t most_strangers = 256;
constexpr int look_again_ms = 200;
constexpr std::size_t piece = std::size_t{64} << 10U;

/// A rank has reached a barrier.
struct AtBarrier {
    std::uint64_t rank;
    std::uint64_t number;
};

[[noreturn]] void fail(const char *what) {
    throw std::system_error(errno, std::generic_category(), what);
}

bool send_all(int socket, const void *bytes, std::size_t size) {
    for (const auto *at = static_cast<const char *>(bytes); size != 0;) {
        const ssize_t part = send(socket, at, size, MSG_NOSIGNAL);
        if (part < 0 && errno == EINTR) continue;
        if (part <= 0) return false;
        at += part;
        size -= static_cast<std::size_t>(part);
    }
    return true;
}

bool receive_all(int socket, void *bytes, std::size_t size) {
    return recv(socket, bytes, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

// Threads of this tool block all signals, so that the thread that waits for signals gets them.
template <typename Body>
std::thread quiet_thread(Body body) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread thread(body);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
}

void no_delay(int socket) {
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool is_loopback(in_addr address) { return (ntohl(address.s_addr) >> 24U) == 127; }

void add_once(std::vector<in_addr> &addresses, in_addr address) {
    if (std::ranges::none_of(addresses,
                             [&](in_addr each) { return each.s_addr == address.s_addr; }))
        addresses.push_back(address);
}

// This host's address on the route to another host; empty if the other host has no address.
std::optional<in_addr> address_towards(const std::string &host) {
    addrinfo *found = nullptr;
    addrinfo hints{};
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_DGRAM;
    if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return std::nullopt;
    const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in own{};
    socklen_t size = sizeof own;
    // connect() on a datagram socket sends nothing.
    const bool is_known = connect(socket, found->ai_addr, found->ai_addrlen) == 0 &&
                          getsockname(socket, reinterpret_cast<sockaddr *>(&own), &size) == 0;
    freeaddrinfo(found);
    if (socket >= 0) close(socket);
    if (!is_known) return std::nullopt;
    return own.sin_addr;
}

std::vector<in_addr> own_addresses() {
    std::vector<in_addr> addresses;
    ifaddrs *all = nullptr;
    if (getifaddrs(&all) != 0) return addresses;
    for (const ifaddrs *one = all; one != nullptr; one = one->ifa_next)
        if (one->ifa_addr != nullptr && (one->ifa_flags & IFF_UP) != 0 &&
            one->ifa_addr->sa_family == AF_INET)
            addresses.push_back(reinterpret_cast<const sockaddr_in *>(one->ifa_addr)->sin_addr);
    freeifaddrs(all);
    return addresses;
}

// The addresses of this host to which ranks on `hosts` may connect; all addresses if `hosts` is
// empty or the address of a host is unknown.
std::vector<in_addr> addresses_for(const std::vector<std::string> &hosts) {
    std::vector<in_addr> addresses;
    for (const std::string &host : hosts) {
        const std::optional<in_addr> address = address_towards(host);
        if (!address) {
            addresses.clear();
            break;
        }
        add_once(addresses, *address);
    }
    if (addresses.empty()) addresses = own_addresses();
    // Loopback addresses come last, because on another host they refer to that host.
    std::ranges::stable_partition(addresses, [](in_addr address) { return !is_loopback(address); });
    return addresses;
}

std::string text_of(in_addr address) {
    std::array<char, INET_ADDRSTRLEN> text{};
    return inet_ntop(AF_INET, &address, text.data(), text.size());
}

// Returns the connection, or none with errno.
Descriptor connect_to(const std::string &address, const std::string &port) {
    addrinfo *found = nullptr;
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(address.c_str(), port.c_str(), &hints, &found) != 0) {
        errno = EADDRNOTAVAIL;
        return {};
    }
    Descriptor connection(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    int error = connect(connection.get(), found->ai_addr, found->ai_addrlen) == 0 ? 0 : errno;
    freeaddrinfo(found);
    if (error == EINPROGRESS) {
        pollfd ready{connection.get(), POLLOUT, 0};
        socklen_t size = sizeof error;
        if (poll(&ready, 1, connect_ms) != 1 ||
            getsockopt(connection.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            error = ETIMEDOUT;
    }
    if (error != 0) {
        connection = {};
        errno = error;
        return {};
    }
    fcntl(connection.get(), F_SETFL, 0);
    no_delay(connection.get());
    return connection;
}

void close_channel(Channel &channel) {
    channel.closed = 1;
    host::wake_all(channel.changes);
}

}  // namespace

std::string host_library() {
    const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
    std::error_code ignored;
    for (const char *relative : {"../../src/host/libcldist-host.so", CLDIST_HOST_LIBRARY})
        if (fs::exists(folder / relative, ignored))
            return fs::canonical(folder / relative, ignored);
    return {};
}

// ---- Memory -----------------------------------------------------------------------------------

HostChannel::HostChannel() : file_(memfd_create("cldist-host", MFD_CLOEXEC)) {
    if (!file_ || ftruncate(file_.get(), sizeof(Channel)) != 0 ||
        (channel_ = map_shared<Channel>(file_)) == nullptr)
        fail("memory for deterministic system calls");
    // A new file contains zeros. Only other values are written, so that no further pages are used.
    channel_->magic = Channel::magic_number;
    if (getrandom(channel_->seed.data(), sizeof channel_->seed, 0) < 0) fail("getrandom");
}

HostChannel::~HostChannel() {
    if (channel_ != nullptr) munmap(channel_, sizeof(Channel));
}

// ---- The hub ----------------------------------------------------------------------------------

HostHub::HostHub(const std::vector<std::string> &hosts) : stop_(eventfd(0, EFD_CLOEXEC)) {
    if (!stop_) fail("eventfd");
    std::array<unsigned char, sizeof secret_ / 2> random{};
    if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
        fail("getrandom");
    std::string secret;
    for (const unsigned char byte : random) secret += fmt::format("{:02x}", byte);
    std::copy_n(secret.begin(), secret_.size(), secret_.begin());
    std::vector<std::string> places;
    for (const in_addr address : addresses_for(hosts)) {
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr = address;
        socklen_t size = sizeof at;
        Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (!listener || bind(listener.get(), reinterpret_cast<sockaddr *>(&at), size) != 0 ||
            listen(listener.get(), SOMAXCONN) != 0 ||
            getsockname(listener.get(), reinterpret_cast<sockaddr *>(&at), &size) != 0)
            fail("a port for deterministic system calls");
        listeners_.push_back(std::move(listener));
        places.push_back(fmt::format("{}:{}", text_of(address), ntohs(at.sin_port)));
    }
    place_ = fmt::format("{}@{}", secret, fmt::join(places, ","));
    thread_ = quiet_thread([this] { run(); });
}

HostHub::~HostHub() {
    const std::uint64_t one = 1;
    (void)!write(stop_.get(), &one, sizeof one);
    thread_.join();
}

namespace {

using Clock = std::chrono::steady_clock;

/// A connection that has not sent its greeting.
struct Stranger {
    Descriptor socket;
    Clock::time_point until;
    std::array<std::byte, sizeof(Greeting)> bytes{};
    std::size_t size = 0;
};

/// All connections that have not sent their greeting. Never blocks on one of them.
class Strangers {
public:
    explicit Strangers(const Secret &secret) : secret_(secret) {}

    void accept_from(const Descriptor &listener) {
        Descriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!socket) return;
        if (all_.size() == most_strangers) all_.pop_front();
        all_.push_back({std::move(socket), Clock::now() + std::chrono::milliseconds(connect_ms)});
    }
    void add_to(std::vector<pollfd> &ready) const {
        for (const Stranger &each : all_) ready.push_back({each.socket.get(), POLLIN, 0});
    }
    /// The timeout of poll.
    [[nodiscard]] int patience_ms() const { return all_.empty() ? -1 : look_again_ms; }
    /// Passes sockets with correct greetings to `join`. `ready` are the entries that add_to()
    /// added, after poll.
    template <typename Join>
    void read_greetings(std::span<const pollfd> ready, Join join) {
        std::size_t at = 0;
        std::erase_if(all_, [&](Stranger &each) {
            if (ready[at++].revents == 0) return Clock::now() >= each.until;
            const ssize_t got = recv(each.socket.get(), each.bytes.data() + each.size,
                                     each.bytes.size() - each.size, MSG_DONTWAIT);
            each.size += got > 0 ? static_cast<std::size_t>(got) : 0;
            const bool has_failed = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
            if (!has_failed && each.size < each.bytes.size()) return false;
            if (const auto greeting =
                    parse_greeting(std::span(each.bytes).first(each.size), secret_))
                join(std::move(each.socket), *greeting);
            return true;
        });
    }

private:
    const Secret &secret_;
    std::deque<Stranger> all_;
};

}  // namespace

void HostHub::run() {
    struct Link {
        Descriptor socket;
        std::uint32_t rank;
        bool gone;
    };
    struct Present {
        Descriptor socket;
        std::string host;
    };
    std::vector<Link> links;
    std::vector<Present> hosts;
    Strangers strangers(secret_);
    std::vector<char> early;  // all of rank 0's data until the last rank has joined
    std::array<std::uint32_t, 8> seed{};
    (void)!getrandom(seed.data(), sizeof seed, 0);
    bool first_ended = false;
    bool all_have_come = false;
    const auto first = [&]() -> Link * {
        const auto found =
            std::ranges::find_if(links, [](const Link &link) { return link.rank == 0; });
        return found == links.end() ? nullptr : &*found;
    };
    std::vector<AtBarrier> before_first;  // messages for rank 0 until it joins
    const auto tell_first = [&](const AtBarrier &at) {
        if (Link *const link = first(); link != nullptr)
            send_all(link->socket.get(), &at, sizeof at);
        else
            before_first.push_back(at);
    };
    const auto join = [&](Descriptor connection, const Greeting &greeting) {
        if (greeting.host.front() != '\0') {
            hosts.push_back({std::move(connection), greeting.host.data()});
            return;
        }
        const int socket = connection.get();
        no_delay(socket);
        links.push_back({std::move(connection), greeting.rank, false});
        send_all(socket, seed.data(), sizeof seed);
        if (greeting.rank == 0) {
            for (const AtBarrier &at : before_first) send_all(socket, &at, sizeof at);
        } else {
            send_all(socket, early.data(), early.size());
            if (first_ended) shutdown(socket, SHUT_WR);
        }
        if (all_have_come = links.size() == greeting.ranks; all_have_come) early = {};
    };
    std::vector<char> bytes(piece);
    for (;;) {
        std::vector<pollfd> ready{{stop_.get(), POLLIN, 0}};
        for (const Descriptor &listener : listeners_) ready.push_back({listener.get(), POLLIN, 0});
        const std::size_t first_link = ready.size();
        for (const Link &link : links)
            ready.push_back({link.gone ? -1 : link.socket.get(), POLLIN, 0});
        const std::size_t first_host = ready.size();
        for (const Present &host : hosts) ready.push_back({host.socket.get(), POLLIN, 0});
        const std::size_t first_stranger = ready.size();
        strangers.add_to(ready);
        if (poll(ready.data(), ready.size(), strangers.patience_ms()) < 0) continue;
        if (ready[0].revents != 0) break;
        for (std::size_t i = first_link; i < first_host; ++i) {
            if (ready[i].revents == 0) continue;
            Link &link = links[i - first_link];
            if (link.rank != 0) {
                AtBarrier at{link.rank, Channel::gone};
                if (!receive_all(link.socket.get(), &at.number, sizeof at.number)) {
                    link.gone = true;
                    at.number = Channel::gone;
                }
                tell_first(at);
                continue;
            }
            const ssize_t size = recv(link.socket.get(), bytes.data(), bytes.size(), 0);
            if (size <= 0) {
                link.gone = first_ended = true;
                for (const Link &other : links)
                    if (other.rank != 0) shutdown(other.socket.get(), SHUT_WR);
                continue;
            }
            if (!all_have_come) early.insert(early.end(), bytes.begin(), bytes.begin() + size);
            for (const Link &other : links)
                if (other.rank != 0 && !other.gone)
                    send_all(other.socket.get(), bytes.data(), static_cast<std::size_t>(size));
        }
        std::erase_if(hosts, [&, i = first_host](const Present &host) mutable {
            if (ready[i++].revents == 0) return false;
            char goodbye = 0;
            if (recv(host.socket.get(), &goodbye, 1, MSG_DONTWAIT) != 1) {
                const std::lock_guard lock(mutex_);
                if (lost_host_.empty()) lost_host_ = host.host;
            }
            return true;
        });
        strangers.read_greetings(std::span(ready).subspan(first_stranger), join);
        for (std::size_t i = 1; i < first_link; ++i)
            if (ready[i].revents != 0) strangers.accept_from(listeners_[i - 1]);
    }
}

std::string HostHub::lost_host() const {
    const std::lock_guard lock(mutex_);
    return lost_host_;
}

// ---- A rank -----------------------------------------------------------------------------------

namespace {

// Returns the connection to the hub, or none and why each address failed.
Descriptor greet(const std::string &place, int rank, int ranks, const std::string &host,
                 std::string &failures) {
    Greeting greeting{};
    const std::vector<std::string_view> parts = split(place, '@');
    if (parts.size() != 2 || parts[0].size() != greeting.secret.size()) return {};
    std::copy_n(parts[0].begin(), greeting.secret.size(), greeting.secret.begin());
    greeting.rank = static_cast<std::uint32_t>(rank);
    greeting.ranks = static_cast<std::uint32_t>(ranks);
    std::copy_n(host.begin(), std::min(host.size(), greeting.host.size() - 1),
                greeting.host.begin());
    for (const std::string_view at : split(parts[1], ',')) {
        const std::size_t colon = std::min(at.find(':'), at.size() - 1);
        Descriptor hub =
            connect_to(std::string(at.substr(0, colon)), std::string(at.substr(colon + 1)));
        if (hub && send_all(hub.get(), &greeting, sizeof greeting)) return hub;
        failures +=
            fmt::format("{}{} ({})", failures.empty() ? "" : ", ", at, std::strerror(errno));
    }
    return {};
}

}  // namespace

HostPresence::HostPresence(const std::string &place, int rank, int ranks, const std::string &host) {
    std::string ignored;  // without this connection, only the report of a lost host is missing
    hub_ = greet(place, rank, ranks, host, ignored);
}

HostPresence::~HostPresence() {
    const char goodbye = 0;
    if (hub_) send_all(hub_.get(), &goodbye, 1);
}

HostRank::HostRank(Environment &environment, const RankPlace &place, int ranks, bool all_output)
    : rank_(place.rank) {
    const std::string channel = environment["CLDIST_HOST_CHANNEL"];
    const std::string hub = environment["CLDIST_HOST_HUB"];
    environment.erase("CLDIST_HOST_CHANNEL");
    environment.erase("CLDIST_HOST_HUB");
    const std::string library = host_library();
    std::string groups = host_wrap(environment);
    if (library.empty() || groups == "off") return;
    // The library is needed even without a channel, because it observes the end of the program.
    std::string &preloaded = environment["LD_PRELOAD"];
    preloaded = preloaded.empty() ? library : library + ":" + preloaded;
    if (channel.empty() && (hub.empty() || ranks < 2)) return;
    if (all_output)  // the output of each process is wanted
        if (const std::size_t at = groups.find("output"); at != std::string::npos)
            groups.erase(at, std::strlen("output"));
    if (static_cast<std::size_t>(rank_) >= Channel::most_readers) return;
    if (!channel.empty()) {
        const Descriptor file(open(channel.c_str(), O_RDWR | O_CLOEXEC));
        channel_ = file ? map_shared<Channel>(file) : nullptr;
        if (channel_ == nullptr)
            failure_ = fmt::format(
                "cannot open {} of `cldist run`: {}; let processes see each other in /proc",
                channel, std::strerror(errno));
    } else {
        join(hub, ranks);
    }
    if (channel_ == nullptr) return;
    environment["CLDIST_HOST_CHANNEL"] = own_ != nullptr ? own_->path() : channel;
    std::error_code ignored;
    fs::path temporary = fs::temp_directory_path(ignored);
    if (ignored) temporary = "/tmp";
    folder_ = temporary / fmt::format("cldist-host-{}-{}", rank_, getpid());
    environment["CLDIST_HOST_RANK"] = std::to_string(rank_);
    environment["CLDIST_HOST_WRAP"] = groups;
    environment["CLDIST_HOST_FOLDER"] = folder_;
}

void HostRank::join(const std::string &place, int ranks) {
    std::string failures;
    hub_ = greet(place, rank_, ranks, "", failures);
    own_ = std::make_unique<HostChannel>();
    HostChannel &own = *own_;
    if (!hub_ || !receive_all(hub_.get(), own->seed.data(), sizeof own->seed)) {
        failure_ = fmt::format(
            "cannot connect to `cldist run` at {}; allow TCP connections between the hosts",
            !hub_ ? failures : place.substr(place.find('@') + 1));
        return;
    }
    own->readers = 1;
    own->far = 1;
    own->barriers = rank_ == 0 ? static_cast<std::uint32_t>(ranks - 1) : 0;
    channel_ = &*own;
    answers_ = quiet_thread([this] { rank_ == 0 ? send_answers() : receive_answers(); });
    barriers_ = quiet_thread([this] { rank_ == 0 ? receive_barriers() : send_barriers(); });
}

void HostRank::send_answers() {
    host::ChannelReader reader(*channel_, 0);
    std::vector<char> bytes(piece);
    for (;;) {
        const bool ended = ended_;
        const std::uint32_t seen = reader.changes();
        const std::size_t there = std::min(reader.there(), bytes.size());
        if (there == 0) {
            if (ended) break;
            reader.wait(seen, 0, look_again_ms);
            continue;
        }
        reader.peek(bytes.data(), there);
        if (!send_all(hub_.get(), bytes.data(), there)) break;
        reader.take(there);
    }
    shutdown(hub_.get(), SHUT_WR);
    // Rank 0's program must no longer wait for this reader, which represents the other ranks.
    channel_->reader[0].position.store(Channel::gone);
}

void HostRank::receive_answers() {
    host::ChannelWriter writer(*channel_);
    std::vector<char> bytes(piece);
    for (ssize_t size = 0; (size = recv(hub_.get(), bytes.data(), bytes.size(), 0)) > 0;)
        writer.copy(bytes.data(), static_cast<std::size_t>(size));
    close_channel(*channel_);
}

void HostRank::send_barriers() {
    std::uint64_t sent = 0;
    while (sent != Channel::gone) {
        const std::uint32_t seen = channel_->moves.load();
        const std::uint64_t now = ended_ ? Channel::gone : channel_->reader[0].barrier.load();
        if (now == sent) {
            host::sleep_on(channel_->moves, seen, look_again_ms);
            continue;
        }
        if (!send_all(hub_.get(), &now, sizeof now)) return;
        sent = now;
    }
}

void HostRank::receive_barriers() {
    for (AtBarrier at{}; receive_all(hub_.get(), &at, sizeof at);) {
        if (at.rank == 0 || at.rank >= Channel::most_readers) continue;
        channel_->reader.at(at.rank - 1).barrier.store(at.number);
        host::wake_all(channel_->moves);
    }
    for (std::size_t i = 0; i < channel_->barriers; ++i)
        channel_->reader.at(i).barrier.store(Channel::gone);
    host::wake_all(channel_->moves);
}

HostRank::~HostRank() {
    ended_ = true;
    if (channel_ != nullptr) {
        if (rank_ == 0)
            close_channel(*channel_);
        else
            host::ChannelReader(*channel_,
                                own_ != nullptr ? 0 : static_cast<std::size_t>(rank_ - 1))
                .leave();
    }
    if (hub_) {
        if (rank_ == 0 && answers_.joinable()) answers_.join();
        if (rank_ != 0 && barriers_.joinable()) barriers_.join();
        shutdown(hub_.get(), SHUT_RDWR);
        for (std::thread *const thread : {&answers_, &barriers_})
            if (thread->joinable()) thread->join();
    }
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
    if (channel_ != nullptr && own_ == nullptr) munmap(channel_, sizeof(Channel));
}

}  // namespace cldist::tool
