#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/binomial_tree.hpp"
#include "cluster/calls/recorder.hpp"
#include "cluster/execution/traffic.hpp"

namespace cldist::cluster {

/// A process's place in the binomial tree down which the records go.
struct CallTree {
    CallTree(Process self, Process processes)
        : parent(parent_in_tree(self)), children(children_in_tree(self, processes)) {}

    Process parent;  ///< of process 0 there is none
    std::vector<Process> children;
};

/// Carries the records of a central host's calls from process 0 to all others, in order.
class CallStream {
public:
    CallStream() = default;
    CallStream(const CallStream &) = delete;
    CallStream &operator=(const CallStream &) = delete;
    virtual ~CallStream() = default;

    /// Counts from now on.
    void count(Traffic &traffic) { traffic_ = &traffic; }
    /// In process 0: starts a thread that sends the records until the recorder is closed.
    virtual void begin(Recorder &recorder) = 0;
    /// Returns when the recorder is closed and all has been received.
    virtual void finish() = 0;
    /// In the others: waits for the next records, whole ones, and passes them on. They are there
    /// until the next call. Throws an Error.
    virtual std::span<const std::byte> next() = 0;

protected:
    Traffic *traffic_ = nullptr;  ///< null: nobody counts
};

}  // namespace cldist::cluster
