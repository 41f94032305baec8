/// All processes must make the same calls, and number objects in the same order.
#pragma once

#include <algorithm>
#include <array>
#include <new>
#include <thread>
#include <tuple>
#include <type_traits>

#include "base/error_code.hpp"
#include "base/log.hpp"
#include "cluster/calls/call_log.hpp"
#include "cluster/objects/errors.hpp"
#include "cluster/objects/event.hpp"
#include "cluster/objects/memory.hpp"
#include "cluster/objects/program.hpp"
#include "cluster/objects/queue.hpp"
#include "cluster/world/exchange.hpp"
#include "cluster/world/world.hpp"

namespace cldist::cluster {

/// A new object, with its number.
template <typename T, typename... Args>
T *make(Args &&...args) {
    T *const object = new T(std::forward<Args>(args)...);
    object->set_number(World::get().next_number());
    return object;
}

/// Does in this process what all do, natively: if it fails in one, all get its error. Collective. Throws an Error.
template <typename Make>
void in_all(Make &&make) {
    World &world = World::get();
    if (world.alone()) return make();
    const Exchange exchange;
    cl_int code = CL_SUCCESS;
    try {
        make();
    } catch (const Error &error) {
        log_info("{}", error.status().message);
        code = error.status().code;
    } catch (const std::bad_alloc &) {
        code = CL_OUT_OF_HOST_MEMORY;
    }
    code = exchange.least(code);
    if (code != CL_SUCCESS) fail(code, "the driver of a device rejected the call with {}", code_text(code));
}

template <typename T, typename Handle>
std::uint64_t number_of_object(Handle handle) {
    const T *const object = T::from(handle);
    return object != nullptr ? object->number() : 0;
}
inline std::uint64_t number_of(cl_platform_id) { return 0; }  // there is one
inline std::uint64_t number_of(cl_device_id h) { return number_of_object<DeviceObject>(h); }
inline std::uint64_t number_of(cl_context h) { return number_of_object<ContextObject>(h); }
inline std::uint64_t number_of(cl_command_queue h) { return number_of_object<QueueObject>(h); }
inline std::uint64_t number_of(cl_mem h) { return number_of_object<MemObject>(h); }
inline std::uint64_t number_of(cl_sampler h) { return number_of_object<SamplerObject>(h); }
inline std::uint64_t number_of(cl_program h) { return number_of_object<ProgramObject>(h); }
inline std::uint64_t number_of(cl_kernel h) { return number_of_object<KernelObject>(h); }
inline std::uint64_t number_of(cl_event h) { return number_of_object<EventObject>(h); }

/// How a record has the value of a kernel's argument.
struct RecordedValue {
    enum class Form : std::uint8_t { null, bytes, object, no_object, wrong_size } form;
    std::uint64_t number;  ///< of the object
};
RecordedValue recorded_value(cl_kernel kernel, cl_uint index, std::size_t size, const void *value);

/// In a central host: whether only another process knows how an event's command is getting on.
bool must_ask(const EventObject &event);

/// What is compared of the value of a kernel's argument.
std::uint64_t argument_hash(cl_kernel kernel, cl_uint index, std::size_t size, const void *value);

/// A number for a list: that of its only element, or a hash.
template <typename Count, typename Element>
std::uint64_t number_of_list(Count count, const Element &element) {
    if (count == 0) return 0;
    if (count == 1) return element(0);
    std::uint64_t hash = count;
    for (Count i = 0; i < count; ++i) hash = mixed(hash + element(i));
    return hash;
}

/// How many elements of a property list of names and values a call reads: up to the name that ends
/// it. It reads no value of a name that no call knows, nor what is behind that: values may be
/// addresses, or their number another one.
template <typename Property>
std::size_t elements_read(const Property *list) {
    const auto is_known = [](Property name) {
        constexpr std::array<Property, 6> known{CL_CONTEXT_PLATFORM,        CL_CONTEXT_INTEROP_USER_SYNC,
                                                CL_QUEUE_PROPERTIES,        CL_SAMPLER_NORMALIZED_COORDS,
                                                CL_SAMPLER_ADDRESSING_MODE, CL_SAMPLER_FILTER_MODE};
        return std::find(known.begin(), known.end(), name) != known.end();
    };
    if (list == nullptr) return 0;
    std::size_t count = 0;
    while (is_known(list[count])) count += 2;
    return count + 1;
}

/// What a call reads of an image's descriptor, as numbers. The last one is that of the memory
/// object of which the image is made and 1, 1 if it can't be made of that, or 0.
inline std::array<std::uint64_t, 10> parts_of(const cl_image_desc &desc) {
    const cl_image_desc read = as_read(desc);
    const std::uint64_t memory = may_be_of_memory(read.image_type) ? number_of(read.buffer) : 0;
    return {read.image_type,        read.image_width,
            read.image_height,      read.image_depth,
            read.image_array_size,  read.image_row_pitch,
            read.image_slice_pitch, read.num_mip_levels,
            read.num_samples,       read.buffer != nullptr ? memory + 1 : 0};
}

/// The mapping of an object with that address, or that number; null if there is none.
inline const Mapped *mapping_of(cl_mem memory, const void *pointer) {
    MemObject *const object = MemObject::from(memory);
    return object != nullptr ? object->mapping(pointer) : nullptr;
}

/// Whether an address is NULL, if that means anything.
template <const Call &call, std::size_t place, typename Arguments>
bool is_null(const Arguments &arguments) {
    constexpr Argument argument = call.arguments[place];
    if constexpr (argument.kind == Argument::Kind::user_data)
        if (std::get<call.place(argument.of)>(arguments) != nullptr) return false;
    return std::get<place>(arguments) == nullptr;
}

/// The number that is compared for the argument at `place`.
template <const Call &call, std::size_t place, typename Arguments>
std::uint64_t compared(const Arguments &arguments) {
    using Kind = Argument::Kind;
    if constexpr (place == Call::addresses) {
        std::uint64_t nulls = 0;
        [&]<std::size_t... i>(std::index_sequence<i...>) {
            const auto add = [&]<std::size_t at>(std::integral_constant<std::size_t, at>) {
                if constexpr (call.arguments[at].is_address())
                    nulls |= std::uint64_t{is_null<call, at>(arguments)} << at;
            };
            (add(std::integral_constant<std::size_t, i>()), ...);
        }
        (std::make_index_sequence<call.count>());
        return nulls;
    } else {
        constexpr Argument argument = call.arguments[place];
        const auto value = std::get<place>(arguments);
        // The argument that this one names.
        [[maybe_unused]] const auto of = [&] {
            if constexpr (argument.of.empty())
                return 0;
            else
                return std::get<call.place(argument.of)>(arguments);
        }();
        if constexpr (argument.kind == Kind::scalar || argument.kind == Kind::status) {
            return static_cast<std::uint64_t>(value);
        } else if constexpr (argument.kind == Kind::capacity) {
            return of != nullptr ? static_cast<std::uint64_t>(value) : 0;
        } else if constexpr (argument.kind == Kind::object) {
            return number_of(value);
        } else if constexpr (argument.kind == Kind::objects || argument.kind == Kind::wait_list) {
            if (value == nullptr) return of;
            return number_of_list(of, [&](cl_uint i) { return number_of(value[i]); });
        } else if constexpr (argument.kind == Kind::range) {
            if (value == nullptr || of > 3) return 0;
            return number_of_list(of, [&](cl_uint i) { return value[i]; });
        } else if constexpr (argument.kind == Kind::triple) {
            if (value == nullptr) return 0;
            return number_of_list(3U, [&](unsigned i) { return value[i]; });
        } else if constexpr (argument.kind == Kind::text) {
            return value != nullptr ? hash_of(value) : 0;
        } else if constexpr (argument.kind == Kind::texts || argument.kind == Kind::blobs) {
            if (value == nullptr) return of;
            const std::size_t *lengths = nullptr;
            if constexpr (!argument.lengths.empty()) lengths = std::get<call.place(argument.lengths)>(arguments);
            return number_of_list(of, [&](cl_uint i) {
                const auto *const bytes = reinterpret_cast<const char *>(value[i]);
                if (bytes == nullptr) return std::uint64_t{0};
                const std::size_t length = lengths != nullptr ? lengths[i] : 0;
                const bool to_its_end = length == 0 && argument.kind == Kind::texts;
                return hash_of(to_its_end ? std::string_view(bytes) : std::string_view(bytes, length));
            });
        } else if constexpr (argument.kind == Kind::pairs) {
            return number_of_list(elements_read(value), [&](std::size_t i) {
                const bool is_address = i % 2 == 1 && static_cast<std::uint64_t>(value[i - 1]) == CL_CONTEXT_PLATFORM;
                return is_address ? 0 : static_cast<std::uint64_t>(value[i]);
            });
        } else if constexpr (argument.kind == Kind::list) {
            std::size_t count = 0;
            while (value != nullptr && value[count] != 0) ++count;
            return number_of_list(count, [&](std::size_t i) { return static_cast<std::uint64_t>(value[i]); });
        } else if constexpr (argument.kind == Kind::first) {
            return value != nullptr ? value[0] : 0;
        } else if constexpr (argument.kind == Kind::region) {
            if (value == nullptr || of != CL_BUFFER_CREATE_TYPE_REGION) return 0;
            const auto &region = *static_cast<const cl_buffer_region *>(value);
            return mixed(mixed(region.origin) + region.size);
        } else if constexpr (argument.kind == Kind::image_format) {
            if (value == nullptr) return 0;
            return std::uint64_t{value->image_channel_order} << 16U ^ value->image_channel_data_type;
        } else if constexpr (argument.kind == Kind::image_desc) {
            if (value == nullptr) return 0;
            const auto parts = parts_of(*value);
            return number_of_list(parts.size(), [&](std::size_t i) { return parts[i]; });
        } else if constexpr (argument.kind == Kind::kernel_argument) {
            return argument_hash(std::get<0>(arguments), std::get<1>(arguments), of, value);
        } else {
            static_assert(argument.kind == Kind::mapping);
            // Mappings of one range may have one address in a process and several in another: which
            // of them ends is all the same.
            const Mapped *const mapped = mapping_of(of, value);
            if (mapped == nullptr) return 0;
            const auto &[x, y, z] = mapped->origin;
            const auto &[width, height, depth] = mapped->region;
            const std::array<std::uint64_t, 10> parts{
                mapped->device_memory, mapped->begin, mapped->end, mapped->flags, x, y, z, width, height, depth};
            return number_of_list(parts.size(), [&](std::size_t i) { return parts[i]; });
        }
    }
}

/// Whether all processes must make this call, where all run the program.
template <const Call &call, typename First, typename... Rest>
bool is_compared(const First &first, const Rest &...) {
    if constexpr (call.comparison == Comparison::outside_callbacks) return !in_callback();
    if constexpr (call.comparison == Comparison::by_creator) {
        const EventObject *const event = EventObject::from(first);
        return event == nullptr || event->creator == std::this_thread::get_id();
    }
    return true;
}

/// Calls `use` with a number for each of a call's values.
template <const Call &call, typename Use, typename... Arguments>
[[gnu::always_inline]] inline void with_values(Use &&use, const Arguments &...arguments) {
    const auto all = std::tie(arguments...);
    [&]<std::size_t... i>(std::index_sequence<i...>) { use(compared<call, call.values[i]>(all)...); }
    (std::make_index_sequence<call.value_count>());
}

/// Records a call for the comparison with other processes', if there are any.
template <const Call &call, typename... Arguments>
[[gnu::always_inline]] inline void record(const Arguments &...arguments) {
    if constexpr (call.comparison != Comparison::never) {
        World &world = World::get();
        if (world.alone() || (!world.is_central() && !is_compared<call>(arguments...))) return;
        with_values<call>([&](auto... values) { world.calls().template record<call>(values...); }, arguments...);
    }
}

template <typename T, typename Handle>
Homes homes_of(Handle h) {
    T *const object = T::from(h);
    return object != nullptr ? object->homes() : Homes{};
}

/// Where the memory that the command uses is attached; none if it waits for events or blocks. The
/// same in all processes, except that each process compares the place with its own. Without the
/// lock.
template <const Call &call, typename... Arguments>
[[gnu::always_inline]] inline Home home_of_command(cl_command_queue queue, const Arguments &...arguments) {
    if (version_of_homes.load(std::memory_order_relaxed) == 0 || calls_are_followed) return Home::none;
    Homes homes{Home::elsewhere};
    const auto take = [&]<std::size_t at, typename T>(std::integral_constant<std::size_t, at>, const T &value) {
        constexpr std::string_view name = call.arguments[at].name;
        if constexpr (std::is_same_v<T, cl_mem>)
            homes = homes_of_both(homes, homes_of<MemObject>(value));
        else if constexpr (std::is_same_v<T, cl_kernel>)
            homes = homes_of_both(homes, homes_of<KernelObject>(value));
        else if constexpr (std::is_same_v<T, const cl_event *>)
            homes = value == nullptr ? homes : Homes{};
        else if constexpr (name == "num_events_in_wait_list" || name == "blocking_write")
            homes = value == T{} ? homes : Homes{};
    };
    [&]<std::size_t... i>(std::index_sequence<i...>) {
        (take(std::integral_constant<std::size_t, i + 1>(), arguments), ...);
    }
    (std::make_index_sequence<sizeof...(Arguments)>());
    const QueueObject *const object = QueueObject::from(queue);
    if (object == nullptr) return Home::none;
    // All processes decide commands behind user events, except those on buffers that the program has attached.
    if (!homes.by_program() && object->behind_user_events.load(std::memory_order_relaxed)) return Home::none;
    return homes.for_device(object->device->memory);
}

/// A command for which that is not none: accounts for it. Returns whether there is nothing to do
/// for it in this process.
template <const Call &call, typename... Arguments>
[[gnu::always_inline]] inline bool record_aside(Home home, cl_command_queue queue, const Arguments &...arguments) {
    World &world = World::get();
    if (world.alone()) return false;
    with_values<call>([&](auto... values) { world.calls().template record_aside<call>(values...); }, queue,
                      arguments...);
    return home == Home::elsewhere && !QueueObject::from(queue)->is_native();
}

}  // namespace cldist::cluster
