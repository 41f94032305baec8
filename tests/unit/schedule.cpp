/// The decisions of all processes' schedules, executed on a model of a cluster. The environment
/// variable CLDIST_TEST_SEQUENCES selects the long version and sets its number of random programs.

#include "cluster/schedule/schedule.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>

#include <doctest/doctest.h>

#include "cluster_model.hpp"

using namespace cluster_model;

namespace {

constexpr const char *sequences_variable = "CLDIST_TEST_SEQUENCES";
constexpr std::size_t size = 4;  // bytes of a buffer

bool in_long_version() { return std::getenv(sequences_variable) != nullptr; }

/// Executes the program in every order. Returns the number of states with a choice.
std::size_t check(const ModelProgram &program) {
    try {
        const Graph graph(program);
        graph.check_order();
        return graph.execute_all();
    } catch (const std::string &what) {
        FAIL(what << "\n" << describe(program));
    }
    return 0;
}

Access whole(BufferId buffer, AccessMode mode) { return {buffer, 0, size, mode}; }

Access half(BufferId buffer, std::size_t number, AccessMode mode) {
    return {buffer, number * size / 2, (number + 1) * size / 2, mode};
}

/// The possible accesses of a command in the enumerated programs.
const std::vector<std::vector<Access>> forms = {
    {whole(0, AccessMode::read)},
    {whole(0, AccessMode::write)},
    {whole(0, AccessMode::read_write)},
    {half(0, 0, AccessMode::write)},
    {half(0, 1, AccessMode::read_write)},
    {whole(0, AccessMode::read), whole(1, AccessMode::write)},
    {whole(1, AccessMode::read), half(0, 0, AccessMode::read), half(0, 1, AccessMode::write)},
};

/// Calls `use` with every program of `length` calls on any of three devices, in any of the forms.
template <typename Use>
void for_each_program(std::size_t length, Use &&use) {
    ModelProgram program;
    program.buffers = {{size, Contents::undefined}, {size, Contents::everywhere}};
    program.calls.resize(length);
    std::size_t count = 1;
    for (std::size_t i = 0; i < length; ++i) count *= 3 * forms.size();
    for (std::size_t number = 0; number < count; ++number) {
        std::size_t rest = number;
        for (ModelCall &call : program.calls) {
            call.device = static_cast<MemoryId>(rest % 3);
            call.accesses = forms[rest / 3 % forms.size()];
            rest /= 3 * forms.size();
        }
        use(program);
    }
}

enum class Order { unordered, in_order, wait_lists, results, failures, failures_in_order };

void set_order(ModelProgram &program, Order order) {
    for (std::size_t k = 0; k < program.calls.size(); ++k) {
        ModelCall &call = program.calls[k];
        call.queue =
            order == Order::in_order || order == Order::failures_in_order ? call.device : unordered;
        call.waits.clear();
        if ((order == Order::wait_lists || order == Order::results) && k > 0)
            call.waits.push_back(k - 1);
        call.result_to_all = order == Order::results && k % 2 == 0;
        call.fails = order >= Order::failures && k == 1;
    }
}

void place(ModelProgram &program, bool all_apart) {
    program.host_of_process =
        all_apart ? std::vector<std::uint32_t>{0, 0, 1} : std::vector<std::uint32_t>{0, 1};
    program.process_of_device =
        all_apart ? std::vector<Process>{0, 1, 2} : std::vector<Process>{0, 0, 1};
}

/// The program after an attachment of its first buffer to a device.
ModelProgram with_home(ModelProgram program, MemoryId device) {
    ModelCall attach;
    attach.device = device;
    attach.attach = 0;
    for (ModelCall &call : program.calls)
        for (std::size_t &wait : call.waits) ++wait;
    program.calls.insert(program.calls.begin(), attach);
    return program;
}

/// Executes every `step`-th program of `length` commands, in all placements and queue orders, in
/// every order of execution. If `home` is given, the first buffer is attached to it.
void check_programs(std::size_t length, std::size_t step, std::optional<MemoryId> home = {}) {
    std::size_t number = 0;
    std::size_t programs = 0;
    std::size_t choices = 0;
    for (const bool all_apart : {true, false}) {
        for (const Order order : {Order::unordered, Order::in_order, Order::wait_lists,
                                  Order::results, Order::failures, Order::failures_in_order}) {
            for_each_program(length, [&](ModelProgram &program) {
                // With one device per process, programs whose first call is on another device
                // differ only in their hosts.
                if (all_apart && !home && program.calls[0].device != 0) return;
                if (number++ % step != 0) return;
                place(program, all_apart);
                set_order(program, order);
                choices += check(home ? with_home(program, *home) : program);
                ++programs;
            });
        }
    }
    CHECK(programs == (number + step - 1) / step);
    CHECK(choices > programs);
}

/// A range of one buffer: the whole buffer, one of some sub-buffers, or any range.
Access random_access(const ModelProgram &program, std::mt19937_64 &random) {
    Access access{};
    access.buffer = static_cast<BufferId>(random() % program.buffers.size());
    const std::size_t end = program.buffers[access.buffer].size;
    access.end = end;
    switch (random() % 5) {
        case 0:
        case 1: break;
        case 2: access.end = (end + 1) / 2; break;
        case 3: access.begin = end / 3; break;
        default:
            access.begin = random() % end;
            access.end = access.begin + 1 + random() % (end - access.begin);
    }
    access.mode = static_cast<AccessMode>(random() % 3);
    return access;
}

ModelProgram random_program(std::mt19937_64 &random) {
    ModelProgram program;
    const std::size_t processes = 1 + random() % 5;
    const std::size_t devices = 1 + random() % 7;
    for (std::size_t p = 0; p < processes; ++p) {
        program.host_of_process.push_back(static_cast<std::uint32_t>(random() % 3));
    }
    for (std::size_t d = 0; d < devices; ++d) {
        program.process_of_device.push_back(static_cast<Process>(random() % processes));
    }
    for (std::size_t b = 1 + random() % 3; b > 0; --b) {
        program.buffers.push_back(
            {1 + random() % 12, random() % 3 == 0 ? Contents::everywhere : Contents::undefined});
    }
    if (random() % 2 == 0) program.attach_after = static_cast<std::uint32_t>(1 + random() % 3);
    // If buffers are attached automatically, use few devices in half of the programs.
    const std::size_t users = program.attach_after != 0 && random() % 2 == 0
                                  ? std::min<std::size_t>(devices, 2)
                                  : devices;
    const std::size_t calls = 1 + random() % 16;
    const bool has_user_events = random() % 3 == 0;
    for (std::size_t k = 0; k < calls; ++k) {
        ModelCall call;
        call.device = static_cast<MemoryId>(random() % users);
        // Two in-order queues on each device, and out-of-order queues.
        if (random() % 8 == 0 && !has_user_events) {
            const auto buffer = static_cast<BufferId>(random() % program.buffers.size());
            if (random() % 3 > 0)
                call.attach = buffer;
            else
                call.detach = buffer;
            program.calls.push_back(std::move(call));
            continue;
        }
        const std::size_t queue = random() % 3;
        if (queue < 2) call.queue = static_cast<QueueId>(2 * call.device + queue);
        for (std::size_t a = random() % 4; a > 0; --a)
            call.accesses.push_back(random_access(program, random));
        for (std::size_t w = random() % 4; w > 1 && k > 0; --w) {
            const std::size_t wait = random() % k;
            if (!program.calls[wait].attach && !program.calls[wait].detach)
                call.waits.push_back(wait);
        }
        if (random() % 6 == 0) {
            call.result_to_all = true;
            for (Access &access : call.accesses) access.mode = AccessMode::read;
        }
        call.blocking = random() % 6 == 0;
        call.fails = random() % 10 == 0 && !has_user_events;
        call.late = random() % 6 == 0 && has_user_events;
        constexpr std::array orderings = {Ordering::behind_all, Ordering::barrier,
                                          Ordering::barrier_behind_all};
        if (random() % 8 == 0) {
            // A marker or a barrier.
            call.ordering = orderings[random() % orderings.size()];
            call.accesses.clear();
            if (call.ordering != Ordering::barrier) call.waits.clear();
        }
        for (Process p = 0; p < processes; ++p) {
            if (random() % 12 == 0 && !has_user_events) call.finishes.push_back(p);
        }
        program.calls.push_back(std::move(call));
    }
    if (!has_user_events) return program;
    const std::vector<bool> must = must_end(program);
    for (std::size_t k = 0; k < calls; ++k)
        program.calls[k].blocking = program.calls[k].blocking && must[k];
    return program;
}

/// The schedules of all processes of a topology.
struct Processes {
    explicit Processes(const Topology &topology) {
        for (Process p = 0; p < topology.processes(); ++p) schedules.emplace_back(topology, p);
    }
    BufferId create(Contents contents) {
        BufferId id = 0;
        for (Schedule &schedule : schedules) id = schedule.create_buffer(size, contents);
        return id;
    }
    std::vector<Decisions> decide(MemoryId device, const std::vector<Access> &accesses,
                                  QueueId queue = unordered) {
        std::vector<Decisions> all;
        for (Schedule &schedule : schedules)
            all.push_back(schedule.decide({device, queue, accesses, {}, false}));
        return all;
    }
    std::vector<Schedule> schedules;
};

const Topology three_apart({0, 1, 2}, {0, 1, 2});

}  // namespace

