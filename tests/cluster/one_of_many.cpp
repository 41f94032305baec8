// The platform in a process that simulates rank 4095 of 4096, without MPI and without other
// processes. Its messages go to a list, which must equal the decisions of a separate schedule for
// the same commands.
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cluster/world/simulated_job.hpp"
#include "cluster/world/world.hpp"
#include "opencl_handles.hpp"
#include "pipeline/file_operation.hpp"

namespace cldist::cluster {
namespace {

using namespace cldist_test;

constexpr Process own_rank = 4095;
constexpr Process process_count = 4096;
constexpr Process per_host = 4;
constexpr std::size_t size = 1024;

using Lines = std::vector<std::string>;

std::string line(const char *what, const Message &message, std::size_t bytes) {
    return fmt::format("{} {}, message {}, {} bytes", what, message.peer, message.number, bytes);
}
std::string line(const char *what, const Message &message) {
    return fmt::format("{} {}, message {}", what, message.peer, message.number);
}
void add_relay(Lines &lines, const Relay &relay, std::size_t bytes) {
    if (relay.from) lines.push_back(line("result from", *relay.from, bytes));
    for (const Message &to : relay.to) lines.push_back(line("result to", to, bytes));
}

class AtOnce final : public Operation {
public:
    AtOnce(Direction direction, std::size_t bytes, std::function<void(cl_int status)> end)
        : Operation(std::make_shared<Record>(direction, 0, 0, 0, bytes)), end_(std::move(end)) {}
    void start(const Status &gate) override {
        if (!gate.ok()) fail(gate);
        end_(gate.code);
    }
    Progress poll() override { return Progress::done; }
    [[nodiscard]] bool bytes_in_flight() const override { return false; }

private:
    const std::function<void(cl_int)> end_;
};

class ListedMessages final : public Transport {
public:
    std::unique_ptr<Operation> transfer(DeviceRange range, Direction direction,
                                        const Message &message, const Link &link) override {
        CHECK(link.same_host == (message.peer / per_host == own_rank / per_host));
        lines.push_back(
            line(direction == Direction::send ? "bytes to" : "bytes from", message, range.size));
        REQUIRE(range.mapped != nullptr);  // memory of a CPU device
        return std::make_unique<AtOnce>(
            direction, range.size, [direction, memory = range.mapped, bytes = range.size](cl_int) {
                if (direction == Direction::recv) std::memset(memory, 7, bytes);
            });
    }
    std::unique_ptr<Operation> send_status(const Message &message, TimesOfCommand) override {
        lines.push_back(line("end to", message));
        return std::make_unique<AtOnce>(Direction::send, 0, [](cl_int) {});
    }
    std::unique_ptr<Operation> receive_status(const Message &message,
                                              std::shared_ptr<Ending> ending) override {
        lines.push_back(line("end from", message));
        if (!holds)
            return std::make_unique<AtOnce>(Direction::recv, 0,
                                            [=](cl_int) { ending->set(CL_COMPLETE); });
        held.push_back(std::move(ending));
        return std::make_unique<AtOnce>(Direction::recv, 0, [](cl_int) {});
    }
    std::unique_ptr<Operation> relay(Result result, const Relay &relay,
                                     std::shared_ptr<Ending> ending, TimesOfCommand,
                                     bool) override {
        add_relay(lines, relay, result.size);
        return std::make_unique<AtOnce>(Direction::recv, result.size, [=](cl_int status) {
            if (relay.from) std::memset(result.data, 9, result.size);
            if (status == CL_COMPLETE && result.arrived) result.arrived();
            ending->set(status);
        });
    }
    ProgressThread &progress_thread() override { return progress_thread_; }
    void drive(cldist::Command &command) override {
        Wakeup wakeup;
        cldist::drive(command, wakeup);
    }

    Lines lines;
    bool holds = false;  ///< the test completes other processes' commands, through `held`
    std::vector<std::shared_ptr<Ending>> held;

private:
    ProgressThread &progress_thread_ =
        file_progress_thread();  // created before the world, so that it outlives the world
};

class OneOfMany final : public Job {
public:
    Agreement &agreement() override { return agreement_; }
    Transport &transport() override { return messages; }
    [[nodiscard]] Place place_of(Process process) const override {
        return {process / per_host, process % per_host, per_host};
    }
    CallStream &call_stream() override {
        throw Error(CL_INVALID_OPERATION, "every process runs the program");
    }
    void compare(CallLog &) override {}
    void finish_comparison() override {}
    void end() override {}

