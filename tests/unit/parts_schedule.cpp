#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "cluster/schedule/schedule.hpp"

using namespace cldist::cluster;

namespace {

constexpr std::size_t size = 60;

/// The schedules of all processes, and for each device and byte the number of the write that its
/// memory shows. Commands are executed in the order of their decisions.
class Machine {
public:
    Machine(const Topology &topology, std::size_t buffers, Contents contents)
        : topology_(topology), newest_(buffers, std::vector<int>(size)) {
        for (Process p = 0; p < topology.processes(); ++p) schedules_.emplace_back(topology, p);
        memories_.assign(topology.memories(), newest_);
        for (std::size_t i = 0; i < buffers; ++i)
            for (Schedule &schedule : schedules_) schedule.create_buffer(size, contents);
    }

    /// Decides and executes a launch. `known`: what each process remembers of equal launches.
    void launch(const std::vector<std::vector<Access>> &accesses, std::vector<KnownParts> &known) {
        std::vector<CommandPart> parts;
        std::set<BufferId> buffers;
        for (MemoryId device = 0; device < accesses.size(); ++device) {
            if (!accesses[device].empty()) parts.push_back({device, accesses[device]});
            for (const Access &access : accesses[device]) buffers.insert(access.buffer);
        }
        const std::vector<BufferId> list(buffers.begin(), buffers.end());
        known.resize(schedules_.size());
        std::vector<std::vector<Transfer>> all;
        for (Process p = 0; p < schedules_.size(); ++p)
            all.push_back(schedules_[p].begin_parts(parts, list, known[p]));
        carry_out(all);
        for (const CommandPart &part : parts)
            for (const Access &access : part.accesses)
                if (access.mode != AccessMode::write) check_read(part.memory, access);
        ++writes_;
        for (const CommandPart &part : parts)
            for (const Access &access : part.accesses)
                if (access.mode != AccessMode::read) write({part.memory}, access);
        for (const CommandPart &part : parts)
            schedules_[topology_.process_of(part.memory)].decide_part(
                {part.memory, unordered, part.accesses, {}});
    }

    void command(MemoryId device, const Access &access) {
        std::vector<std::vector<Transfer>> all;
        for (Schedule &schedule : schedules_)
            all.push_back(schedule.decide({device, unordered, {&access, 1}, {}}).transfers);
        carry_out(all);
        if (access.mode != AccessMode::write) check_read(device, access);
        ++writes_;
        if (access.mode != AccessMode::read) write({device}, access);
    }

    void write_everywhere(const Access &access) {
        for (Schedule &schedule : schedules_) schedule.write_everywhere(access);
        ++writes_;
        std::vector<MemoryId> devices;
        for (MemoryId device = 0; device < topology_.memories(); ++device)
            devices.push_back(device);
        write(devices, access);
    }

    void copy_in_place(const Access &from, const Access &to) {
        for (MemoryId device = 0; device < topology_.memories(); ++device) {
            const auto place = topology_.place_of(device);
            schedules_[0]
                .residency(from.buffer)
                .holders()
                .visit(from.begin, from.end,
                       [&](std::size_t begin, std::size_t end, const Holders &holders) {
                           if (holders.count() == 0 || !holders.contains(place)) return;
                           for (std::size_t at = begin; at < end; ++at)
                               memories_[device][to.buffer][at - from.begin + to.begin] =
                                   memories_[device][from.buffer][at];
                       });
        }
        for (std::size_t at = from.begin; at < from.end; ++at)
            newest_[to.buffer][at - from.begin + to.begin] = newest_[from.buffer][at];
        for (Schedule &schedule : schedules_) schedule.copy_in_place(from, to);
    }

    [[nodiscard]] std::size_t packed() const { return packed_; }
    [[nodiscard]] std::size_t messages() const { return messages_; }

private:
    static std::vector<Piece> pieces_of(const Transfer &transfer) {
        if (transfer.pieces.empty()) return {{transfer.begin, transfer.end}};
        return transfer.pieces;
    }

    // Executes the transfers of one command, before its accesses. Each send must match a receive.
    void carry_out(const std::vector<std::vector<Transfer>> &all) {
        using Name = std::tuple<Process, Process, std::uint64_t>;
        std::map<Name, const Transfer *> sent;
        std::map<Name, const Transfer *> received;
        for (Process p = 0; p < all.size(); ++p)
            for (const Transfer &transfer : all[p]) {
                if (transfer.kind == Transfer::Kind::send)
                    CHECK(sent.emplace(Name{p, transfer.message.peer, transfer.message.number},
                                       &transfer)
                              .second);
                if (transfer.kind == Transfer::Kind::receive)
                    CHECK(received
                              .emplace(Name{transfer.message.peer, p, transfer.message.number},
                                       &transfer)
                              .second);
                if (transfer.kind != Transfer::Kind::send) move(transfer);
            }
        REQUIRE(sent.size() == received.size());
        messages_ += sent.size();
        for (const auto &[name, transfer] : sent) {
            REQUIRE(received.contains(name));
            CHECK(pieces_of(*received[name]) == pieces_of(*transfer));
            packed_ += transfer->pieces.empty() ? 0 : 1;
        }
    }
    void move(const Transfer &transfer) {
        for (const Piece &piece : pieces_of(transfer))
            for (std::size_t at = piece.begin; at < piece.end; ++at)
                memories_[transfer.target][transfer.buffer][at] =
                    memories_[transfer.source][transfer.buffer][at];
    }
    void check_read(MemoryId device, const Access &access) {
        for (std::size_t at = access.begin; at < access.end; ++at)
            if (newest_[access.buffer][at] != 0) {
                REQUIRE(memories_[device][access.buffer][at] == newest_[access.buffer][at]);
            }
    }
    void write(const std::vector<MemoryId> &devices, const Access &access) {
        for (std::size_t at = access.begin; at < access.end; ++at) {
            newest_[access.buffer][at] = writes_;
            for (const MemoryId device : devices) memories_[device][access.buffer][at] = writes_;
        }
    }