TEST_CASE("every order of three commands shows each reader what one device would have shown") {
    check_programs(3, in_long_version() ? 1 : 4);
}

TEST_CASE("every order of four commands is right") {
    check_programs(4, in_long_version() ? 1 : 47);
}

TEST_CASE("every order of three commands is right with an attached buffer") {
    for (MemoryId home = 0; home < 3; ++home) check_programs(3, in_long_version() ? 1 : 23, home);
}

TEST_CASE("random sequences of commands are right on any cluster") {
    const std::uint64_t sequences =
        in_long_version() ? std::strtoull(std::getenv(sequences_variable), nullptr, 10) : 20000;
    std::size_t transfers = 0;
    std::size_t completions = 0;
    std::size_t failures = 0;
    std::size_t promises = 0;
    std::size_t write_backs = 0;
    std::size_t left_out = 0;
    std::size_t attached = 0;
    std::size_t with_user_events = 0;
    for (std::uint64_t seed = 0; seed < sequences; ++seed) {
        std::mt19937_64 random(seed);
        const ModelProgram program = random_program(random);
        try {
            const Graph graph(program);
            graph.check_order();
            graph.execute_randomly(random);
            if (std::any_of(program.calls.begin(), program.calls.end(),
                            [](const ModelCall &call) { return call.late; })) {
                graph.check_progress();
                ++with_user_events;
            }
            transfers += graph.transfers();
            completions += graph.completions();
            failures += graph.failures();
            promises += graph.promises();
            write_backs += graph.write_backs();
            left_out += graph.left_out();
            attached += graph.attached();
        } catch (const std::string &what) {
            FAIL("seed " << seed << ": " << what << "\n" << describe(program));
        }
    }
    CHECK(transfers > sequences);
    CHECK(completions > sequences / 2);
    CHECK(failures > sequences / 2);
    CHECK(promises > sequences / 2);
    CHECK(write_backs > sequences / 8);
    CHECK(left_out > sequences / 8);
    CHECK(attached > sequences / 2);
    CHECK(with_user_events > sequences / 8);
}

