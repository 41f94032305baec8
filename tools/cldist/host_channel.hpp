#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "greeting.hpp"
#include "host/channel.hpp"
#include "pipeline/descriptor.hpp"
#include "run_plan.hpp"
#include "shared_files.hpp"

namespace cldist::tool {

/// The library that is preloaded into programs (libcldist-host); empty if it was not built.
[[nodiscard]] std::string host_library();

/// Owns the shared memory through which processes of this host receive rank 0's answers: the
/// results of its system calls.
class HostChannel {
public:
    HostChannel();
    HostChannel(const HostChannel &) = delete;
    HostChannel &operator=(const HostChannel &) = delete;
    ~HostChannel();

    /// The path by which other processes of this host open the memory.
    [[nodiscard]] std::string path() const { return path_of(file_); }
    [[nodiscard]] host::Channel &operator*() const { return *channel_; }
    [[nodiscard]] host::Channel *operator->() const { return channel_; }

private:
    const Descriptor file_;
    host::Channel *channel_ = nullptr;
};

/// Runs in `cldist run` itself if ranks are on several hosts. Forwards rank 0's answers to the
/// other ranks.
class HostHub {
public:
    /// Listens on the addresses to which ranks on `hosts` connect. If `hosts` is empty or has a
    /// name without address, listens on all addresses of this host.
    explicit HostHub(const std::vector<std::string> &hosts);
    HostHub(const HostHub &) = delete;
    HostHub &operator=(const HostHub &) = delete;
    ~HostHub();

    /// "SECRET@ADDRESS:PORT,…": what ranks need in order to connect.
    [[nodiscard]] const std::string &place() const { return place_; }
    /// The first host whose HostPresence ended without a goodbye; empty if there is none.
    [[nodiscard]] std::string lost_host() const;

private:
    void run();

    std::vector<Descriptor> listeners_;
    const Descriptor stop_;
    Secret secret_{};
    std::string place_;
    mutable std::mutex mutex_;
    std::string lost_host_;
    std::thread thread_;
};

/// Runs in one rank of each host. While it exists, its connection shows that the host is alive.
class HostPresence {
public:
    /// `place` is HostHub::place(). If it is empty, this object does nothing.
    HostPresence(const std::string &place, int rank, int ranks, const std::string &host);
    HostPresence(const HostPresence &) = delete;
    HostPresence &operator=(const HostPresence &) = delete;
    ~HostPresence();

private:
    Descriptor hub_;
};

/// Connects a rank's program to the channel, and disconnects after the program's end.
class HostRank {
public:
    /// Adds the variables that the program needs to `environment`, if the job has a channel.
    HostRank(Environment &environment, const RankPlace &place, int ranks, bool all_output);
    HostRank(const HostRank &) = delete;
    HostRank &operator=(const HostRank &) = delete;
    /// Must be called after the program's end.
    ~HostRank();
    /// Why the program cannot take part, so that the other ranks would wait for it forever, with
    /// advice; continues "rank N". Empty if it can.
    [[nodiscard]] const std::string &failure() const { return failure_; }

private:
    void join(const std::string &place, int ranks);
    void send_answers();
    void receive_answers();
    void send_barriers();
    void receive_barriers();

    const int rank_;
    std::string failure_;
    std::string folder_;
    std::unique_ptr<HostChannel> own_;  // only if ranks are on several hosts
    host::Channel *channel_ = nullptr;
    Descriptor hub_;
    std::atomic<bool> ended_ = false;
    std::thread answers_;
    std::thread barriers_;
};

}  // namespace cldist::tool
