#include "cluster_model.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_set>

namespace cluster_model {

namespace {

bool reads(const Access &access) { return access.mode != AccessMode::write; }
bool writes(const Access &access) { return access.mode != AccessMode::read; }
/// Whether a call writes a byte. With read_write, it writes only every second byte.
bool writes_byte(const Access &access, std::size_t at) {
    return access.mode == AccessMode::write ||
           (access.mode == AccessMode::read_write && at % 2 == 0);
}

void require(bool holds, const std::string &otherwise) {
    if (!holds) throw otherwise;
}

constexpr std::size_t nobody = ~std::size_t{0};

std::vector<bool> failed_calls(const ModelProgram &program) {
    std::vector<bool> failed;
    for (const ModelCall &call : program.calls)
        failed.push_back(call.fails || std::any_of(call.waits.begin(), call.waits.end(),
                                                   [&](std::size_t wait) { return failed[wait]; }));
    return failed;
}

Ordering ordering_of(const ModelCall &call) {
    return call.queue != unordered ? Ordering::in_order : call.ordering;
}

/// For each call, the calls that have ended when it ends, by OpenCL's rules: its wait list, earlier
/// commands of its in-order queue, commands before a marker or barrier without wait list, commands
/// before the last barrier, and everything that these calls waited for.
std::vector<std::set<std::size_t>> ended_with(const ModelProgram &program) {
    std::vector<std::set<std::size_t>> all(program.calls.size());
    for (std::size_t k = 0; k < program.calls.size(); ++k) {
        const ModelCall &call = program.calls[k];
        const Ordering ordering = ordering_of(call);
        const auto take = [&](std::size_t other) {
            all[k].insert(all[other].begin(), all[other].end());
        };
        for (const std::size_t wait : call.waits) take(wait);
        for (std::size_t j = 0; j < k; ++j) {
            const ModelCall &earlier = program.calls[j];
            if (earlier.queue != call.queue ||
                (call.queue == unordered && earlier.device != call.device))
                continue;
            const bool barrier = earlier.ordering == Ordering::barrier ||
                                 earlier.ordering == Ordering::barrier_behind_all;
            const bool waits_for_all =
                ordering != Ordering::unordered && ordering != Ordering::barrier;
            if (waits_for_all || (call.queue == unordered && barrier)) take(j);
        }
        all[k].insert(k);
    }
    return all;
}

bool conflict(const ModelCall &a, const ModelCall &b) {
    for (const Access &x : a.accesses)
        for (const Access &y : b.accesses)
            if (x.buffer == y.buffer && x.begin < y.end && y.begin < x.end &&
                (writes(x) || writes(y)))
                return true;
    return false;
}

/// The user events that each call waits for by OpenCL's rules; bit i is call i's user event.
std::vector<std::uint64_t> user_events_of(const ModelProgram &program) {
    const auto ended = ended_with(program);
    std::vector<std::uint64_t> all;
    for (std::size_t k = 0; k < program.calls.size(); ++k) {
        std::uint64_t mask = 0;
        for (const std::size_t call : ended[k])
            if (program.calls[call].late) mask |= std::uint64_t{1} << call;
        all.push_back(mask);
    }
    return all;
}

}  // namespace

std::vector<bool> must_end(const ModelProgram &program) {
    const auto ended = ended_with(program);
    std::vector<bool> must;
    for (std::size_t k = 0; k < program.calls.size(); ++k) {
        const ModelCall &call = program.calls[k];
        bool waits = call.late;
        for (const std::size_t earlier : ended[k])
            waits = waits || (earlier != k && !must[earlier]);
        for (std::size_t j = 0; j < k; ++j)
            waits = waits || (!must[j] && conflict(program.calls[j], call));
        must.push_back(!waits);
    }
    return must;
}

std::string describe(const ModelProgram &program) {
    std::string text = "hosts of processes:";
    for (const std::uint32_t host : program.host_of_process) text += " " + std::to_string(host);
    if (program.attach_after != 0)
        text += "; attached after " + std::to_string(program.attach_after) + " uses";
    text += "; processes of devices:";
    for (const Process process : program.process_of_device) text += " " + std::to_string(process);
    for (const ModelProgram::Buffer &buffer : program.buffers) {
        text += "\n  buffer of " + std::to_string(buffer.size);
        text += buffer.contents == Contents::undefined ? "" : ", initialised";
    }
    for (std::size_t k = 0; k < program.calls.size(); ++k) {
        const ModelCall &call = program.calls[k];
        text += "\n  " + std::to_string(k) + ": device " + std::to_string(call.device);
        if (call.attach) text += ", attaches buffer " + std::to_string(*call.attach);
        if (call.detach) text += ", detaches buffer " + std::to_string(*call.detach);
        if (call.queue != unordered) text += ", queue " + std::to_string(call.queue);
        for (const Access &access : call.accesses) {
            text += access.mode == AccessMode::read ? ", reads "
                    : writes_byte(access, 1)        ? ", writes "
                                                    : ", changes ";
            text += std::to_string(access.buffer) + "[" + std::to_string(access.begin) + ", " +
                    std::to_string(access.end) + ")";
        }
        for (const std::size_t wait : call.waits) text += ", waits for " + std::to_string(wait);
        if (call.result_to_all) text += ", result to all";
        if (call.blocking) text += ", blocking";
        if (call.fails) text += ", fails";
        if (call.late) text += ", behind a user event";
        if (call.queue == unordered && call.ordering != Ordering::unordered)
            text += ", ordering " + std::to_string(static_cast<int>(call.ordering));
        for (const Process process : call.finishes)
            text += ", process " + std::to_string(process) + " calls clFinish before";
    }
    return text;
}

/// The byte-wise model: the contents of each byte, and the devices that have the newest one.
struct Graph::Expected {
    using Mask = std::uint64_t;  // one bit per device

