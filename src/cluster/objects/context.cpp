#include "cluster/objects/context.hpp"

#include <algorithm>
#include <set>

#include "ocl/query.hpp"

namespace cldist::cluster {
namespace {

Context make_context(const std::vector<cl_device_id> &devices) {
    // Does not pass the native platform, because the loader does not know it.
    return create("clCreateContext", clCreateContext, nullptr, static_cast<cl_uint>(devices.size()),
                  devices.data(), nullptr, nullptr);
}

cl_ulong largest(const DeviceList &devices) {
    cl_ulong bytes = 0;
    for (const auto &device : devices)
        bytes = std::max(bytes, device->info<cl_ulong>(CL_DEVICE_MAX_MEM_ALLOC_SIZE));
    return bytes;
}

std::vector<std::size_t> alignments(const DeviceList &devices) {
    std::set<std::size_t> all;
    for (const auto &device : devices) all.insert(device->sub_buffer_alignment);
    return {all.begin(), all.end()};
}

bool share_memory(const DeviceList &devices) {
    return std::ranges::all_of(
        devices, [&](const auto &device) { return device->memory == devices.front()->memory; });
}

}  // namespace

void add_once(std::vector<cl_device_id> &natives, cl_device_id native) {
    if (std::ranges::find(natives, native) == natives.end()) natives.push_back(native);
}

Space::Space(MemoryId memory_in, std::vector<cl_device_id> devices_in)
    : memory(memory_in),
      devices(std::move(devices_in)),
      context(make_context(devices)),
      quirks(quirks_of(devices.front())) {}

cl_mem Space::small_buffer() {
    if (!buffer_)
        buffer_ = create("clCreateBuffer", clCreateBuffer, context.get(), CL_MEM_READ_WRITE, 64U,
                         nullptr);
    return buffer_.get();
}

std::shared_ptr<DeviceResources> Space::resources_of(cl_device_id device) {
    const cl_mem buffer = small_buffer();
    return DeviceResources::of(context.get(), device, {&buffer, 1});
}

const QueueInfo &Space::transfer_queue() {
    if (queue_) return info_;
    const auto supported =
        query<cl_command_queue_properties>(devices.front(), CL_DEVICE_QUEUE_ON_HOST_PROPERTIES)
            .value_or(0);
    const cl_command_queue_properties properties =
        supported & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    queue_ = create("clCreateCommandQueue", clCreateCommandQueue, context.get(), devices.front(),
                    properties);
    info_ = {queue_.get(), context.get(), devices.front(), properties == 0};
    resources()->describe(info_);
    return info_;
}

std::shared_ptr<const QueueInfo> Space::queue_of_transfer() {
    if (resources()->host_memory()) return {std::shared_ptr<void>(), &transfer_queue()};
    return separate_queue();
}

std::shared_ptr<const QueueInfo> Space::separate_queue() {
    Queue queue;
    {
        const std::lock_guard lock(idle_->mutex);
        if (!idle_->queues.empty()) {
            queue = std::move(idle_->queues.back());
            idle_->queues.pop_back();
        }
    }
    if (!queue)
        queue = create("clCreateCommandQueue", clCreateCommandQueue, context.get(), devices.front(),
                       0U);
    auto *const info = new QueueInfo{queue.give(), context.get(), devices.front(), true};
    resources()->describe(*info);
    return {info, [idle = idle_](const QueueInfo *lent) {
                const std::unique_ptr<const QueueInfo> freed(lent);
                const std::lock_guard lock(idle->mutex);
                idle->queues.push_back(Queue::adopt(lent->queue));
            }};
}

std::shared_ptr<PeerMemory> Space::peer_memory(Space &source) {
    const auto [at, is_new] = peer_memory_.try_emplace(&source);
    if (is_new)
        at->second = PeerMemory::create({source.context.get(), source.devices.front()},
                                        {context.get(), devices.front()});
    return at->second;
}

bool Space::always_tells_of_arguments() {
    if (tells_) return *tells_;
    const char *source = "kernel void nothing() {}";
    cl_int code = CL_SUCCESS;
    const Program trial =
        Program::adopt(clCreateProgramWithSource(context.get(), 1, &source, nullptr, &code));
    tells_ = code == CL_SUCCESS &&
             clBuildProgram(trial.get(), static_cast<cl_uint>(devices.size()), devices.data(),
                            "-cl-kernel-arg-info", nullptr, nullptr) == CL_SUCCESS;
    return *tells_;
}

ContextObject::ContextObject(DeviceList devices_in,
                             std::vector<cl_context_properties> properties_in,
                             Ref<DeviceObject> aggregate_in)
    : devices(std::move(devices_in)),
      aggregate(std::move(aggregate_in)),
      largest_allocation(largest(devices)),
      sub_buffer_alignments(alignments(devices)),
      has_one_memory(share_memory(devices)),
      properties(std::move(properties_in)) {
    std::map<MemoryId, std::vector<cl_device_id>> natives;
    for (const auto &device : devices)
        if (device->answering != nullptr)
            add_once(natives[device->answering_memory], device->answering);
    for (auto &[memory, list] : natives)
        spaces.push_back(std::make_unique<Space>(memory, std::move(list)));
}

ContextObject::~ContextObject() {
    if (keeper != nullptr)
        for (const auto &space : spaces) keeper->forget(*space);
    call_at_end(destructor_callbacks, handle(), call_later);
    count_of(Kind::context).more_bytes += devices.bytes();
}

bool ContextObject::has(const DeviceObject &device) const {
    return aggregate ? aggregate.get() == &device : devices.contains(device);
}

std::vector<cl_device_id> ContextObject::shown(const DeviceList &of) const {
    if (aggregate && !of.empty()) return {aggregate->handle()};
    std::vector<cl_device_id> handles;
    for (const auto &device : of) handles.push_back(device->handle());
    return handles;
}

Space *ContextObject::space(MemoryId memory) const {
    for (const auto &space : spaces)
        if (space->memory == memory) return space.get();
    return nullptr;
}

}  // namespace cldist::cluster
