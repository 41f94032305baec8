#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cluster/calls/call_log.hpp"
#include "cluster/execution/traffic.hpp"
#include "cluster/objects/packing.hpp"
#include "cluster/schedule/topology.hpp"

namespace cldist::cluster {

/// What processes tell each other in a call that all make, by messages between two of them, which carry the number of the
/// call and its hash. Any threads at once, each in a call of its own, but not under the lock: who is late may wait for what
/// another thread has yet to do. Throw an Error if that fails.
class Agreement {
public:
    Agreement(Process self, Process processes) : self_(self), processes_(processes) {}
    Agreement(const Agreement &) = delete;
    Agreement &operator=(const Agreement &) = delete;
    virtual ~Agreement() = default;

    [[nodiscard]] Process self() const { return self_; }
    [[nodiscard]] Process processes() const { return processes_; }
    [[nodiscard]] bool alone() const { return processes_ == 1; }
    /// Counts from now on.
    void count(Traffic &traffic) { traffic_ = &traffic; }
    /// Whether this process says what that one has: itself, and one that is absent.
    [[nodiscard]] virtual bool speaks_for(Process process) const { return process == self_; }

    /// What `root` has, which is `said` in a process that speaks for it. N - 1 messages.
    Blob from(const CallHash &call, Process root, Blob said) const;
    /// What `root` has, in `to`, which the others don't get to know. One message.
    Blob from_to(const CallHash &call, Process root, Process to, Blob said) const;
    /// What each of `some` has, in their order; `said` has that of those that this process speaks for. The first one tells all:
    /// less than 2 N messages.
    std::vector<Blob> of(const CallHash &call, std::span<const Process> some, std::vector<Blob> said) const;
    /// The least of all. 2 (N - 1) messages.
    int least(const CallHash &call, int mine) const;
    /// Calls `work` in one of `some` after the other, with what it returned in the one before, at first with `begin`.
    /// What it returned in the last one. Less than 2 N messages.
    int in_turn(const CallHash &call, std::span<const Process> some, int begin,
                const std::function<int(int before)> &work) const;

protected:
    virtual void send(const CallHash &call, std::span<const Process> to, const Blob &blob) const = 0;
    /// What `from` sends; `expected` if that is absent.
    [[nodiscard]] virtual Blob receive(const CallHash &call, Process from, Blob expected) const = 0;

private:
    void tell(const CallHash &call, std::span<const Process> to, const Blob &blob) const;
    [[nodiscard]] Blob hear(const CallHash &call, Process from, Blob expected) const;

    const Process self_;
    const Process processes_;
    Traffic *traffic_ = nullptr;  ///< null: nobody counts
};

}  // namespace cldist::cluster
