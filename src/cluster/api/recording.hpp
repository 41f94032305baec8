/// A central host's calls as records: made from calls.def, put by the host, taken by the processes
/// that follow. Objects go by their numbers; of the program's functions, addresses and places for
/// results whether there are any. The program's memory that commands read goes by the executor.
#pragma once

#include <array>
#include <cstring>
#include <memory_resource>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "cluster/api/checks.hpp"
#include "cluster/api/record.hpp"
#include "cluster/calls/recorder.hpp"

namespace cldist::cluster {

/// The number of a function in a record; from 1.
template <const Call &call>
consteval unsigned number_of_call() {
    constexpr std::array all{
#define CLDIST_CALL(function, ...) calls::function.hash,
#define CLDIST_PLAIN(function, ...)
#define CLDIST_EXTENSION CLDIST_CALL
#define CLDIST_ABSENT(function)
#include "cluster/calls/calls.def"
    };
    unsigned number = 0;
    while (all.at(number) != call.hash) ++number;
    return number + 1;
}

/// Whether the others have to know of such calls: what is compared in a replicated host, and what
/// an object's life depends on.
template <const Call &call>
inline constexpr bool is_followed =
    call.comparison != Comparison::never ||
    call.function.starts_with("clRetain") || call.function.starts_with("clRelease") || call.function == "clFlush";

/// In the host: whether this one call concerns another process. Waiting and asking for what is known here does not.
template <const Call &call, typename... Arguments>
bool concerns_others(const Arguments &...arguments) {
    if constexpr (call.function == "clFinish") {
        const QueueObject *const queue = QueueObject::from(arguments...);
        return queue != nullptr && !queue->is_native() && queue->used.load(std::memory_order_relaxed);
    } else if constexpr (call.function == "clGetEventInfo" || call.function == "clGetEventProfilingInfo") {
        const auto all = std::tie(arguments...);
        const EventObject *const event = EventObject::from(std::get<0>(all));
        const bool asks = call.function == "clGetEventProfilingInfo" ||
                          std::get<1>(all) == cl_uint{CL_EVENT_COMMAND_EXECUTION_STATUS};
        return event != nullptr && asks && must_ask(*event);
    } else if constexpr (call.function == "clWaitForEvents") {
        const auto [count, list] = std::tie(arguments...);
        for (cl_uint i = 0; list != nullptr && i < count; ++i)
            if (const EventObject *const event = EventObject::from(list[i]); event != nullptr && !event->known_here())
                return true;
        return false;
    }
    return true;
}

inline bool is_platform(std::uint64_t property) {
    const auto *const platform = reinterpret_cast<cl_platform_id>(property);
    return platform != nullptr && platform->kind == Kind::platform;
}
/// A platform for arguments of which only the kind is checked.
inline cl_platform_id some_platform() {
    static _cl_platform_id platform{{&dispatch_table, Kind::platform}};
    return &platform;
}

// ---- One argument ----------------------------------------------------------------------------------------------------

template <typename T>
inline constexpr bool is_signed_number = std::is_integral_v<T> &&std::is_signed_v<T>;

/// How many elements `lengths` has: as many as the texts or blobs that name it.
template <const Call &call, std::size_t at>
consteval std::string_view count_of_lengths() {
    for (std::size_t i = 0; i < call.count; ++i)
        if (call.arguments[i].lengths == call.arguments[at].name && !call.arguments[at].name.empty())
            return call.arguments[i].of;
    return {};
}

template <typename T>
void put_numbers(RecordWriter &writer, const T *values, std::size_t count) {
    writer.number(values == nullptr ? 0 : count + 1);
    for (std::size_t i = 0; values != nullptr && i < count; ++i) writer.number(static_cast<std::uint64_t>(values[i]));
}

inline void put_bytes(RecordWriter &writer, const void *bytes, std::size_t size) {
    writer.number(bytes == nullptr ? 0 : size + 1);
    if (bytes != nullptr) writer.bytes(bytes, size);
}

/// Bytes of the color that an image is filled with: of one with depths it is one number.
inline std::size_t size_of_color(cl_mem memory) {
    const MemObject *const image = MemObject::from(memory);
    if (image == nullptr || !image->is_image()) return 0;
    return (image->format.image_channel_order == CL_DEPTH ? 1 : 4) * sizeof(cl_uint);
}

/// Up to what there may be in an array of sizes for each dimension.
inline std::size_t dimensions_of(std::uint64_t work_dim) { return work_dim <= 3 ? work_dim : 0; }

/// Whether a record has as many elements, or bytes, of an argument as elements_of().
constexpr bool is_counted(Argument::Kind kind) {
    using enum Argument::Kind;
    constexpr std::array counted{objects, wait_list,    texts,  blobs, lengths, range,
                                 triple,  image_format, region, color, pattern};
    return std::find(counted.begin(), counted.end(), kind) != counted.end();
}

/// How many elements, or bytes, a call reads where an argument points that is not NULL.
template <const Call &call, std::size_t at, typename Arguments>
std::size_t elements_of(const Arguments &arguments) {
    using Kind = Argument::Kind;
    constexpr Argument argument = call.arguments[at];
    if constexpr (argument.kind == Kind::triple) {
        return 3;
    } else if constexpr (argument.kind == Kind::image_format) {
        return sizeof(cl_image_format);
    } else if constexpr (argument.kind == Kind::lengths) {
        return std::get<call.place(count_of_lengths<call, at>())>(arguments);
    } else {
        const auto of = std::get<call.place(argument.of)>(arguments);
        if constexpr (argument.kind == Kind::range)
            return dimensions_of(of);
        else if constexpr (argument.kind == Kind::region)
            return of == CL_BUFFER_CREATE_TYPE_REGION ? sizeof(cl_buffer_region) : 0;
        else if constexpr (argument.kind == Kind::color)
            return size_of_color(of);
        else if constexpr (argument.kind == Kind::pattern)
            return is_pattern_size(of) ? of : 0;  // another one is refused whatever it says
        else
            return of;
    }
}

template <const Call &call, std::size_t at, typename Arguments>
void put(RecordWriter &writer, const Arguments &arguments) {
    using Kind = Argument::Kind;
    constexpr Argument argument = call.arguments[at];
    const auto value = std::get<at>(arguments);
    [[maybe_unused]] const auto of = [&] {
        if constexpr (argument.of.empty())
            return 0;
        else
            return std::get<call.place(argument.of)>(arguments);
    }();
    if constexpr (argument.kind == Kind::scalar || argument.kind == Kind::status || argument.kind == Kind::count) {
        using T = std::remove_const_t<decltype(value)>;
        const auto number = static_cast<std::uint64_t>(value);
        if constexpr (is_signed_number<T>)
            writer.number(number << 1U ^ (value < 0 ? ~std::uint64_t{0} : 0));
        else
            writer.number(number);
    } else if constexpr (argument.kind == Kind::capacity) {
        writer.number(of != nullptr ? static_cast<std::uint64_t>(value) : 0);
    } else if constexpr (argument.kind == Kind::object) {
        writer.number(number_of(value));
    } else if constexpr (argument.kind == Kind::objects || argument.kind == Kind::wait_list) {
        writer.number(value == nullptr ? 0 : std::size_t{of} + 1);
        for (cl_uint i = 0; value != nullptr && i < of; ++i) writer.number(number_of(value[i]));
    } else if constexpr (argument.kind == Kind::lengths || argument.kind == Kind::range ||
                         argument.kind == Kind::triple) {
        put_numbers(writer, value, elements_of<call, at>(arguments));
    } else if constexpr (argument.kind == Kind::text) {
        put_bytes(writer, value, value != nullptr ? std::strlen(value) : 0);
    } else if constexpr (argument.kind == Kind::texts || argument.kind == Kind::blobs) {
        const std::size_t *lengths = nullptr;
        if constexpr (!argument.lengths.empty()) lengths = std::get<call.place(argument.lengths)>(arguments);
        writer.number(value == nullptr ? 0 : std::size_t{of} + 1);
        for (cl_uint i = 0; value != nullptr && i < of; ++i) {
            const auto *const bytes = reinterpret_cast<const char *>(value[i]);
            std::size_t size = lengths != nullptr ? lengths[i] : 0;
            if (argument.kind == Kind::texts && size == 0 && bytes != nullptr) size = std::strlen(bytes);
            put_bytes(writer, bytes, size);
        }
    } else if constexpr (argument.kind == Kind::pairs) {
        const std::size_t count = elements_read(value);
        writer.number(value == nullptr ? 0 : count + 1);
        for (std::size_t i = 0; i < count; ++i) {
            const bool is_address = i % 2 == 1 && static_cast<std::uint64_t>(value[i - 1]) == CL_CONTEXT_PLATFORM;
            const auto number = static_cast<std::uint64_t>(value[i]);
            writer.number(is_address ? std::uint64_t{is_platform(number)} : number);
        }
    } else if constexpr (argument.kind == Kind::list) {
        std::size_t count = 0;
        while (value != nullptr && value[count] != 0) ++count;
        put_numbers(writer, value, count);
    } else if constexpr (argument.kind == Kind::first) {
        put_numbers(writer, value, 1);
    } else if constexpr (argument.kind == Kind::region || argument.kind == Kind::image_format ||
                         argument.kind == Kind::color || argument.kind == Kind::pattern) {
        put_bytes(writer, value, elements_of<call, at>(arguments));
    } else if constexpr (argument.kind == Kind::image_desc) {
        writer.number(value != nullptr);
        if (value == nullptr) return;
        for (const std::uint64_t part : parts_of(*value)) writer.number(part);
    } else if constexpr (argument.kind == Kind::kernel_argument) {
        const RecordedValue recorded = recorded_value(std::get<0>(arguments), std::get<1>(arguments), of, value);
        writer.number(static_cast<std::uint64_t>(recorded.form));
        if (recorded.form == RecordedValue::Form::object) writer.number(recorded.number);
        if (recorded.form == RecordedValue::Form::bytes) writer.bytes(value, of);
    } else if constexpr (argument.kind == Kind::mapping) {
        const Mapped *const mapped = mapping_of(of, value);
        writer.number(mapped != nullptr ? mapped->number : 0);
    } else if constexpr (argument.kind != Kind::code) {
        writer.number(!is_null<call, at>(arguments));
    }
}

/// Replaces a function of the program in processes without the program.
template <typename Function>
struct NoFunction;
template <typename Result, typename... Arguments>
struct NoFunction<Result(CL_CALLBACK *)(Arguments...)> {
    static Result CL_CALLBACK call(Arguments...) { return Result(); }
};

/// The memory that arguments point to while a call is made.
class ArgumentMemory {
public:
    ArgumentMemory() : resource_(first_.data(), first_.size()) {}

