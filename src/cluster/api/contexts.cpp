// Contexts, samplers and command queues.
#include <algorithm>
#include <set>

#include "base/trace.hpp"
#include "cluster/api/answers.hpp"
#include "cluster/api/call_arguments.hpp"
#include "cluster/api/checks.hpp"
#include "cluster/api/enqueueing.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/handles.hpp"
#include "cluster/api/host_mode.hpp"
#include "cluster/api/record.hpp"
#include "cluster/objects/lock.hpp"
#include "ocl/query.hpp"
#include "ocl/quirks.hpp"

namespace cldist::cluster {
namespace {

template <typename Property>
std::vector<Property> list_of(const Property *properties) {
    std::vector<Property> list(properties, properties + elements_read(properties));
    // The list ended with an unknown name: add a value and the final 0.
    if (!list.empty() && list.back() != 0) list.insert(list.end(), {0, 0});
    return list;
}

std::vector<cl_context_properties> checked_properties(const cl_context_properties *properties) {
    auto list = list_of(properties);
    std::set<cl_context_properties> seen;
    for (std::size_t i = 0; i + 1 < list.size(); i += 2) {
        if (!seen.insert(list[i]).second)
            fail(CL_INVALID_PROPERTY, "context property {:#x} is given twice", list[i]);
        if (list[i] == CL_CONTEXT_PLATFORM) {
            const auto platform = reinterpret_cast<cl_platform_id>(list[i + 1]);
            require(platform != nullptr && platform->kind == Kind::platform, CL_INVALID_PLATFORM,
                    "CL_CONTEXT_PLATFORM is not the cluster platform");
        } else if (list[i] == CL_CONTEXT_INTEROP_USER_SYNC) {
            require(list[i + 1] == CL_TRUE || list[i + 1] == CL_FALSE, CL_INVALID_PROPERTY,
                    "CL_CONTEXT_INTEROP_USER_SYNC is {}; expected CL_TRUE or CL_FALSE",
                    list[i + 1]);
        } else {
            fail(CL_INVALID_PROPERTY, "unknown context property {:#x}", list[i]);
        }
    }
    return list;
}

cl_context make_context(DeviceList devices, std::vector<cl_context_properties> properties) {
    Ref<DeviceObject> aggregate;
    if (devices.front()->is_aggregate()) {
        aggregate = devices.front();
        devices = {};
        for (const auto &member : aggregate->members) devices.add(*member);
    }
    std::unique_ptr<ContextObject> context;
    in_all([&] {
        context = std::make_unique<ContextObject>(std::move(devices), std::move(properties),
                                                  std::move(aggregate));
    });
    context->keeper = &executor();
    context->set_number(World::get().next_number());
    return context.release()->handle();
}

cl_sampler make_sampler(ContextObject &context, cl_bool normalized, cl_addressing_mode addressing,
                        cl_filter_mode filter, std::vector<cl_sampler_properties> properties) {
    require(normalized == CL_TRUE || normalized == CL_FALSE, CL_INVALID_VALUE,
            "normalized_coords is {}; expected CL_TRUE or CL_FALSE", normalized);
    require(addressing >= CL_ADDRESS_NONE && addressing <= CL_ADDRESS_MIRRORED_REPEAT,
            CL_INVALID_VALUE, "addressing_mode {:#x} is not an addressing mode (CL_ADDRESS_...)",
            addressing);
    require(filter == CL_FILTER_NEAREST || filter == CL_FILTER_LINEAR, CL_INVALID_VALUE,
            "filter_mode {:#x} is neither CL_FILTER_NEAREST nor CL_FILTER_LINEAR", filter);
    check_some_device_has_images(context);
    SamplerObject *const sampler = make<SamplerObject>(context);
    sampler->normalized = normalized;
    sampler->addressing = addressing;
    sampler->filter = filter;
    sampler->properties = std::move(properties);
    return sampler->handle();
}

// Uses the OpenCL 1.2 function, which every platform has. `more` are properties that the program
// did not request.
Queue make_native_queue(const QueueObject &queue, cl_command_queue_properties more = 0) {
    if (queue.space == nullptr) return {};
    return create("clCreateCommandQueue", clCreateCommandQueue, queue.space->context.get(),
                  queue.device->native, queue.properties | more);
}

void flush_natively(const QueueObject &queue) {
    for (const QueueObject *const each : queue.natives) flush_if_needed(each->native.get());
}

cl_command_queue make_queue(ContextObject &context, cl_device_id device_handle,
                            cl_command_queue_properties properties,
                            std::vector<cl_queue_properties> list) {
    DeviceObject &device = device_of(device_handle);
    require(context.has(device), CL_INVALID_DEVICE, "the device does not belong to the context");
    constexpr cl_command_queue_properties host =
        CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE;
    require((properties & ~(host | CL_QUEUE_ON_DEVICE | CL_QUEUE_ON_DEVICE_DEFAULT)) == 0,
            CL_INVALID_VALUE, "properties is {:#x}, which contains unknown bits", properties);
    require((properties & ~host) == 0, CL_INVALID_QUEUE_PROPERTIES,
            "device queues are not supported; create a host queue");
    const auto supported =
        device.info<cl_command_queue_properties>(CL_DEVICE_QUEUE_ON_HOST_PROPERTIES);
    require((properties & ~supported) == 0, CL_INVALID_QUEUE_PROPERTIES,
            "properties is {:#x}, but the device supports only {:#x}", properties, supported);
    auto queue = std::make_unique<QueueObject>(context, device, properties);
    for (const auto &member : device.members) {
        queue->lanes.emplace_back(new QueueObject(context, *member, properties));
        QueueObject &lane = *queue->lanes.back();
        lane.release();
        lane.whole = queue.get();
        lane.lane = queue->lanes.size() - 1;
    }
    in_all([&] {
        const cl_command_queue_properties traced = trace::enabled() ? CL_QUEUE_PROFILING_ENABLE : 0;
        const bool measures = World::get().shares().adapts;
        queue->native = make_native_queue(*queue, traced);
        for (const auto &lane : queue->lanes)
            lane->native = make_native_queue(*lane, measures ? CL_QUEUE_PROFILING_ENABLE : traced);
    });
    const auto begin = [&](QueueObject &each) {
        if (each.is_native()) {
            each.keeper = &executor();
            queue->natives.push_back(&each);
        }
        if (each.in_order()) each.id = World::get().next_queue();
    };
    for (const auto &lane : queue->lanes) begin(*lane);
    if (!queue->is_aggregate()) begin(*queue);
    queue->property_list = std::move(list);
    queue->set_number(World::get().next_number());
    return queue.release()->handle();
}

}  // namespace

// ---- Contexts ----

cl_context create_context(const cl_context_properties *properties, cl_uint num_devices,
                          const cl_device_id *devices,
                          void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                          void *user_data, cl_int *) {
    auto list = checked_properties(properties);
    require(devices != nullptr && num_devices > 0, CL_INVALID_VALUE,
            "num_devices is {} or devices is NULL; expected at least one device", num_devices);
    require(notify != nullptr || user_data == nullptr, CL_INVALID_VALUE,
            "user_data is not NULL, but pfn_notify is NULL");
    DeviceList all;
    for (cl_uint i = 0; i < num_devices; ++i) {
        DeviceObject &device = device_of(devices[i]);
        if (!all.contains(device)) all.add(device);
    }
    return make_context(std::move(all), std::move(list));
}

cl_context create_context_from_type(const cl_context_properties *properties, cl_device_type type,
                                    void(CL_CALLBACK *notify)(const char *, const void *, size_t,
                                                              void *),
                                    void *user_data, cl_int *errcode_ret) {
    cl_uint count = 0;
    get_device_ids(nullptr, type, 0, nullptr, &count);
    std::vector<cl_device_id> devices(count);
    get_device_ids(nullptr, type, count, devices.data(), nullptr);
    return create_context(properties, count, devices.data(), notify, user_data, errcode_ret);
}

CLDIST_REFERENCES(context, cl_context, context_of)

void get_context_info(cl_context context, cl_context_info param, size_t size, void *value,
                      size_t *size_ret) {
    const ContextObject &object = context_of(context);
    const Answer answer{size, value, size_ret};
    switch (param) {
        case CL_CONTEXT_REFERENCE_COUNT: return answer.give(object.references());
        case CL_CONTEXT_NUM_DEVICES:
            return answer.give(static_cast<cl_uint>(object.shown_devices().size()));
        case CL_CONTEXT_DEVICES: return answer.list(object.shown_devices());
        case CL_CONTEXT_PROPERTIES: return answer.list(object.properties);
        default: no_such_param(param);
    }
}

void set_context_destructor_callback(cl_context context,
                                     void(CL_CALLBACK *notify)(cl_context, void *),
                                     void *user_data) {
    ContextObject &object = context_of(context);
    require(notify != nullptr, CL_INVALID_VALUE, "pfn_notify is NULL");
    object.destructor_callbacks.emplace_back(notify, user_data);
}

// ---- Samplers ----

cl_sampler create_sampler(cl_context context, cl_bool normalized, cl_addressing_mode addressing,
                          cl_filter_mode filter, cl_int *) {
    return make_sampler(context_of(context), normalized, addressing, filter, {});
}

cl_sampler create_sampler_with_properties(cl_context context,
                                          const cl_sampler_properties *properties, cl_int *) {
    ContextObject &object = context_of(context);
    const auto list = list_of(properties);
    cl_bool normalized = CL_TRUE;
    cl_addressing_mode addressing = CL_ADDRESS_CLAMP;
    cl_filter_mode filter = CL_FILTER_NEAREST;
    for (std::size_t i = 0; i + 1 < list.size(); i += 2) {
        switch (list[i]) {
            case CL_SAMPLER_NORMALIZED_COORDS:
                normalized = static_cast<cl_bool>(list[i + 1]);
                break;
            case CL_SAMPLER_ADDRESSING_MODE:
                addressing = static_cast<cl_addressing_mode>(list[i + 1]);
                break;
            case CL_SAMPLER_FILTER_MODE: filter = static_cast<cl_filter_mode>(list[i + 1]); break;
            default: fail(CL_INVALID_VALUE, "unknown sampler property {:#x}", list[i]);
        }
    }
    return make_sampler(object, normalized, addressing, filter, list);
}

CLDIST_REFERENCES(sampler, cl_sampler, sampler_of)

void get_sampler_info(cl_sampler sampler, cl_sampler_info param, size_t size, void *value,
                      size_t *size_ret) {
    const SamplerObject &object = sampler_of(sampler);
    const Answer answer{size, value, size_ret};
    switch (param) {
        case CL_SAMPLER_REFERENCE_COUNT: return answer.give(object.references());
        case CL_SAMPLER_CONTEXT: return answer.give(object.context->handle());
        case CL_SAMPLER_NORMALIZED_COORDS: return answer.give(object.normalized);
        case CL_SAMPLER_ADDRESSING_MODE: return answer.give(object.addressing);
        case CL_SAMPLER_FILTER_MODE: return answer.give(object.filter);
        case CL_SAMPLER_PROPERTIES: return answer.list(object.properties);
        default: no_such_param(param);
    }
}

// ---- Command queues ----

cl_command_queue create_command_queue(cl_context context, cl_device_id device,
                                      cl_command_queue_properties properties, cl_int *) {
    return make_queue(context_of(context), device, properties, {});
}

cl_command_queue create_command_queue_with_properties(cl_context context, cl_device_id device,
                                                      const cl_queue_properties *properties,
                                                      cl_int *) {
    ContextObject &object = context_of(context);
    auto list = list_of(properties);
    cl_command_queue_properties bits = 0;
    for (std::size_t i = 0; i + 1 < list.size(); i += 2) {
        if (list[i] == CL_QUEUE_PROPERTIES)
            bits = list[i + 1];
        else if (list[i] == CL_QUEUE_SIZE)
            fail(CL_INVALID_QUEUE_PROPERTIES,
                 "device queues are not supported; create a host queue");
        else
            fail(CL_INVALID_VALUE, "unknown queue property {:#x}", list[i]);
    }
    return make_queue(object, device, bits, std::move(list));
}

void retain_command_queue(cl_command_queue queue) { queue_of(queue).retain(); }

void release_command_queue(cl_command_queue queue) {
    QueueObject &object = queue_of(queue);
    flush_natively(object);
    object.release();
}

void get_command_queue_info(cl_command_queue queue, cl_command_queue_info param, size_t size,
                            void *value, size_t *size_ret) {
    const QueueObject &object = queue_of(queue);
    const Answer answer{size, value, size_ret};
    switch (param) {
        case CL_QUEUE_CONTEXT: return answer.give(object.context->handle());
        case CL_QUEUE_DEVICE: return answer.give(object.device->handle());
        case CL_QUEUE_REFERENCE_COUNT: return answer.give(object.references());
        case CL_QUEUE_PROPERTIES: return answer.give(object.properties);
        case CL_QUEUE_PROPERTIES_ARRAY: return answer.list(object.property_list);
        case CL_QUEUE_DEVICE_DEFAULT: return answer.give(static_cast<cl_command_queue>(nullptr));
        case CL_QUEUE_SIZE: fail(CL_INVALID_COMMAND_QUEUE, "the queue is not a device queue");
        default: no_such_param(param);
    }
}

// Deprecated in OpenCL 1.1.
void set_command_queue_property(cl_command_queue queue, cl_command_queue_properties, cl_bool,
                                cl_command_queue_properties *) {
    queue_of(queue);
    fail(CL_INVALID_OPERATION, "the properties of a queue cannot be changed; create another queue");
}

// No device supports on-device queues.
void set_default_device_command_queue(cl_context context, cl_device_id device,
                                      cl_command_queue queue) {
    require(context_of(context).has(device_of(device)), CL_INVALID_DEVICE,
            "the device does not belong to the context");
    if (queue != nullptr) queue_of(queue);
    fail(CL_INVALID_OPERATION, "the device does not support device queues");
}

void flush(cl_command_queue queue) {
    const QueueObject &object = queue_of(queue);
    const UnlockedWithin unlocked(!host_mode().orders_calls());
    flush_natively(object);
}

void finish(cl_command_queue queue) {
    const Ref<QueueObject> held(&queue_of(queue));
    const unsigned noted = held->user_events_noted;
    if (held->used.exchange(false)) {
        host_mode().finish(held);
    } else if (const auto before = held->finished; before != nullptr) {
        const Unlocked unlocked;
        before->wait();  // another thread's clFinish
    }
    // No command waits for user events now, unless another thread has enqueued such a command
    // meanwhile.
    if (held->user_events_noted == noted && held->user_events.all.any())
        host_mode().forget_user_events(*held);
}

}  // namespace cldist::cluster
