/// A model of a cluster in one process: all processes' schedules and the effect of their decisions.
///
/// A program is a list of calls. `Graph` passes it to every process's Schedule and compares the
/// decisions with a model that knows the holders of the newest value of each byte. It builds a
/// graph of all nodes to execute: commands, transfers, messages. In every order that the graph
/// allows, each reader must see the bytes that a single device would have shown.
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

struct ModelCall {
    MemoryId device = 0;
    QueueId queue = unordered;       ///< an in-order queue, or `unordered`
    std::vector<Access> accesses;    ///< with the buffers' indices in the program
    std::vector<std::size_t> waits;  ///< indices of earlier calls
    bool result_to_all = false;
    /// The host waits for the call; all processes learn of its end.
    bool blocking = false;
    std::vector<Process> finishes = {};  ///< processes that call clFinish before this call
    /// It may fail at any time. Calls that wait for it fail, too, and leave their output unchanged.
    bool fails = false;
    Ordering ordering =
        Ordering::unordered;  ///< its order among the out-of-order commands of its device
    bool late = false;        ///< it waits for a user event that is set after all calls
    /// If set, the call is no command but attaches this buffer to `device`, or detaches it.
    std::optional<BufferId> attach = {};
    std::optional<BufferId> detach = {};
};

struct ModelProgram {
    std::vector<std::uint32_t> host_of_process;
    std::vector<Process> process_of_device;
    struct Buffer {
        std::size_t size;
        Contents contents;
    };
    std::vector<Buffer> buffers;
    std::vector<ModelCall> calls;
    /// After this many uses by one device, the platform attaches a buffer to it; 0: never.
    std::uint32_t attach_after = 0;
};

/// Returns for each call whether it must end before the user events are set. Such a call depends on
/// none, neither by OpenCL's rules nor by earlier accesses to its bytes, even if OpenCL leaves
/// their order open. Only for programs without failures and without attachment by the program.
std::vector<bool> must_end(const ModelProgram &program);

/// The program as text, to repeat a failure by hand.
std::string describe(const ModelProgram &program);

/// The contents of a byte: 0 at the start, k + 1 if written by call k, undefined from `garbage` on.
using Cell = std::uint32_t;
inline constexpr Cell garbage = 0x80000000;

/// A step of a process. A tell sends a completion or the result of a read, and a hear receives it.
/// A finish is a clFinish. At an over, everything that a failed command waited for has ended, too.
/// A wait is the host's wait for a blocking call.
struct Node {
    enum class Kind { command, send, receive, copy, tell, hear, finish, over, wait };
    Kind kind;
    Process process;
    std::size_t call;
    BufferId buffer = 0;  // buffer to target: a transfer's
    std::size_t begin = 0;
    std::size_t end = 0;
    MemoryId source = 0;
    MemoryId target = 0;
    std::size_t peer = 0;  // receive, hear: the sending node; tell: the node whose result it sends
    std::vector<std::size_t> before = {};
};

class Graph {
public:
    /// Throws a std::string that describes the error.
    explicit Graph(const ModelProgram &program);

    [[nodiscard]] const std::vector<Node> &nodes() const { return nodes_; }
    [[nodiscard]] std::size_t transfers() const { return transfers_; }
    [[nodiscard]] std::size_t completions() const { return completions_; }
    [[nodiscard]] std::size_t promises() const { return promised_.size(); }
    [[nodiscard]] std::size_t failures() const;
    [[nodiscard]] std::size_t write_backs() const { return write_backs_; }
    /// The number of calls that processes left out because they take no part in them.
    [[nodiscard]] std::size_t left_out() const { return left_out_; }
    /// The number of automatically attached buffers before each call, summed over all calls.
    [[nodiscard]] std::size_t attached() const { return attached_; }

    /// Throws if one of three rules is broken. Two steps that use the same bytes of the same
    /// memory, one of them writing, never run at the same time. A command begins only after its
    /// wait list has ended. After a wait, the host of every process has all bytes that OpenCL
    /// guarantees, and may reuse their memory.
    void check_order() const;

    /// Throws if a call that must end waits for a user event.
    void check_progress() const;

    /// The memories of all devices, and messages in flight.
    struct State {
        std::vector<std::vector<std::vector<Cell>>> memory;  // by device and buffer
        std::vector<std::vector<Cell>> messages;             // by sending node
        std::vector<bool> done;
    };
    [[nodiscard]] State start() const;
    [[nodiscard]] bool is_ready(const State &state, std::size_t node) const;
    /// Executes one node. Throws if a reader sees wrong bytes.
    void execute(State &state, std::size_t node) const;

    /// Executes all nodes once, in a random order.
    void execute_randomly(std::mt19937_64 &random) const;
    /// Executes all nodes in every order. Returns the number of states with several next nodes.
    [[nodiscard]] std::size_t execute_all() const;

private:
    struct Expected;

    std::size_t add(Node node);

    ModelProgram program_;
    std::vector<Node> nodes_;
    // By call: the expected contents of the bytes that it reads, access by access.
    std::vector<std::vector<Cell>> reads_;
    std::vector<std::vector<std::uint8_t>> defined_;  // whether these contents are defined
    std::vector<bool> failed_;                        // by call
    struct Promised {
        // the node that puts the bytes into a process's memory, or forwards them
        std::size_t landed;
        std::size_t wait;  // the host's wait in that process
    };
    std::vector<Promised> promised_;
    std::size_t transfers_ = 0;
    std::size_t completions_ = 0;
    std::size_t write_backs_ = 0;
    std::size_t left_out_ = 0;
    std::size_t attached_ = 0;
};

}  // namespace cluster_model
