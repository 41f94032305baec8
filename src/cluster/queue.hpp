#pragma once

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "cluster/context.hpp"
#include "cluster/ending.hpp"
#include "cluster/schedule.hpp"

namespace cldist::cluster {

class QueueObject final : public Object<QueueObject, cl_command_queue, Kind::queue> {
public:
    QueueObject(ContextObject &context_in, DeviceObject &device_in, cl_command_queue_properties properties_in)
        : context(&context_in),
          device(&device_in),
          space(context_in.space(device_in.memory)),
          properties(properties_in) {}
    ~QueueObject();

    /// Whether its device is this process's.
    [[nodiscard]] bool is_native() const { return static_cast<bool>(native); }
    [[nodiscard]] bool in_order() const { return (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0; }

    const Ref<ContextObject> context;
    const Ref<DeviceObject> device;
    Space *const space;  ///< the device's, or null if it is another process's
    const cl_command_queue_properties properties;
    std::vector<cl_queue_properties> property_list;  ///< as it was given
    Queue native;
    QueueId id = unordered;
    bool used = false;                 ///< since the last clFinish began
    std::shared_ptr<Ending> finished;  ///< when that ends
    /// Of commands whose results come to this process, since then.
    std::vector<std::shared_ptr<Ending>> results;

    // Of a queue of this process, for Executor::keep_back():
    unsigned since_marker = 0;             ///< commands
    std::deque<cldist::Event> milestones;  ///< markers, each so many commands behind the one before

    // Of an in-order queue of this process, for Steps:
    CommandId last = 0;                                       ///< enqueued
    CommandId ended = 0;                                      ///< all up to this one have
    std::deque<std::pair<CommandId, cldist::Event>> markers;  ///< each behind that command
};

}  // namespace cldist::cluster