    template <typename T>
    T *make(std::size_t count) {
        return static_cast<T *>(resource_.allocate(std::max<std::size_t>(count, 1) * sizeof(T), alignof(T)));
    }
    /// Where what is written is nobody's, up to so many bytes.
    static constexpr std::size_t nowhere_size = std::size_t{1} << 20U;
    [[nodiscard]] static std::byte *nowhere() {
        alignas(16) static std::array<std::byte, nowhere_size> bytes;
        return bytes.data();
    }
    /// The same, where nobody writes: zeros.
    [[nodiscard]] static std::byte *zeros() {
        alignas(16) static std::array<std::byte, nowhere_size> bytes;
        return bytes.data();
    }

    /// How many elements a record has for each argument.
    std::array<std::size_t, Call::most_arguments> elements{};
    /// Bytes of each of its texts or blobs.
    std::vector<std::size_t> sizes;

private:
    alignas(16) std::array<std::byte, 4096> first_;
    std::pmr::monotonic_buffer_resource resource_;
};

template <typename Handle>
Handle object_with(std::uint64_t number) {
    const auto at = objects_by_number->find(number);
    return at != objects_by_number->end() ? static_cast<Handle>(at->second) : nullptr;
}

/// A handle that is not NULL, and no object's but the platform's.
template <typename Handle>
Handle no_object() {
    return reinterpret_cast<Handle>(some_platform());
}

template <typename T>
T *take_numbers(RecordReader &reader, ArgumentMemory &memory, std::size_t &count, std::size_t zeros_behind = 0) {
    const auto there = reader.elements();
    if (!there) return nullptr;
    count = *there;
    T *const values = memory.make<T>(count + zeros_behind);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(reader.number());
    std::fill_n(values + count, zeros_behind, T{});
    return values;
}

/// With a 0 behind them.
inline char *take_bytes(RecordReader &reader, ArgumentMemory &memory, std::size_t &size) {
    const auto there = reader.elements();
    if (!there) return nullptr;
    size = *there;
    auto *const bytes = reinterpret_cast<char *>(memory.make<std::max_align_t>(size / sizeof(std::max_align_t) + 1));
    const auto taken = reader.bytes(size);
    if (!taken.empty()) std::memcpy(bytes, taken.data(), taken.size());
    bytes[size] = '\0';
    return bytes;
}

template <const Call &call, std::size_t at, typename T>
T take(RecordReader &reader, ArgumentMemory &memory) {
    using Kind = Argument::Kind;
    constexpr Argument argument = call.arguments[at];
    std::size_t &elements = memory.elements[at];
    if constexpr (argument.kind == Kind::scalar || argument.kind == Kind::status || argument.kind == Kind::count ||
                  argument.kind == Kind::capacity) {
        const std::uint64_t number = reader.number();
        if constexpr (is_signed_number<T>)
            return static_cast<T>(number >> 1U ^ (~(number & 1U) + 1));
        else
            return static_cast<T>(number);
    } else if constexpr (argument.kind == Kind::object) {
        return object_with<T>(reader.number());
    } else if constexpr (argument.kind == Kind::objects || argument.kind == Kind::wait_list) {
        using Handle = std::remove_const_t<std::remove_pointer_t<T>>;
        const auto there = reader.elements();
        if (!there) return nullptr;
        elements = *there;
        Handle *const handles = memory.make<Handle>(elements);
        for (std::size_t i = 0; i < elements; ++i) handles[i] = object_with<Handle>(reader.number());
        return handles;
    } else if constexpr (argument.kind == Kind::lengths || argument.kind == Kind::range ||
                         argument.kind == Kind::triple) {
        return take_numbers<std::size_t>(reader, memory, elements);
    } else if constexpr (argument.kind == Kind::text) {
        return take_bytes(reader, memory, elements);
    } else if constexpr (argument.kind == Kind::texts || argument.kind == Kind::blobs) {
        using Element = std::remove_pointer_t<T>;
        const auto there = reader.elements();
        if (!there) return nullptr;
        elements = *there;
        memory.sizes.assign(elements, 0);
        Element *const texts = memory.make<Element>(elements);
        for (std::size_t i = 0; i < elements; ++i)
            texts[i] = reinterpret_cast<Element>(take_bytes(reader, memory, memory.sizes[i]));
        return texts;
    } else if constexpr (argument.kind == Kind::pairs) {
        using Value = std::remove_const_t<std::remove_pointer_t<T>>;
        Value *const values = take_numbers<Value>(reader, memory, elements, 2);
        for (std::size_t i = 0; values != nullptr && values[i] != 0; i += 2)
            if (static_cast<std::uint64_t>(values[i]) == CL_CONTEXT_PLATFORM && values[i + 1] != 0)
                values[i + 1] = reinterpret_cast<Value>(some_platform());
        return values;
    } else if constexpr (argument.kind == Kind::list || argument.kind == Kind::first) {
        return take_numbers<std::remove_const_t<std::remove_pointer_t<T>>>(reader, memory, elements, 2);
    } else if constexpr (argument.kind == Kind::region || argument.kind == Kind::image_format ||
                         argument.kind == Kind::color || argument.kind == Kind::pattern) {
        return reinterpret_cast<T>(take_bytes(reader, memory, elements));
    } else if constexpr (argument.kind == Kind::image_desc) {
        if (reader.number() == 0) return nullptr;
        auto *const desc = new (memory.make<cl_image_desc>(1)) cl_image_desc{};
        desc->image_type = static_cast<cl_mem_object_type>(reader.number());
        for (std::size_t cl_image_desc::*const member :
             {&cl_image_desc::image_width, &cl_image_desc::image_height, &cl_image_desc::image_depth,
              &cl_image_desc::image_array_size, &cl_image_desc::image_row_pitch, &cl_image_desc::image_slice_pitch})
            desc->*member = reader.number();
        desc->num_mip_levels = static_cast<cl_uint>(reader.number());
        desc->num_samples = static_cast<cl_uint>(reader.number());
        if (const std::uint64_t parent = reader.number(); parent != 0) {
            const auto object = object_with<cl_mem>(parent - 1);
            desc->buffer = object != nullptr ? object : no_object<cl_mem>();
        }
        return desc;
    } else if constexpr (argument.kind == Kind::kernel_argument) {
        using SizeAt = std::integral_constant<std::size_t, call.place(argument.of)>;
        static_assert(SizeAt::value + 1 == at, "the value's size has just been taken");
        return nullptr;  // see take_call()
    } else if constexpr (argument.kind == Kind::mapping) {
        return reinterpret_cast<T>(reader.number());
    } else if constexpr (argument.kind == Kind::code) {
        return reinterpret_cast<T>(ArgumentMemory::nowhere());
    } else {
        if (reader.number() == 0) return nullptr;
        if constexpr (argument.kind == Kind::callback)
            return &NoFunction<T>::call;
        else if constexpr (argument.name == "param_value")
            return reinterpret_cast<T>(ArgumentMemory::zeros());
        else
            return reinterpret_cast<T>(ArgumentMemory::nowhere());
    }
}

inline const void *take_value(RecordReader &reader, ArgumentMemory &memory, std::size_t size) {
    switch (static_cast<RecordedValue::Form>(reader.number())) {
        case RecordedValue::Form::null: return nullptr;
        case RecordedValue::Form::bytes: {
            const auto taken = reader.bytes(size);
            auto *const bytes = memory.make<std::max_align_t>(size / sizeof(std::max_align_t) + 1);
            if (!taken.empty()) std::memcpy(bytes, taken.data(), size);
            return bytes;
        }
        case RecordedValue::Form::object: {
            void **const handle = memory.make<void *>(1);
            *handle = object_with<void *>(reader.number());
            return handle;
        }
        case RecordedValue::Form::no_object: {
            void **const handle = memory.make<void *>(1);
            *handle = no_object<void *>();
            return handle;
        }
        default: break;
    }
    if (size > ArgumentMemory::nowhere_size) throw std::out_of_range("a record lacks a kernel's argument");
    return ArgumentMemory::nowhere();
}

// ---- Whole calls -----------------------------------------------------------------------------------------------------

template <const Call &call, typename... Arguments>
void put_call(RecordWriter &writer, const Arguments &...arguments) {
    const auto all = std::tie(arguments...);
    writer.number(number_of_call<call>());
    [&]<std::size_t... i>(std::index_sequence<i...>) { (put<call, i>(writer, all), ...); }
    (std::make_index_sequence<call.count>());
}

/// Throws std::out_of_range unless all is there that the call reads where an argument points.
template <const Call &call, std::size_t at, typename Arguments>
void check_taken(const ArgumentMemory &memory, const Arguments &arguments) {
    constexpr Argument argument = call.arguments[at];
    if constexpr (is_counted(argument.kind)) {
        const auto value = std::get<at>(arguments);
        if (value == nullptr) return;
        bool there = memory.elements[at] == elements_of<call, at>(arguments);
        if constexpr (!argument.lengths.empty()) {
            const std::size_t *const lengths = std::get<call.place(argument.lengths)>(arguments);
            for (std::size_t i = 0; lengths != nullptr && there && i < memory.sizes.size(); ++i)
                there = value[i] == nullptr || lengths[i] <= memory.sizes[i];
        }
        if (!there) throw std::out_of_range("a record has another number of elements than it says");
    }
}

template <const Call &call, typename... Arguments>
std::tuple<Arguments...> take_call(RecordReader &reader, ArgumentMemory &memory) {
    auto all = [&]<std::size_t... i>(std::index_sequence<i...>) {
        return std::tuple<Arguments...>{take<call, i, Arguments>(reader, memory)...};
    }
    (std::make_index_sequence<call.count>());
    constexpr Argument last = call.arguments[call.count - 1];
    if constexpr (last.kind == Argument::Kind::kernel_argument)
        std::get<call.count - 1>(all) = take_value(reader, memory, std::get<call.place(last.of)>(all));
    [&]<std::size_t... i>(std::index_sequence<i...>) { (check_taken<call, i>(memory, all), ...); }
    (std::make_index_sequence<call.count>());
    return all;
}

/// A call of the program's, under the lock: for the comparison with other processes' calls, or, of
/// a central host, for the processes that follow.
template <const Call &call, typename... Arguments>
[[gnu::always_inline]] inline void note(const Arguments &...arguments) {
    if constexpr (is_followed<call>) {
        if (calls_are_followed || call.comparison != Comparison::never) {
            World &world = World::get();
            if (!world.is_central()) return record<call>(arguments...);
            if (world.has_ended() || !concerns_others<call>(arguments...)) return;
            record<call>(arguments...);
            static auto &writer = *new RecordWriter;  // threads may call while the program ends
            writer.clear();
            put_call<call>(writer, arguments...);
            world.append(writer.record());
        }
    } else if (calls_are_followed) {
        static_cast<void>(World::get().has_ended());
    }
}

}  // namespace cldist::cluster
