#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/binomial_tree.hpp"
#include "cluster/calls/recorder.hpp"
#include "cluster/execution/traffic.hpp"

namespace cldist::cluster {

/// A process's position in the binomial tree that distributes the records.
struct CallTree {
    CallTree(Process self, Process processes)
        : parent(parent_in_tree(self)), children(children_in_tree(self, processes)) {}

    Process parent;  ///< meaningless in process 0
    std::vector<Process> children;
};

/// Sends the records of a central host's calls from process 0 to all other processes, in order.
class CallStream {
public:
    CallStream() = default;
    CallStream(const CallStream &) = delete;
    CallStream &operator=(const CallStream &) = delete;
    virtual ~CallStream() = default;

    /// Counts the messages in `traffic` from now on.
    void count(Traffic &traffic) { traffic_ = &traffic; }
    /// In process 0: starts a thread that sends the records until the recorder is closed.
    virtual void begin(Recorder &recorder) = 0;
    /// Returns when the recorder is closed and the process's children have received all records.
    virtual void finish() = 0;
    /// In the other processes: waits for the next records, forwards them, and returns them. Records
    /// are never split. They are valid until the next call. Throws an Error.
    virtual std::span<const std::byte> next() = 0;

protected:
    Traffic *traffic_ = nullptr;  ///< null: messages are not counted
};

}  // namespace cldist::cluster