    ListedMessages messages;

private:
    AbsentOthers agreement_{own_rank, process_count};
};

OneOfMany &job() {
    static auto &made = *new OneOfMany;
    return made;
}
ListedMessages &messages() { return job().messages; }

World &world() {
    static World &begun = World::begin(job());
    return begun;
}

/// A context of all devices, and a schedule that computes the expected decisions.
class Many {
public:
    Many() : schedule(topology(), own_rank) {
        messages().lines.clear();
        std::vector<cl_device_id> devices;
        for (const auto &device : world().devices()) devices.push_back(device->handle());
        cl_int code = CL_SUCCESS;
        context = context_handle(clCreateContext(nullptr, static_cast<cl_uint>(devices.size()),
                                                 devices.data(), nullptr, nullptr, &code));
        CL_OK(code);
    }

    queue_handle queue(MemoryId device) const {
        cl_int code = CL_SUCCESS;
        queue_handle made(
            clCreateCommandQueue(context, world().devices()[device]->handle(), 0, &code));
        CL_OK(code);
        return made;
    }
    buffer_handle buffer() {
        cl_int code = CL_SUCCESS;
        buffer_handle made(clCreateBuffer(context, CL_MEM_READ_WRITE, size, nullptr, &code));
        CL_OK(code);
        last = schedule.create_buffer(size, Contents::undefined);
        return made;
    }
    /// Appends the messages of a command to `wanted`, as the schedule decides them.
    ScheduledEvent decide(MemoryId device, std::vector<Access> accesses,
                          std::vector<ScheduledEvent *> waits = {}, bool result = false) {
        const Decisions &decisions = schedule.decide({device, device, accesses, waits, result});
        for (const Completion &sent : decisions.completions_sent)
            wanted.push_back(line("end to", sent.message));
        for (const Completion &awaited : decisions.completions_awaited)
            wanted.push_back(line("end from", awaited.message));
        for (const Transfer &transfer : decisions.transfers)
            wanted.push_back(line(transfer.kind == Transfer::Kind::send ? "bytes to" : "bytes from",
                                  transfer.message, transfer.end - transfer.begin));
        add_relay(wanted, decisions.result, size);
        return decisions.event;
    }
    void check_messages() const {
        const Lines &found = messages().lines;
        REQUIRE(found.size() == wanted.size());
        for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(found[i] == wanted[i]);
    }

    static Topology topology() {
        std::vector<std::uint32_t> hosts;
        std::vector<Process> owners;
        for (Process process = 0; process < process_count; ++process)
            hosts.push_back(process / per_host);
        for (const auto &device : world().devices()) owners.push_back(device->process);
        return {hosts, owners};
    }