TEST_CASE("only the two processes of a transfer have work for a remote command") {
    Processes all(three_apart);
    const BufferId buffer = all.create(Contents::undefined);
    all.decide(0, {whole(buffer, AccessMode::write)});
    const auto decisions = all.decide(1, {whole(buffer, AccessMode::read)});
    REQUIRE(decisions[0].transfers.size() == 1);
    CHECK(decisions[0].transfers[0].kind == Transfer::Kind::send);
    CHECK(decisions[0].transfers[0].message == Message{1, 0});
    CHECK(decisions[0].transfers[0].after == std::vector<Step>{{1, 0}});
    CHECK(!decisions[0].local);
    REQUIRE(decisions[1].transfers.size() == 1);
    CHECK(decisions[1].transfers[0].kind == Transfer::Kind::receive);
    CHECK(decisions[1].transfers[0].message == Message{0, 0});
    CHECK(decisions[1].after == std::vector<Step>{{2, 1}});
    CHECK(decisions[1].local);
    CHECK(decisions[2].transfers.empty());
    CHECK(!decisions[2].local);
}

TEST_CASE("a later writer waits for a reader on the same device, but not on another device") {
    Processes all(three_apart);
    const BufferId buffer = all.create(Contents::everywhere);
    all.decide(0, {whole(buffer, AccessMode::read)});
    CHECK(all.decide(1, {whole(buffer, AccessMode::write)})[1].after.empty());
    CHECK(all.decide(0, {whole(buffer, AccessMode::write)})[0].after == std::vector<Step>{{1, 0}});
}

