#include "api/starting.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "base/config.hpp"
#include "ocl/query.hpp"
#include "pipeline/plan.hpp"

namespace cldist {

std::shared_ptr<DeviceResources> resources_of(QueueInfo &queue, std::span<const cl_mem> buffers) {
    // Use the parent of a sub-buffer, because it may live longer.
    std::array<cl_mem, 2> roots{};
    std::transform(buffers.begin(), buffers.end(), roots.begin(),
                   [](cl_mem buffer) { return root_buffer_of(buffer).first; });
    std::shared_ptr<DeviceResources> resources =
        DeviceResources::of(queue.context, queue.device, std::span(roots).first(buffers.size()));
    resources->describe(queue);
    return resources;
}

bool may_map(const RangeArgument &range, const DeviceResources &resources, const Advice *advice) {
    const bool copies_nothing = resources.host_memory() && resources.is_cpu();
    if (range.strided)
        return copies_nothing &&
               plan_mapping(resources.host_memory(), range.size, nullptr, config());
    return plan_mapping(resources.host_memory(), range.size, advice, config());
}

std::pair<cl_mem, std::size_t> held(const RangeArgument &range, const DeviceResources &resources) {
    if (resources.is_cpu()) return {range.buffer, range.offset};
    const Extent extent = extent_of(range);
    return {extent.buffer, extent.begin};
}

cl_command_queue ordered_by(const QueueInfo &queue, const CommandArguments &command) {
    return queue.in_order || command.num_events == 0 ? queue.queue : nullptr;
}

Enqueueing::Enqueueing(const QueueInfo &queue) : failures_(lock_failures(queue)) {
    static std::array<std::mutex, 61> mutexes;
    const std::size_t hash = std::hash<cl_command_queue>{}(queue.queue);
    commands_ = std::unique_lock(mutexes.at(hash % mutexes.size()));
}

void Enqueueing::unlock() {
    commands_ = {};
    failures_ = {};
}

namespace {

// Lists records in the stall report while the object exists.
class Named {
public:
    explicit Named(std::span<const std::shared_ptr<Record>> records,
                   const WaitList &wait_list = nullptr)
        : records_(records) {
        for (const auto &record : records_) {
            record->waits_for(wait_list);
            pending_records().add(record);
        }
    }
    Named(const Named &) = delete;
    Named &operator=(const Named &) = delete;
    ~Named() {
        for (const auto &record : records_) pending_records().remove(*record);
    }

private:
    const std::span<const std::shared_ptr<Record>> records_;
};

}  // namespace

bool wait_for(cl_event event) { return clWaitForEvents(1, &event) == CL_SUCCESS; }

bool wait_for_start(const Start &start, std::span<const std::shared_ptr<Record>> records) {
    if (start.failed) return false;
    const Named named(records, start.wait_list);
    return wait_for(start.last);
}

cl_int finish_named(cl_command_queue queue, std::span<const std::shared_ptr<Record>> records) {
    const Named named(records);
    return clFinish(queue);
}

Status failed_wait() {
    return Status::failure(
        CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
        "an event of the wait list, or an earlier command of the in-order queue, has failed");
}

void end_mappings(const QueueInfo &queue, std::span<const Mapping> mappings, bool written) {
    const std::vector<Event> unmapped = enqueue_unmap(queue, nullptr, mappings);
    // Only writes must wait. On a CPU device the mapping is the device's memory.
    if (!unmapped.empty() && written && !queue.is_cpu) wait_for(unmapped.back().get());
}

}  // namespace cldist
