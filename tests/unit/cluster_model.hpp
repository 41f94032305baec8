/// A cluster in one process: the schedules of all its processes, and what comes of doing as they decide.
///
/// A program is a list of calls. `Graph` gives it to every process's Schedule, checks what they decide against a model
/// that knows of each byte who has the newest one, and makes a graph of all that is to be done: commands, transfers,
/// messages. What can be executed in whatever order the graph allows gives each reader what one device would have shown
/// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cluster/schedule/promise.hpp"
#include "cluster/schedule/schedule.hpp"

namespace cluster_model {

using namespace cldist::cluster;

struct Call {
    MemoryId device = 0;
    QueueId queue = unordered;       ///< if in-order
    std::vector<Access> accesses;    ///< buffers by their number in the program
    std::vector<std::size_t> waits;  ///< earlier calls
    bool result_to_all = false;
    bool blocking = false;               ///< the host waits for it; all processes get to know its end
    std::vector<Process> finishes = {};  ///< processes that wait for all their own steps before this call
    bool fails = false;              ///< at any time, as do those that wait for it; these leave all bytes as they were
    Place place = Place::unordered;  ///< on its device's out-of-order queue, if it is not in an in-order one
    bool late = false;               ///< it waits for a user event that is set behind all calls
    /// This call is no command: it attaches that buffer to the device, or detaches it.
    std::optional<BufferId> attach = {};
    std::optional<BufferId> detach = {};
};

struct Program {
    std::vector<std::uint32_t> host_of_process;
    std::vector<Process> process_of_device;
    struct Buffer {
        std::size_t size;
        Contents contents;
    };
    std::vector<Buffer> buffers;
    std::vector<Call> calls;
    std::uint32_t attach_after = 0;  ///< of buffers that are attached by themselves
};

/// Which calls end before the user events are set: those that wait for none, neither by OpenCL's rules nor for the bytes that they
/// use, even where OpenCL leaves that order open. Of programs where nothing fails and nothing is attached by the program.
std::vector<bool> must_end(const Program &program);

/// So that a failure can be repeated by hand.
std::string describe(const Program &program);

/// The contents of a byte: which call wrote it.
using Cell = std::uint32_t;
inline constexpr Cell garbage = 0x80000000;

struct Node {
    enum class Kind { command, send, receive, copy, tell, hear, finish, over, wait };
    Kind kind;
    Process process;
    std::size_t call;
    BufferId buffer = 0;  // of a transfer
    std::size_t begin = 0;
    std::size_t end = 0;
    MemoryId source = 0;
    MemoryId target = 0;
    std::size_t peer = 0;  // of a receive or a hear: the node that sends
    std::vector<std::size_t> before = {};
};

class Graph {
public:
    /// Throws a std::string that says what is wrong.
    explicit Graph(const Program &program);

    [[nodiscard]] const std::vector<Node> &nodes() const { return nodes_; }
    [[nodiscard]] std::size_t transfers() const { return transfers_; }
    [[nodiscard]] std::size_t completions() const { return completions_; }
    [[nodiscard]] std::size_t promises() const { return promised_.size(); }
    [[nodiscard]] std::size_t failures() const;
    [[nodiscard]] std::size_t write_backs() const { return write_backs_; }
    /// Of commands by processes that have nothing to do with them.
    [[nodiscard]] std::size_t left_out() const { return left_out_; }
    /// Of buffers that were attached by themselves, calls before which they were.
    [[nodiscard]] std::size_t attached() const { return attached_; }

    /// Two steps that use the same bytes of the same memory, one of which writes, are never at the same time; whoever
    /// is in a wait list ends before who waits for it. Where the host has waited it has all bytes that OpenCL then gives
    /// it, in every process, and may use their memory otherwise. Throws.
    void check_order() const;

    /// Before the user events are set all ends that must. Throws.
    void check_progress() const;

    /// Memories of all devices, and messages on their way.
    struct State {
        std::vector<std::vector<std::vector<Cell>>> memory;  // device, buffer
        std::vector<std::vector<Cell>> messages;             // by sending node
        std::vector<bool> done;
    };
    [[nodiscard]] State start() const;
    [[nodiscard]] bool is_ready(const State &state, std::size_t node) const;
    /// Does one node. Throws if a reader sees what it should not.
    void execute(State &state, std::size_t node) const;

    /// Once, in a random order.
    void execute_randomly(std::mt19937_64 &random) const;
    /// In every order; returns how many different states there were in which more than one node could be next.
    [[nodiscard]] std::size_t execute_all() const;

private:
    struct Expected;

    std::size_t add(Node node);

    Program program_;
    std::vector<Node> nodes_;
    std::vector<std::vector<Cell>> reads_;            // what each call reads, access by access
    std::vector<std::vector<std::uint8_t>> defined_;  // the same: whether it was ever written
    std::vector<bool> failed_;                        // calls
    struct Promised {
        std::size_t landed;  // when bytes are in the memory of a process, or passed on from there
        std::size_t wait;    // of that process's host
    };
    std::vector<Promised> promised_;
    std::size_t transfers_ = 0;
    std::size_t completions_ = 0;
    std::size_t write_backs_ = 0;
    std::size_t left_out_ = 0;
    std::size_t attached_ = 0;
};

}  // namespace cluster_model