TEST_CASE(
    "an in-order queue needs no waits for its own order, another queue waits for its last "
    "command") {
    Processes all(three_apart);
    const BufferId buffer = all.create(Contents::everywhere);
    all.decide(0, {whole(buffer, AccessMode::write)}, 5);
    all.decide(0, {whole(buffer, AccessMode::read)}, 5);
    CHECK(all.decide(0, {whole(buffer, AccessMode::read)}, 5)[0].after.empty());
    CHECK(all.decide(0, {whole(buffer, AccessMode::write)}, 6)[0].after ==
          std::vector<Step>{{3, 0}});
}

TEST_CASE("disjoint ranges of a buffer do not conflict") {
    Processes all(three_apart);
    const BufferId buffer = all.create(Contents::undefined);
    all.decide(0, {half(buffer, 0, AccessMode::write)});
    CHECK(all.decide(0, {half(buffer, 1, AccessMode::write)})[0].after.empty());
    CHECK(all.decide(0, {whole(buffer, AccessMode::read)})[0].after ==
          std::vector<Step>{{1, 0}, {2, 0}});
}

TEST_CASE("no command waits for commands that are known to have ended") {
    Processes all(three_apart);
    const BufferId buffer = all.create(Contents::undefined);
    all.decide(0, {whole(buffer, AccessMode::write)});
    all.decide(0, {whole(buffer, AccessMode::read)});
    all.schedules[0].over(2);
    all.decide(0, {whole(buffer, AccessMode::read)});
    CHECK(all.decide(0, {whole(buffer, AccessMode::write)})[0].after ==
          std::vector<Step>{{2, 0}, {3, 0}});
    all.schedules[0].over(5);
    CHECK(all.decide(0, {whole(buffer, AccessMode::write)})[0].after.empty());
}

TEST_CASE("a completion is sent once to each waiting process, and never to a process that knows") {
    Processes all(three_apart);
    std::vector<ScheduledEvent> events(3);
    for (Process p = 0; p < 3; ++p)
        events[p] = all.schedules[p].decide({0, unordered, {}, {}, false}).event;
    const auto wait_on = [&](MemoryId device) {
        std::vector<Decisions> decisions;
        for (Process p = 0; p < 3; ++p) {
            ScheduledEvent *const event = &events[p];
            decisions.push_back(
                all.schedules[p].decide({device, unordered, {}, {&event, 1}, false}));
        }
        return decisions;
    };
    auto decisions = wait_on(2);
    REQUIRE(decisions[0].completions_sent.size() == 1);
    CHECK(decisions[0].completions_sent[0].message == Message{2, 0});
    REQUIRE(decisions[2].completions_awaited.size() == 1);
    CHECK(decisions[2].completions_awaited[0].command == 1);
    CHECK(decisions[1].completions_awaited.empty());
    // One process already has the completion, the other one owns the command.
    for (const MemoryId device : {2U, 0U}) {
        for (const Decisions &d : wait_on(device))
            CHECK(d.completions_sent.size() + d.completions_awaited.size() == 0);
    }
    std::size_t told = 0;
    for (Process p = 0; p < 3; ++p) told += all.schedules[p].tell_all(events[p]).to.size();
    CHECK(told == 2);
    for (Process p = 0; p < 3; ++p) CHECK(all.schedules[p].tell_all(events[p]).to.empty());
    for (const Decisions &d : wait_on(1))
        CHECK(d.completions_sent.size() + d.completions_awaited.size() == 0);
}

TEST_CASE("the number of a released buffer is reused without its history") {
    Processes all(three_apart);
    const BufferId first = all.create(Contents::undefined);
    const BufferId second = all.create(Contents::undefined);
    CHECK(first != second);
    all.decide(0, {whole(first, AccessMode::write)});
    for (Schedule &schedule : all.schedules) schedule.release_buffer(first);
    CHECK(all.create(Contents::undefined) == first);
    const auto decisions = all.decide(1, {whole(first, AccessMode::read)});
    CHECK(decisions[0].transfers.empty());
    CHECK(decisions[1].transfers.empty());
    CHECK(all.decide(0, {whole(first, AccessMode::write)})[0].after.empty());
}

