#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "greeting.hpp"
#include "host/channel.hpp"
#include "run_plan.hpp"

namespace cldist::tool {

/// The library that is preloaded into programs (libcldist-host), or nothing if it was not built.
[[nodiscard]] std::string host_library();

/// Memory for rank 0's answers, as long as this lives.
class HostChannel {
public:
    HostChannel();
    HostChannel(const HostChannel &) = delete;
    HostChannel &operator=(const HostChannel &) = delete;
    ~HostChannel();

    /// How this host's processes open it.
    [[nodiscard]] std::string path() const;
    [[nodiscard]] host::Channel &operator*() const { return *channel_; }
    [[nodiscard]] host::Channel *operator->() const { return channel_; }

private:
    int file_ = -1;
    host::Channel *channel_ = nullptr;
};

/// In `cldist run` itself, where ranks are on several hosts: passes what rank 0 says on to the others.
class HostHub {
public:
    /// Listens where ranks on these hosts find it; on all of this host's addresses if there is none, or one without address.
    explicit HostHub(const std::vector<std::string> &hosts);
    HostHub(const HostHub &) = delete;
    HostHub &operator=(const HostHub &) = delete;
    ~HostHub();

    /// How ranks find it: a secret, and this host's addresses with ports.
    [[nodiscard]] const std::string &place() const { return place_; }
    /// The first host whose HostPresence has ended without a word, or nothing.
    [[nodiscard]] std::string lost_host() const;

private:
    void run();

    std::vector<int> listeners_;
    int stop_ = -1;
    Secret secret_{};
    std::string place_;
    mutable std::mutex mutex_;
    std::string lost_host_;
    std::thread thread_;
};

/// In a rank of each host: shows to the hub that the host is there, as long as this lives.
class HostPresence {
public:
    /// `place` is the hub's, or empty: then this does nothing.
    HostPresence(const std::string &place, int rank, int ranks, const std::string &host);
    HostPresence(const HostPresence &) = delete;
    HostPresence &operator=(const HostPresence &) = delete;
    ~HostPresence();

private:
    int hub_ = -1;
};

/// A rank's part: makes ready for its program what `cldist run` began, and ends it behind the program.
class HostRank {
public:
    /// Adds to `environment` what the program needs for it, if the job has it. Says on standard error why it can't be had.
    HostRank(Environment &environment, const RankPlace &place, int ranks, bool all_output);
    HostRank(const HostRank &) = delete;
    HostRank &operator=(const HostRank &) = delete;
    /// When the program has ended.
    ~HostRank();

private:
    bool join(const std::string &place, int ranks);
    void send_answers();
    void receive_answers();
    void send_barriers();
    void receive_barriers();

    const int rank_;
    std::string folder_;
    std::unique_ptr<HostChannel> own_;  // on several hosts
    host::Channel *channel_ = nullptr;
    int hub_ = -1;
    std::atomic<bool> ended_ = false;
    std::thread answers_;
    std::thread barriers_;
};

}  // namespace cldist::tool
