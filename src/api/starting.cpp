#include "api/starting.hpp"

#include <vector>

#include "base/config.hpp"
#include "pipeline/plan.hpp"

namespace cldist {

std::shared_ptr<DeviceResources> resources_of(QueueInfo &queue) {
    std::shared_ptr<DeviceResources> resources = DeviceResources::of(queue.context, queue.device);
    queue.placeholder = resources->placeholder();
    queue.processor = resources->processor();
    return resources;
}

bool may_map(const RangeArgument &range, const DeviceResources &resources, const Advice *advice) {
    const bool copies_nothing = resources.host_memory() && resources.processor();
    if (range.strided) return copies_nothing && plan_mapping(resources.host_memory(), range.size, nullptr, config());
    return plan_mapping(resources.host_memory(), range.size, advice, config());
}

std::pair<cl_mem, std::size_t> held(const RangeArgument &range, const DeviceResources &resources) {
    if (resources.processor()) return {range.buffer, range.offset};
    const Extent extent = extent_of(range);
    return {extent.buffer, extent.begin};
}

cl_command_queue ordered_by(const QueueInfo &queue, const CommandArguments &command) {
    return queue.in_order || command.num_events == 0 ? queue.queue : nullptr;
}

bool wait_for(cl_event event) { return clWaitForEvents(1, &event) == CL_SUCCESS; }

bool wait_for_start(const Start &start, std::span<const std::shared_ptr<Record>> records) {
    if (start.failed) return false;
    for (const auto &record : records) pending_records().add(record);
    const bool well = wait_for(start.last);
    for (const auto &record : records) pending_records().remove(*record);
    return well;
}

Error failed_wait() {
    return {CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
            "an event of the wait list, or an earlier command of the in-order queue, failed"};
}

void end_mappings(const QueueInfo &queue, std::span<const Mapping> mappings, bool written) {
    const std::vector<Event> unmapped = enqueue_unmap(queue, nullptr, mappings);
    // What was mapped for reading has nothing to bring back, and what a processor wrote into its own memory is there.
    if (!unmapped.empty() && written && !queue.processor) wait_for(unmapped.back().get());
}

}  // namespace cldist