TEST_CASE("the record of conflicts stays small while commands end") {
    Hazards hazards(1 << 20);
    std::mt19937_64 random(5);
    std::vector<Step> after;
    for (CommandId command = 1; command <= 20000; ++command) {
        const std::size_t begin = random() % (1 << 19);
        after.clear();
        hazards.read(begin, begin + 1 + random() % 1000, {command, 0}, unordered, command, after);
        REQUIRE(after.empty());
        REQUIRE(hazards.pieces() <= 64);
    }
}

TEST_CASE(
    "the cost of a reader, and of a writer per reader, does not grow with the number of open "
    "readers") {
    constexpr std::size_t size = 4096;
    constexpr CommandId readers = 100000;
    for (const bool in_order : {false, true}) {
        Hazards hazards(size);
        std::vector<Step> after;
        std::mt19937_64 random(7);
        CommandId command = 1;
        for (; command <= readers; ++command) {
            // The whole buffer or one of sixteen ranges; one of eight queues if they are in-order.
            const std::size_t part = random() % 17 * (size / 16);
            const QueueId queue = in_order ? static_cast<QueueId>(random() % 8) : unordered;
            hazards.read(part == size ? 0 : part, part == size ? size : part + size / 16,
                         {command, 0}, queue, 1, after);
        }
        CHECK(after.empty());
        CHECK(hazards.looked_at() <= 8 * readers);
        const std::uint64_t before = hazards.looked_at();
        hazards.write(0, size, {command, 0}, unordered, 1, after);
        CHECK(hazards.looked_at() - before <= 2 * readers);
        CHECK(after.size() >= (in_order ? 8 : readers));
    }
}

TEST_CASE("a reader waits for a writer only if no earlier reader of its in-order queue does") {
    Hazards hazards(200);
    std::vector<Step> after;
    hazards.write(0, 200, {1, 1}, unordered, 1, after);
    hazards.read(0, 100, {2, 0}, 5, 1, after);
    CHECK(after == std::vector<Step>{{1, 1}});
    after.clear();
    hazards.read(0, 50, {3, 0}, 5, 1, after);
    CHECK(after.empty());
    for (const QueueId other : {QueueId{6}, unordered}) {
        after.clear();
        hazards.read(0, 50, {4, 0}, other, 1, after);
        CHECK(after == std::vector<Step>{{1, 1}});
    }
    // The ranges move by one byte: each reader waits only for the writer that is new to its queue.
    for (CommandId command = 5; command < 100; ++command) {
        after.clear();
        hazards.write(command, command + 50, {command, 1}, unordered, 1, after);
        after.clear();
        hazards.read(0, 200, {command, 0}, 5, 1, after);
        std::sort(after.begin(), after.end());
        after.erase(std::unique(after.begin(), after.end()), after.end());
        CHECK(after.size() <= 2);
    }
}

TEST_CASE(
    "ended readers are forgotten and their memory is freed, even if other readers never end") {
    Hazards hazards(64);
    std::vector<Step> after;
    constexpr CommandId open = 1000;
    for (CommandId command = 1; command <= 200000; ++command) {
        hazards.read(0, 64, {command, 0}, unordered, command > open ? command - open : 1, after);
        REQUIRE(after.empty());
    }
    CHECK(hazards.looked_at() <= 1000000);
    hazards.write(0, 64, {200001, 0}, unordered, 199501, after);
    CHECK(after.size() == 500);
}

TEST_CASE("an event that all processes wait for is sent to each once, at the same cost for each") {
    constexpr Process processes = 4096;
    std::vector<std::uint32_t> hosts(processes);
    std::vector<Process> devices(processes);
    std::iota(devices.begin(), devices.end(), 0);
    Schedule schedule(Topology(hosts, devices), 0);
    ScheduledEvent event = schedule.decide({0, unordered, {}, {}, false}).event;
    ScheduledEvent *const waits = &event;
    std::size_t told = 0;
    for (int round = 0; round < 2; ++round) {
        for (MemoryId device = 0; device < processes; ++device)
            told += schedule.decide({device, unordered, {}, {&waits, 1}, false})
                        .completions_sent.size();
    }
    CHECK(told == processes - 1);
    CHECK(std::is_sorted(event.told.begin(), event.told.end()));
}