    explicit Expected(const ModelProgram &p) : program(p) {
        const Mask everybody = (Mask{1} << p.process_of_device.size()) - 1;
        for (const ModelProgram::Buffer &buffer : p.buffers) {
            const bool defined = buffer.contents == Contents::everywhere;
            holders.emplace_back(buffer.size, defined ? everybody : 0);
            behind.emplace_back(buffer.size);
            homes.emplace_back();
            cells.emplace_back(buffer.size, defined ? 0 : garbage);
        }
    }

    static bool has(Mask mask, MemoryId device) { return (mask >> device & 1) != 0; }

    [[nodiscard]] int distance(MemoryId a, MemoryId b) const {
        const Process p = program.process_of_device[a];
        const Process q = program.process_of_device[b];
        return p == q ? 0 : program.host_of_process[p] == program.host_of_process[q] ? 1 : 2;
    }

    /// Checks that the call's transfers are exactly the necessary ones, from nearest holders.
    void check_transfers(const ModelCall &call,
                         std::map<std::pair<BufferId, std::size_t>, MemoryId> sources,
                         bool may_fail = false) {
        std::set<std::pair<BufferId, std::size_t>> from_home;
        for (const Access &access : call.accesses) {
            if (!reads(access) && !may_fail) continue;
            const auto home = homes[access.buffer];
            for (std::size_t at = access.begin; at < access.end; ++at) {
                if (home && *home == call.device) break;
                if (home) {
                    const auto found = sources.find({access.buffer, at});
                    require(found != sources.end() && found->second == *home,
                            "a byte does not come from its home");
                    from_home.insert(found->first);
                    continue;
                }
                Mask &mask = holders[access.buffer][at];
                if (mask == 0 || has(mask, call.device)) continue;
                const auto found = sources.find({access.buffer, at});
                require(found != sources.end(), "a byte is missing that the command reads");
                const MemoryId source = found->second;
                require(has(mask, source), "a copy from a device without the newest bytes");
                for (MemoryId other = 0; other < program.process_of_device.size(); ++other) {
                    require(!has(mask, other) ||
                                distance(other, call.device) >= distance(source, call.device),
                            "a copy from a device that is not the nearest holder");
                }
                sources.erase(found);
                mask |= Mask{1} << call.device;
            }
        }
        for (const auto &byte : from_home) sources.erase(byte);
        require(sources.empty(), "a copy of bytes that the device has or does not read");
    }

    /// Checks that exactly the bytes written on other devices return to their home devices.
    void check_write_backs(const ModelCall &call,
                           const std::set<std::pair<BufferId, std::size_t>> &written) const {
        std::set<std::pair<BufferId, std::size_t>> wanted;
        for (const Access &access : call.accesses)
            for (std::size_t at = access.begin; at < access.end && writes(access); ++at)
                if (homes[access.buffer].value_or(call.device) != call.device)
                    wanted.emplace(access.buffer, at);
        require(written == wanted,
                "the bytes sent home are not the bytes written on other devices");
    }

    void attach(BufferId buffer, MemoryId device,
                std::map<std::pair<BufferId, std::size_t>, MemoryId> sources) {
        homes[buffer].reset();
        ModelCall whole;
        whole.device = device;
        whole.accesses = {{buffer, 0, holders[buffer].size(), AccessMode::read}};
        check_transfers(whole, std::move(sources));
        std::fill(holders[buffer].begin(), holders[buffer].end(), Mask{1} << device);
        homes[buffer] = device;
    }

