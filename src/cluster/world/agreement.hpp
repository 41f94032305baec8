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

/// Exchanges data between processes during an OpenCL call that all make, by point-to-point messages
/// with the number and hash of the call. Several threads may use it at once, each in its own call,
/// but not under the lock: a late process may wait for something that another thread must do first.
/// All functions throw an Error on failure.
class Agreement {
public:
    Agreement(Process self, Process processes) : self_(self), processes_(processes) {}
    Agreement(const Agreement &) = delete;
    Agreement &operator=(const Agreement &) = delete;
    virtual ~Agreement() = default;

    [[nodiscard]] Process self() const { return self_; }
    [[nodiscard]] Process processes() const { return processes_; }
    [[nodiscard]] bool alone() const { return processes_ == 1; }
    /// Counts the messages in `traffic` from now on.
    void count(Traffic &traffic) { traffic_ = &traffic; }
    /// Returns true if this process provides the data of `process`: if that is this process, or
    /// absent in a simulation.
    [[nodiscard]] virtual bool speaks_for(Process process) const { return process == self_; }

    /// Returns `said` of `root`, which a process that speaks for `root` passes. N - 1 messages.
    Blob from(const CallHash &call, Process root, Blob said) const;
    /// The same, but only for `to`; other processes get their `said` back. One message.
    Blob from_to(const CallHash &call, Process root, Process to, Blob said) const;
    /// Returns the data of each process in `some`, in order. `said` has the data of the processes
    /// that this one speaks for. The first of `some` broadcasts it. Fewer than 2 N messages.
    std::vector<Blob> of(const CallHash &call, std::span<const Process> some,
                         std::vector<Blob> said) const;
    /// Returns the least value of all processes. 2 (N - 1) messages.
    int least(const CallHash &call, int mine) const;
    /// Calls `work` in one process of `some` after the other, with the previous one's result, or
    /// `begin` in the first. Returns the last result in all processes. Fewer than 2 N messages.
    int in_turn(const CallHash &call, std::span<const Process> some, int begin,
                const std::function<int(int before)> &work) const;

protected:
    virtual void send(const CallHash &call, std::span<const Process> to,
                      const Blob &blob) const = 0;
    /// Returns the data that `from` sends, or `expected` if `from` is absent.
    [[nodiscard]] virtual Blob receive(const CallHash &call, Process from, Blob expected) const = 0;

private:
    void tell(const CallHash &call, std::span<const Process> to, const Blob &blob) const;
    [[nodiscard]] Blob hear(const CallHash &call, Process from, Blob expected) const;

    const Process self_;
    const Process processes_;
    Traffic *traffic_ = nullptr;  ///< null: messages are not counted
};

}  // namespace cldist::cluster
