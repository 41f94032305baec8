#include "cluster/execution/operations.hpp"

#include <utility>

#include "ocl/query.hpp"
#include "ocl/quirks.hpp"

namespace cldist::cluster {

void flush_producer(cl_event event) {
    const auto queue = query<cl_command_queue>(event, CL_EVENT_COMMAND_QUEUE).value_or(nullptr);
    if (queue != nullptr) flush_if_needed(queue);
}

std::unique_ptr<Command> command_of(std::unique_ptr<Operation> operation,
                                    std::unique_ptr<Bridge> bridge, cl_device_id device) {
    return std::make_unique<Command>(only(std::move(operation)), std::move(bridge), device);
}

cldist::Start start_behind(const QueueInfo &queue, std::span<const cl_event> waits) {
    if (waits.size() > 1) return enqueue_start(queue, waits, {});
    cldist::Start start;
    if (waits.empty()) return start;
    flush_producer(waits.front());
    start.events.push_back(Event::share(waits.front()));
    start.gate = start.last = waits.front();
    return start;
}

}  // namespace cldist::cluster