    /// Without `value`, the bytes keep their contents. In any case, only the buffer's home device,
    /// or the call's device if there is none, has the bytes afterwards.
    void write(const ModelCall &call, std::uint64_t user_events, std::optional<Cell> value) {
        for (const Access &access : call.accesses) {
            for (std::size_t at = access.begin; at < access.end && writes(access); ++at) {
                behind[access.buffer][at] = user_events;
                holders[access.buffer][at] = Mask{1} << homes[access.buffer].value_or(call.device);
                if (value && writes_byte(access, at)) cells[access.buffer][at] = *value;
            }
        }
    }

    void check_residency(const Schedule &schedule) const {
        for (BufferId b = 0; b < holders.size(); ++b) {
            const auto &map = schedule.residency(b).holders();
            std::optional<std::pair<Mask, std::uint64_t>> last;
            map.visit(0, map.size(), [&](std::size_t begin, std::size_t end, const Holders &piece) {
                Mask mask = 0;
                const Topology &topology = schedule.topology();
                for (std::size_t i = 0; i < piece.count(); ++i) {
                    const std::uint32_t place = piece.nth_in({0, topology.memories()}, i);
                    const MemoryId device = topology.memory_at(place);
                    require(piece.contains(place) && !has(mask, device), "holders are wrong");
                    mask |= Mask{1} << device;
                }
                require(last != std::pair(mask, piece.behind()),
                        "neighbours of equal residency are not merged");
                last = {mask, piece.behind()};
                for (std::size_t at = begin; at < end; ++at) {
                    require(holders[b][at] == mask,
                            "a process lists other holders of the newest bytes");
                    require(behind[b][at] == piece.behind(),
                            "a process lists other user events for a byte");
                }
            });
        }
    }