    const Topology topology_;
    std::vector<Schedule> schedules_;
    std::vector<std::vector<int>> newest_;                 // by buffer and byte
    std::vector<std::vector<std::vector<int>>> memories_;  // by device, buffer and byte
    int writes_ = 0;
    std::size_t packed_ = 0;
    std::size_t messages_ = 0;
};

// Each device writes its range of buffer `to`, and reads the same range with borders from `from`.
std::vector<std::vector<Access>> stencil(std::size_t devices, BufferId from, BufferId to,
                                         std::size_t border) {
    std::vector<std::vector<Access>> accesses(devices);
    for (std::size_t i = 0; i < devices; ++i) {
        const std::size_t begin = size * i / devices;
        const std::size_t end = size * (i + 1) / devices;
        accesses[i].push_back({from, begin - std::min(begin, border), std::min(end + border, size),
                               AccessMode::read});
        accesses[i].push_back({to, begin, end, AccessMode::write});
    }
    return accesses;
}

// Each device reads and writes some of the bytes of every row.
std::vector<std::vector<Access>> columns(std::size_t devices, BufferId buffer) {
    constexpr std::size_t row = 12;
    std::vector<std::vector<Access>> accesses(devices);
    for (std::size_t i = 0; i < devices; ++i)
        for (std::size_t begin = 0; begin < size; begin += row)
            accesses[i].push_back({buffer, begin + row * i / devices,
                                   begin + row * (i + 1) / devices, AccessMode::read_write});
    return accesses;
}

}  // namespace

TEST_CASE(
    "sub-ranges of launches read the bytes from before the launch, among other commands, on any "
    "cluster") {
    const std::vector<Topology> topologies{Topology({0}, {0, 0}), Topology({0, 1}, {0, 1}),
                                           Topology({0, 0, 1}, {0, 1, 2}),
                                           Topology({0, 1, 1, 0}, {0, 1, 1, 2, 3})};
    std::mt19937 random(1);
    for (const Topology &topology : topologies)
        for (int round = 0; round < 20; ++round) {
            Machine machine(topology, 3,
                            round % 2 == 0 ? Contents::everywhere : Contents::undefined);
            std::vector<std::vector<KnownParts>> known(18);
            const std::size_t devices = topology.memories();
            for (int step = 0; step < 200; ++step) {
                const auto buffer = static_cast<BufferId>(random() % 3);
                const auto other = static_cast<BufferId>((buffer + 1 + random() % 2) % 3);
                std::size_t begin = random() % size;
                std::size_t end = random() % size;
                if (end < begin) std::swap(begin, end);
                const std::size_t border = random() % 3;
                switch (random() % 8) {
                    case 0:
                        machine.command(random() % devices, {buffer, begin, end, AccessMode::read});
                        break;
                    case 1:
                        machine.command(random() % devices,
                                        {buffer, begin, end, AccessMode::write});
                        break;
                    case 2:
                        machine.write_everywhere({buffer, begin, end, AccessMode::write});
                        break;
                    case 3:
                        machine.copy_in_place({buffer, begin, end, AccessMode::read},
                                              {other, begin, end, AccessMode::write});
                        break;
                    case 4: machine.launch(columns(devices, buffer), known[9 + buffer]); break;
                    default: {
                        const std::size_t number = buffer * 3 + border;
                        const auto to = static_cast<BufferId>((buffer + 1) % 3);
                        machine.launch(stencil(devices, buffer, to, border), known[number]);
                    }
                }
            }
        }
}

TEST_CASE("a repeated launch is not decided again, and exchanges only its borders") {
    const Topology topology({0, 1, 2, 3}, {0, 1, 2, 3});
    Machine machine(topology, 2, Contents::everywhere);
    std::array<std::vector<KnownParts>, 2> known;
    for (std::size_t i = 0; i < 40; ++i) {
        const std::size_t before = machine.messages();
        machine.launch(stencil(4, i % 2, 1 - i % 2, 1), known.at(i % 2));
        CHECK(machine.messages() - before == (i == 0 ? 0 : 6));
    }
    for (const auto &each : known) CHECK(each.front().decided.size() <= 3);
}

TEST_CASE("pieces of rows are packed into one message") {
    const Topology topology({0, 1, 2}, {0, 1, 2});
    Machine machine(topology, 1, Contents::everywhere);
    std::vector<KnownParts> known;
    machine.launch(columns(3, 0), known);
    CHECK(machine.messages() == 0);
    machine.command(0, {0, 0, size, AccessMode::read});
    const std::size_t before = machine.messages();
    CHECK(before == 10);
    // Device 0 has everything, and each other device gets its columns in one message.
    machine.command(0, {0, 0, size, AccessMode::write});
    machine.launch(columns(3, 0), known);
    CHECK(machine.messages() - before == 2);
    CHECK(machine.packed() == 2);
}