    Schedule schedule;
    BufferId last = 0;
    Lines wanted;
    context_handle context;
};

}  // namespace

TEST_CASE("rank 4095 of 4096 sees 4096 devices like its own, and owns one") {
    REQUIRE(world().devices().size() == process_count);
    CHECK(world().self() == own_rank);
    CHECK(world().devices()[own_rank]->native != nullptr);
    CHECK(world().devices()[0]->native == nullptr);
    CHECK(world().devices()[0]->type == world().devices()[own_rank]->type);
    cl_uint units = 0;
    CL_OK(clGetDeviceInfo(world().devices()[17]->handle(), CL_DEVICE_MAX_COMPUTE_UNITS,
                          sizeof units, &units, nullptr));
    CHECK(units > 0);
}

TEST_CASE("rank 4095 of 4096 sends and receives exactly the scheduled messages") {
    Many all;
    const auto first = all.queue(0);
    const auto other = all.queue(17);
    const auto near = all.queue(4094);
    const auto own = all.queue(own_rank);
    const auto a = all.buffer();
    const BufferId a_id = all.last;
    const auto b = all.buffer();
    const BufferId b_id = all.last;
    std::vector<unsigned char> data(size, 3);
    const Access whole_a{a_id, 0, size, AccessMode::write};

    // A command of another process: this process has nothing to do.
    event_handle written;
    CL_OK(
        clEnqueueWriteBuffer(first, a, CL_FALSE, 0, size, data.data(), 0, nullptr, written.out()));
    ScheduledEvent write = all.decide(0, {whole_a});
    CHECK(all.wanted.empty());

    // This process receives the completion of that command, and the bytes.
    const char *const source =
        "kernel void add(global uchar *data, uchar value) { data[get_global_id(0)] += value; }";
    cl_int code = CL_SUCCESS;
    const char *text = source;
    const program_handle program(clCreateProgramWithSource(all.context, 1, &text, nullptr, &code));
    CL_OK(code);
    CL_OK(clBuildProgram(program, 0, nullptr, "", nullptr, nullptr));
    const kernel_handle kernel(clCreateKernel(program, "add", &code));
    CL_OK(code);
    const cl_mem memory = a;
    const unsigned char one = 1;
    CL_OK(clSetKernelArg(kernel, 0, sizeof memory, &memory));
    CL_OK(clSetKernelArg(kernel, 1, sizeof one, &one));
    const std::size_t items = size;
    const std::array<cl_event, 1> after_write{written};
    event_handle added;
    CL_OK(clEnqueueNDRangeKernel(own, kernel, 1, nullptr, &items, nullptr, 1, after_write.data(),
                                 added.out()));
    ScheduledEvent add = all.decide(own_rank, {{a_id, 0, size, AccessMode::read_write}}, {&write});
    CHECK(all.wanted.size() == 2);
    all.check_messages();

    // This process sends its completion and the bytes on.
    const std::array<cl_event, 1> after_add{added};
    event_handle added_there;
    CL_OK(clEnqueueNDRangeKernel(other, kernel, 1, nullptr, &items, nullptr, 1, after_add.data(),
                                 added_there.out()));
    ScheduledEvent add_there = all.decide(17, {{a_id, 0, size, AccessMode::read_write}}, {&add});
    CHECK(all.wanted.size() == 4);
    all.check_messages();

    // A process on the same host copies half of the buffer. This process gets half of that copy.
    CL_OK(clEnqueueCopyBuffer(near, a, b, 0, 0, size / 2, 0, nullptr, nullptr));
    all.decide(4094,
               {{a_id, 0, size / 2, AccessMode::read}, {b_id, 0, size / 2, AccessMode::write}});
    CL_OK(clEnqueueCopyBuffer(own, b, a, 0, size / 2, size / 4, 0, nullptr, nullptr));
    all.decide(own_rank, {{b_id, 0, size / 4, AccessMode::read},
                          {a_id, size / 2, size / 2 + size / 4, AccessMode::write}});
    all.check_messages();

    // The result of a read reaches all processes along a tree.
    CL_OK(clEnqueueReadBuffer(other, a, CL_TRUE, 0, size, data.data(), 0, nullptr, nullptr));
    all.decide(17, {{a_id, 0, size, AccessMode::read}}, {}, true);
    CHECK(data == std::vector<unsigned char>(size, 9));
    CL_OK(clEnqueueReadBuffer(own, a, CL_TRUE, 0, size, data.data(), 0, nullptr, nullptr));
    all.decide(own_rank, {{a_id, 0, size, AccessMode::read}}, {}, true);
    all.check_messages();
    CHECK(data == std::vector<unsigned char>(size, 7));
}

TEST_CASE("completions of other processes' commands may arrive in any order") {
    Many all;
    messages().holds = true;
    std::vector<queue_handle> queues;
    std::vector<event_handle> theirs(3);
    std::vector<event_handle> mine(3);
    for (MemoryId device = 0; device < 3; ++device) {
        const auto queue = all.queue(device);
        CL_OK(clEnqueueMarkerWithWaitList(queue, 0, nullptr, theirs[device].out()));
        queues.push_back(all.queue(own_rank));
        const cl_event wait = theirs[device];
        CL_OK(clEnqueueMarkerWithWaitList(queues.back(), 1, &wait, mine[device].out()));
        CL_OK(clFlush(queues.back()));
    }
    messages().holds = false;
    REQUIRE(messages().held.size() == 3);
    const auto status = [](cl_event event) {
        cl_int value = CL_QUEUED;
        CL_OK(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof value, &value,
                             nullptr));
        return value;
    };
    for (const std::size_t next : {2U, 0U, 1U}) {
        CHECK(status(mine[next]) != CL_COMPLETE);
        messages().held[next]->set(CL_COMPLETE);
        const cl_event event = mine[next];
        CL_OK(clWaitForEvents(1, &event));
        CHECK(status(event) == CL_COMPLETE);
    }
    messages().held.clear();
}

}  // namespace cldist::cluster