    const ModelProgram &program;
    // By buffer and byte: the devices with the newest value, the user events that it waits for.
    std::vector<std::vector<Mask>> holders;
    std::vector<std::vector<std::uint64_t>> behind;
    std::vector<std::vector<Cell>> cells;
    std::vector<std::optional<MemoryId>> homes;  // the devices that the program attached buffers to
};

std::size_t Graph::add(Node node) {
    nodes_.push_back(std::move(node));
    return nodes_.size() - 1;
}

std::size_t Graph::failures() const {
    return static_cast<std::size_t>(std::count(failed_.begin(), failed_.end(), true));
}

Graph::Graph(const ModelProgram &program) : program_(program), failed_(failed_calls(program)) {
    const auto ended = ended_with(program);
    const auto user_events = user_events_of(program);
    // By queue, and by call: the calls whose results the platform considers complete at its end.
    using Results = std::set<std::size_t>;
    std::map<std::pair<QueueId, MemoryId>, QueuePromises<Results>> queue_promises;
    std::vector<Results> promises(program.calls.size());
    const auto join = [](Results a, const Results &b) {
        a.insert(b.begin(), b.end());
        return a;
    };
    std::vector<std::vector<std::vector<std::size_t>>> landed;  // nodes, by process and call
    const auto processes = static_cast<Process>(program.host_of_process.size());
    const Topology topology(program.host_of_process, program.process_of_device);
    Expected expected(program_);

    std::vector<Schedule> schedules;
    std::vector<std::vector<ScheduledEvent>> events(processes);
    for (Process p = 0; p < processes; ++p) {
        schedules.emplace_back(topology, p, program.attach_after);
        events[p].resize(program.calls.size());
        for (BufferId b = 0; b < program.buffers.size(); ++b) {
            require(schedules[p].create_buffer(program.buffers[b].size, program.buffers[b].contents,
                                               true) == b,
                    "a buffer has another number");
        }
    }

    // Nodes: the end of each step; by process and call, the node at which the process knows that
    // the call has ended; the host's last wait or clFinish; each in-order queue's last command.
    std::map<std::tuple<Process, CommandId, std::uint32_t>, std::size_t> steps;
    std::vector<std::vector<std::size_t>> known(
        processes, std::vector<std::size_t>(program.calls.size(), nobody));
    std::vector<std::size_t> gate(processes, nobody);
    std::map<QueueId, std::size_t> queues;
    // Messages that are not matched yet, by sender, receiver and number: the sending nodes.
    std::map<std::tuple<Process, Process, std::uint64_t>, std::size_t> messages;
    std::vector<std::set<Process>> told(program.calls.size());
    std::vector<bool> told_all(program.calls.size());

    landed.assign(processes, std::vector<std::vector<std::size_t>>(program.calls.size()));
    // By in-order queue: the node at which its last command has ended, and all that it waits for.
    std::map<QueueId, std::size_t> over_in_queue;

    const auto add_to = [&](Process p, Node node) {
        if (gate[p] != nobody) node.before.push_back(gate[p]);
        return add(std::move(node));
    };
    const auto send = [&](Process p, const Message &message, std::size_t node) {
        require(message.peer != p, "a message to oneself");
        require(messages.emplace(std::tuple(p, message.peer, message.number), node).second,
                "two messages with the same number");
    };
    // A message that a process awaits. It is matched when all processes have decided.
    struct Awaited {
        Process process;
        Message message;
        std::size_t node;
    };
    std::vector<Awaited> awaited;
    const auto steps_of = [&](Process p, const std::vector<Step> &after) {
        std::vector<std::size_t> before;
        for (const Step &step : after) {
            const auto found = steps.find({p, step.command, step.part});
            require(found != steps.end(),
                    "a step waits for a step that this process does not have");
            before.push_back(found->second);
        }
        return before;
    };
    const auto follow = [&](Process p, const Relay &relay, std::size_t call) {
        if (relay.from) {
            const std::size_t node = add_to(p, {Node::Kind::hear, p, call});
            awaited.push_back({p, *relay.from, node});
            if (known[p][call] == nobody || program_.calls[call].result_to_all)
                known[p][call] = node;
            if (program_.calls[call].result_to_all) landed[p][call].push_back(node);
            for (const Message &message : relay.to) {
                const std::size_t sent = add_to(p, {.kind = Node::Kind::tell,
                                                    .process = p,
                                                    .call = call,
                                                    .peer = node,
                                                    .before = {node}});
                send(p, message, sent);
                if (program_.calls[call].result_to_all) landed[p][call].push_back(sent);
            }
        } else {
            for (const Message &message : relay.to) {
                const std::size_t node = known[p][call];
                const std::size_t sent = add_to(p, {.kind = Node::Kind::tell,
                                                    .process = p,
                                                    .call = call,
                                                    .peer = node,
                                                    .before = {node}});
                send(p, message, sent);
                if (program_.calls[call].result_to_all) landed[p][call].push_back(sent);
            }
        }
    };

    // Adds a transfer to `target`, and records the sources of its bytes.
    const auto take = [&](Process p, std::size_t k, const Transfer &transfer, MemoryId target,
                          std::map<std::pair<BufferId, std::size_t>, MemoryId> &sources) {
        Node node{
            Node::Kind::copy, p, k, transfer.buffer, transfer.begin, transfer.end, transfer.source,
            transfer.target};
        node.before = steps_of(p, transfer.after);
        if (transfer.kind == Transfer::Kind::send) node.kind = Node::Kind::send;
        if (transfer.kind == Transfer::Kind::receive) node.kind = Node::Kind::receive;
        require(transfer.begin < transfer.end, "an empty transfer");
        require(transfer.target == target, "a transfer to another device");
        const bool gives = program.process_of_device[transfer.source] == p;
        const bool gets = program.process_of_device[target] == p;
        require(gives == (node.kind != Node::Kind::receive),
                "a process sends bytes that it does not have");
        require(gets == (node.kind != Node::Kind::send),
                "a process receives bytes that it does not need");
        const std::size_t number = add_to(p, std::move(node));
        require(
            steps.emplace(std::tuple(p, transfer.step.command, transfer.step.part), number).second,
            "two steps with the same number");
        if (transfer.kind == Transfer::Kind::send) send(p, transfer.message, number);
        if (transfer.kind == Transfer::Kind::receive)
            awaited.push_back({p, transfer.message, number});
        if (transfer.kind == Transfer::Kind::send) return;
        ++transfers_;
        for (std::size_t at = transfer.begin; at < transfer.end; ++at) {
            const bool is_new =
                sources.insert_or_assign({transfer.buffer, at}, transfer.source).second;
            require(is_new || expected.homes[transfer.buffer], "a byte is received twice");
        }
    };
    const auto match_messages = [&] {
        for (const auto &[process, message, node] : awaited) {
            const auto found = messages.find({message.peer, process, message.number});
            require(found != messages.end(), "a process waits for a message that nobody sends");
            const std::size_t from = found->second;
            const Node &a = nodes_[from];
            Node &b = nodes_[node];
            require((a.kind == Node::Kind::send && b.kind == Node::Kind::receive) ||
                        (a.kind == Node::Kind::tell && b.kind == Node::Kind::hear),
                    "the ends of a message are of different kinds");
            require(std::tie(a.call, a.buffer, a.begin, a.end, a.source, a.target) ==
                        std::tie(b.call, b.buffer, b.begin, b.end, b.source, b.target),
                    "the ends of a message disagree about its bytes");
            b.peer = from;
            b.before.push_back(from);
            messages.erase(found);
        }
        awaited.clear();
        require(messages.empty(), "a message that nobody receives");
    };

    // The command number of each call in each process, and the calls that other calls wait for.
    std::vector<std::vector<CommandId>> ids(processes,
                                            std::vector<CommandId>(program.calls.size()));
    std::vector<CommandId> last(processes);
    const auto call_of = [&](Process p, CommandId id) {
        return static_cast<std::size_t>(std::find(ids[p].begin(), ids[p].end(), id) -
                                        ids[p].begin());
    };
    std::vector<bool> has_event(program.calls.size());
    for (const ModelCall &call : program.calls)
        for (const std::size_t wait : call.waits) has_event[wait] = true;
    const auto is_left_out = [&](Process p, std::size_t k) {
        const ModelCall &call = program.calls[k];
        if (program.process_of_device[call.device] == p || call.accesses.empty() ||
            !call.waits.empty() || call.result_to_all)
            return false;
        return std::all_of(call.accesses.begin(), call.accesses.end(), [&](const Access &access) {
            const auto home = schedules[p].home(access.buffer);
            if (home && home->by_itself) return home->memory == call.device && user_events[k] == 0;
            return home && program.process_of_device[home->memory] != p;
        });
    };

    for (std::size_t k = 0; k < program.calls.size(); ++k) {
        const ModelCall &call = program.calls[k];
        const Process owner = program.process_of_device[call.device];

        for (const Process p : call.finishes) {
            Node finish{Node::Kind::finish, p, k};
            for (std::size_t n = 0; n < nodes_.size(); ++n) {
                if (nodes_[n].process == p) finish.before.push_back(n);
            }
            gate[p] = add(std::move(finish));
            schedules[p].over(last[p] + 1);
        }

        // The bytes that the call would read on a single device.
        reads_.emplace_back();
        defined_.emplace_back();
        for (const Access &access : call.accesses) {
            for (std::size_t at = access.begin; at < access.end && reads(access); ++at) {
                reads_[k].push_back(expected.cells[access.buffer][at]);
                defined_[k].push_back(expected.cells[access.buffer][at] != garbage);
            }
        }
        if (call.attach || call.detach) {
            std::map<std::pair<BufferId, std::size_t>, MemoryId> from;
            for (Process p = 0; p < processes; ++p) {
                if (call.detach) schedules[p].detach(*call.detach);
                if (!call.attach) continue;
                const Decisions &d = schedules[p].attach(*call.attach, call.device);
                for (const Transfer &transfer : d.transfers)
                    take(p, k, transfer, call.device, from);
                ++last[p];
            }
            match_messages();
            if (call.attach) expected.attach(*call.attach, call.device, std::move(from));
            if (call.detach) expected.homes[*call.detach].reset();
            continue;
        }
        // A call that fails because of its wait list leaves its output bytes unchanged.
        const bool keeps_bytes = failed_[k] && !call.fails;
        const bool may_fail = keeps_bytes || user_events[k] != 0;
        std::size_t to_tell = 0;
        for (const std::size_t wait : call.waits) {
            const bool knows =
                told_all[wait] || program.process_of_device[program.calls[wait].device] == owner;
            if (!knows && told[wait].insert(owner).second) ++to_tell;
        }

        std::map<std::pair<BufferId, std::size_t>, MemoryId> sources;
        std::set<std::pair<BufferId, std::size_t>> written_back;
        std::size_t completions_sent = 0;
        std::size_t completions_awaited = 0;
        // The platform attaches some buffers automatically. Their bytes move as if they were not
        // attached, so the model ignores them.
        for (BufferId b = 0; b < program.buffers.size(); ++b) {
            const auto home = schedules[0].home(b);
            if (home && home->by_itself) ++attached_;
            require(!home || home->by_itself || expected.homes[b] == home->memory,
                    "a buffer has another home");
            for (const Schedule &schedule : schedules) {
                const auto other = schedule.home(b);
                require(home.has_value() == other.has_value() &&
                            (!home || (home->memory == other->memory &&
                                       home->by_itself == other->by_itself)),
                        "processes disagree about a buffer's home device");
            }
        }
        for (Process p = 0; p < processes; ++p) {
            if (is_left_out(p, k)) {
                ++left_out_;
                if (has_event[k] || call.blocking) {
                    events[p][k] = schedules[p].leave_out(call.device);
                    ids[p][k] = last[p] = events[p][k].command;
                }
                continue;
            }
            std::vector<ScheduledEvent *> waits;
            for (const std::size_t wait : call.waits) waits.push_back(&events[p][wait]);
            const Decisions &d =
                schedules[p].decide({call.device, call.queue, call.accesses, waits,
                                     call.result_to_all, may_fail, user_events[k]});
            require(d.event.command > last[p] && d.event.process == owner,
                    "a command has an unexpected number");
            ids[p][k] = d.event.command;
            last[p] = d.event.command + (d.write_backs.empty() ? 0 : 1);
            require(d.local == (p == owner),
                    "a command is enqueued by another process than its device's owner");
            events[p][k] = d.event;

            for (const Completion &completion : d.completions_sent) {
                const std::size_t about = call_of(p, completion.command);
                require(program.process_of_device[program.calls[about].device] == p,
                        "a completion by another process");
                require(completion.message.peer == owner,
                        "a completion for a process that does not wait");
                send(p, completion.message,
                     add_to(p, {.kind = Node::Kind::tell,
                                .process = p,
                                .call = about,
                                .peer = known[p][about],
                                .before = {known[p][about]}}));
                ++completions_sent;
            }
            for (const Completion &completion : d.completions_awaited) {
                const std::size_t about = call_of(p, completion.command);
                const std::size_t node = add_to(p, {Node::Kind::hear, p, about});
                require(known[p][about] == nobody, "a completion that the process already knows");
                known[p][about] = node;
                awaited.push_back({p, completion.message, node});
                ++completions_awaited;
            }
            for (const Transfer &transfer : d.transfers) take(p, k, transfer, call.device, sources);
            if (d.local) {
                Node node{Node::Kind::command, p, k};
                std::vector<std::size_t> waited = steps_of(p, d.after);
                if (call.queue != unordered) {
                    // If the last command failed, what it waited for may not have ended.
                    if (const auto last = queues.find(call.queue); last != queues.end()) {
                        waited.push_back(last->second);
                        waited.push_back(over_in_queue[call.queue]);
                    }
                }
                for (const std::size_t wait : call.waits) {
                    require(known[p][wait] != nobody, "a waiting process gets no completion");
                    // A command that fails because of its wait list ends as soon as one event of
                    // the list has failed. A command with its own error may fail at any time.
                    if (!failed_[k] || (failed_[wait] && !call.fails))
                        node.before.push_back(known[p][wait]);
                }
                if (!failed_[k])
                    node.before.insert(node.before.end(), waited.begin(), waited.end());
                known[p][k] = add_to(p, std::move(node));
                std::size_t over = known[p][k];
                // A command that waits for a failed command also waits for everything that the
                // failed one waited for.
                if (failed_[k]) {
                    waited.push_back(over);
                    over = add_to(
                        p, {.kind = Node::Kind::over, .process = p, .call = k, .before = waited});
                }
                if (call.queue != unordered) {
                    queues[call.queue] = known[p][k];
                    over_in_queue[call.queue] = over;
                }
                steps.emplace(std::tuple(p, ids[p][k], 0U), over);
                if (call.result_to_all) landed[p][k].push_back(known[p][k]);
            } else {
                require(d.after.empty(), "a command on another process's device waits");
            }
            for (const Transfer &transfer : d.write_backs) {
                std::map<std::pair<BufferId, std::size_t>, MemoryId> bytes;
                require(transfer.source == call.device,
                        "bytes are sent home from another device than the writer");
                take(p, k, transfer, expected.homes[transfer.buffer].value_or(~MemoryId{0}), bytes);
                for (const auto &[byte, source] : bytes) written_back.insert(byte);
                ++write_backs_;
            }
            require(call.result_to_all || (!d.result.from && d.result.to.empty()),
                    "a result that was not requested");
            follow(p, d.result, k);
        }
        require(completions_sent == to_tell && completions_awaited == to_tell,
                "an unexpected number of completions");
        completions_ += to_tell;
        if (call.result_to_all) told_all[k] = true;
        std::vector<Results> of_waits;
        for (const std::size_t wait : call.waits) of_waits.push_back(promises[wait]);
        promises[k] =
            promise_of_next(queue_promises[{call.queue, call.queue == unordered ? call.device : 0}],
                            ordering_of(call), call.result_to_all ? Results{k} : Results{},
                            std::span<const Results>(of_waits), join);
        if (call.blocking) {
            for (Process p = 0; p < processes; ++p)
                follow(p, schedules[p].tell_all(events[p][k]), k);
            for (Process p = 0; p < processes; ++p) {
                require(known[p][k] != nobody, "a waiting host gets no completion");
                // A failed call guarantees no results.
                Node wait{Node::Kind::wait, p, k};
                wait.before.push_back(known[p][k]);
                if (!failed_[k]) {
                    for (const std::size_t result : promises[k])
                        wait.before.insert(wait.before.end(), landed[p][result].begin(),
                                           landed[p][result].end());
                }
                gate[p] = add_to(p, std::move(wait));
                if (failed_[k]) continue;
                for (const std::size_t other : ended[k])
                    for (const std::size_t node : landed[p][other])
                        promised_.push_back({node, gate[p]});
                for (const std::size_t result : promises[k])
                    require(ended[k].contains(result),
                            "a host's wait promises a result that may be incomplete");
            }
            told_all[k] = true;
        }

        match_messages();
        expected.check_transfers(call, std::move(sources), may_fail);
        expected.check_write_backs(call, written_back);
        // If a call fails with its own error, its output bytes are undefined.
        if (keeps_bytes)
            expected.write(call, user_events[k], {});
        else
            expected.write(call, user_events[k], failed_[k] ? garbage : static_cast<Cell>(k + 1));
    }
    for (const Schedule &schedule : schedules) expected.check_residency(schedule);
}

void Graph::check_order() const {
    // For each node, the nodes that end before it begins.
    const std::size_t count = nodes_.size();
    const std::size_t words = (count + 63) / 64;
    std::vector<std::uint64_t> earlier(count * words);
    const auto is_before = [&](std::size_t a, std::size_t b) {
        return (earlier[b * words + a / 64] >> (a % 64) & 1) != 0;
    };
    std::vector<std::size_t> open(count);
    std::vector<std::vector<std::size_t>> behind(count);
    std::vector<std::size_t> ready;
    for (std::size_t n = 0; n < count; ++n) {
        open[n] = nodes_[n].before.size();
        for (const std::size_t before : nodes_[n].before) behind[before].push_back(n);
        if (open[n] == 0) ready.push_back(n);
    }
    std::size_t seen = 0;
    for (; seen < ready.size(); ++seen) {
        const std::size_t n = ready[seen];
        for (const std::size_t next : behind[n]) {
            for (std::size_t word = 0; word < words; ++word)
                earlier[next * words + word] |= earlier[n * words + word];
            earlier[next * words + n / 64] |= std::uint64_t{1} << (n % 64);
            if (--open[next] == 0) ready.push_back(next);
        }
    }
    require(seen == count, "steps wait for each other in a circle");

    struct Use {
        std::size_t node;
        MemoryId device;
        BufferId buffer;
        std::size_t begin;
        std::size_t end;
        bool writes;
    };
    std::vector<Use> uses;
    std::vector<std::size_t> command_of(program_.calls.size());
    for (std::size_t n = 0; n < count; ++n) {
        const Node &node = nodes_[n];
        if (node.kind == Node::Kind::command) {
            command_of[node.call] = n;
            const ModelCall &call = program_.calls[node.call];
            for (const Access &a : call.accesses) {
                if (failed_[node.call]) break;
                uses.push_back({n, call.device, a.buffer, a.begin, a.end, writes(a)});
            }
        }
        if (node.kind == Node::Kind::send || node.kind == Node::Kind::copy) {
            uses.push_back({n, node.source, node.buffer, node.begin, node.end, false});
        }
        if (node.kind == Node::Kind::receive || node.kind == Node::Kind::copy) {
            uses.push_back({n, node.target, node.buffer, node.begin, node.end, true});
        }
    }
    for (const Use &a : uses) {
        for (const Use &b : uses) {
            const bool conflict = a.node < b.node && a.device == b.device && a.buffer == b.buffer &&
                                  a.begin < b.end && b.begin < a.end && (a.writes || b.writes);
            require(!conflict || is_before(a.node, b.node) || is_before(b.node, a.node),
                    "two steps use the same bytes at the same time");
        }
    }
    for (const auto &[node, wait] : promised_)
        require(is_before(node, wait), "after its wait a host reads old bytes");
    for (std::size_t k = 0; k < program_.calls.size(); ++k) {
        for (const std::size_t wait : program_.calls[k].waits) {
            require(failed_[k] || is_before(command_of[wait], command_of[k]),
                    "a command begins before what it waits for has ended");
        }
    }
}

void Graph::check_progress() const {
    const std::vector<bool> must = must_end(program_);
    const auto is_held_back = [&](const Node &node) {
        return node.kind == Node::Kind::command && program_.calls[node.call].late;
    };
    State state = start();
    for (bool went_on = true; went_on;) {
        went_on = false;
        for (std::size_t n = 0; n < nodes_.size(); ++n) {
            if (is_held_back(nodes_[n]) || !is_ready(state, n)) continue;
            execute(state, n);
            went_on = true;
        }
    }
    for (std::size_t n = 0; n < nodes_.size(); ++n)
        require(state.done[n] || !must[nodes_[n].call],
                "call " + std::to_string(nodes_[n].call) +
                    " waits for a user event that it does not depend on");
}

Graph::State Graph::start() const {
    State state;
    for (MemoryId device = 0; device < program_.process_of_device.size(); ++device) {
        state.memory.emplace_back();
        for (const ModelProgram::Buffer &buffer : program_.buffers) {
            state.memory.back().emplace_back(
                buffer.size, buffer.contents == Contents::everywhere ? 0 : garbage + device);
        }
    }
    state.messages.resize(nodes_.size());
    state.done.resize(nodes_.size());
    return state;
}

bool Graph::is_ready(const State &state, std::size_t node) const {
    const auto &before = nodes_[node].before;
    return !state.done[node] &&
           std::all_of(before.begin(), before.end(), [&](std::size_t n) { return state.done[n]; });
}

void Graph::execute(State &state, std::size_t number) const {
    const Node &node = nodes_[number];
    const auto range_of = [&](MemoryId device) {
        return state.memory[device][node.buffer].begin() + static_cast<std::ptrdiff_t>(node.begin);
    };
    const auto size = static_cast<std::ptrdiff_t>(node.end - node.begin);
    const auto check = [&](const std::vector<Cell> &seen) {
        for (std::size_t i = 0; i < reads_[node.call].size(); ++i) {
            require(!defined_[node.call][i] || seen[i] == reads_[node.call][i],
                    "call " + std::to_string(node.call) + ": byte " + std::to_string(i) +
                        " of its input was written by call " + std::to_string(seen[i]) +
                        " instead of " + std::to_string(reads_[node.call][i]));
        }
    };
    switch (node.kind) {
        case Node::Kind::command: {
            if (failed_[node.call]) break;
            const ModelCall &call = program_.calls[node.call];
            auto &memory = state.memory[call.device];
            std::vector<Cell> seen;
            for (const Access &access : call.accesses) {
                for (std::size_t at = access.begin; at < access.end && reads(access); ++at) {
                    seen.push_back(memory[access.buffer][at]);
                }
            }
            check(seen);
            for (const Access &access : call.accesses) {
                for (std::size_t at = access.begin; at < access.end; ++at) {
                    if (writes_byte(access, at))
                        memory[access.buffer][at] = static_cast<Cell>(node.call + 1);
                }
            }
            if (call.result_to_all) state.messages[number] = seen;
            break;
        }
        case Node::Kind::send:
            state.messages[number].assign(range_of(node.source), range_of(node.source) + size);
            break;
        case Node::Kind::receive:
            std::copy_n(state.messages[node.peer].begin(), size, range_of(node.target));
            state.messages[node.peer].clear();
            break;
        case Node::Kind::copy:
            std::copy_n(range_of(node.source), size, range_of(node.target));
            break;
        case Node::Kind::tell: state.messages[number] = state.messages[node.peer]; break;
        case Node::Kind::hear:
            state.messages[number] = state.messages[node.peer];
            if (program_.calls[node.call].result_to_all && !failed_[node.call])
                check(state.messages[number]);
            break;
        case Node::Kind::finish:
        case Node::Kind::over:
        case Node::Kind::wait: break;
    }
    state.done[number] = true;
}

void Graph::execute_randomly(std::mt19937_64 &random) const {
    State state = start();
    std::vector<std::size_t> ready;
    for (std::size_t done = 0; done < nodes_.size(); ++done) {
        ready.clear();
        for (std::size_t n = 0; n < nodes_.size(); ++n) {
            if (is_ready(state, n)) ready.push_back(n);
        }
        require(!ready.empty(), "nothing can go on");
        execute(state, ready[random() % ready.size()]);
    }
}

std::size_t Graph::execute_all() const {
    std::unordered_set<std::string> met;
    std::size_t choices = 0;
    const auto key_of = [](const State &state) {
        std::string key;
        const auto append = [&key](const std::vector<Cell> &cells) {
            key.append(reinterpret_cast<const char *>(cells.data()), cells.size() * sizeof(Cell));
            key += '|';
        };
        for (const bool done : state.done) key += done ? '1' : '0';
        for (const auto &device : state.memory) std::for_each(device.begin(), device.end(), append);
        std::for_each(state.messages.begin(), state.messages.end(), append);
        return key;
    };
    std::vector<State> open{start()};
    met.insert(key_of(open.back()));
    while (!open.empty()) {
        const State state = std::move(open.back());
        open.pop_back();
        std::size_t ready = 0;
        for (std::size_t n = 0; n < nodes_.size(); ++n) {
            if (!is_ready(state, n)) continue;
            ++ready;
            State next = state;
            execute(next, n);
            if (met.insert(key_of(next)).second) open.push_back(std::move(next));
        }
        choices += ready > 1 ? 1 : 0;
        require(
            ready > 0 || std::find(state.done.begin(), state.done.end(), false) == state.done.end(),
            "nothing can go on");
    }
    return choices;
}

}  // namespace cluster_model
