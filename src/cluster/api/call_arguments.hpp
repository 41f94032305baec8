/// The arguments of a call: the values that all processes compare, and the record that a central
/// host sends to the processes that follow its calls. A table in call_arguments.cpp has a row for
/// each kind of argument in calls.def.
///
/// A record contains the numbers of objects. It contains functions, addresses and places for
/// results only as NULL or not NULL. The executor transfers program memory that commands read.
#pragma once

#include <array>
#include <memory_resource>
#include <span>
#include <tuple>
#include <type_traits>
#include <vector>

#include "cluster/calls/call.hpp"
#include "cluster/calls/recorder.hpp"
#include "cluster/objects/event.hpp"
#include "cluster/objects/memory.hpp"
#include "cluster/objects/program.hpp"

namespace cldist::cluster {

/// The arguments of a call as 64-bit words: numbers with their signs, and addresses.
struct CallArguments {
    template <typename... T>
    explicit CallArguments(const Call &call_in, const T &...arguments)
        : call(call_in), words{word_of(arguments)...} {}

    template <typename T>
    [[nodiscard]] T as(std::size_t at) const {
        return reinterpret_cast<T>(words[at]);
    }

    const Call &call;
    std::array<std::uint64_t, Call::most_arguments> words{};

private:
    template <typename T>
    static std::uint64_t word_of(T argument) {
        if constexpr (std::is_pointer_v<T>)
            return reinterpret_cast<std::uint64_t>(argument);
        else
            return static_cast<std::uint64_t>(argument);
    }
};

/// How a record represents the value of a kernel's argument.
struct RecordedValue {
    enum class Form : std::uint8_t { null, bytes, object, no_object, wrong_size } form;
    std::uint64_t number;  ///< of the object
};
RecordedValue recorded_value(cl_kernel kernel, cl_uint index, std::size_t size, const void *value);
/// The number that is compared for the value of a kernel's argument.
std::uint64_t argument_hash(cl_kernel kernel, cl_uint index, std::size_t size, const void *value);

/// How many elements of a property list (names and values) a call reads: up to and including the
/// name that is 0 or unknown. The rest is not read, because an unknown name may have addresses or
/// several values.
std::size_t elements_read(const void *list);

/// The number that is compared for an argument.
std::uint64_t compared(const CallArguments &arguments, std::size_t at);

/// All numbers that are compared for a call.
struct ComparedValues {
    explicit ComparedValues(const CallArguments &arguments);
    operator std::span<const std::uint64_t>() const { return {values.data(), count}; }

    std::array<std::uint64_t, Call::most_values> values;
    std::size_t count;
};

/// compared() without the table for most arguments, for commands that a process leaves out. It is
/// their largest cost.
template <const Call &call, std::size_t place>
[[gnu::always_inline]] inline std::uint64_t quickly_compared(const CallArguments &arguments) {
    using Kind = Argument::Kind;
    constexpr Argument argument = call.arguments[place == Call::addresses ? 0 : place];
    static_assert(argument.kind != Kind::user_data && argument.kind != Kind::capacity);
    if constexpr (place == Call::addresses) {
        std::uint64_t nulls = 0;
        for (std::size_t i = 0; i < call.count; ++i)
            if (call.arguments[i].is_address())
                nulls |= std::uint64_t{arguments.words[i] == 0} << i;
        return nulls;
    } else if constexpr (argument.kind == Kind::object) {
        return number_of(arguments.as<const Head *>(place));
    } else if constexpr (argument.kind == Kind::scalar) {
        return arguments.words[place];
    } else if constexpr (argument.kind == Kind::wait_list) {
        return 0;  // a command that is left out has no wait list
    } else {
        if (arguments.words[place] == 0) return 0;
        if (argument.kind == Kind::range && arguments.words[argument.of_place] == 1)
            return *arguments.as<const std::uint64_t *>(place);
        return compared(arguments, place);
    }
}
template <const Call &call>
[[gnu::always_inline]] inline auto quickly_compared_values(const CallArguments &arguments) {
    return [&]<std::size_t... i>(std::index_sequence<i...>) {
        return std::array<std::uint64_t, call.value_count>{
            quickly_compared<call, call.values[i]>(arguments)...};
    }
    (std::make_index_sequence<call.value_count>());
}

/// The memory that arguments point to while a call is made.
class ArgumentMemory {
public:
    ArgumentMemory() : resource_(first_.data(), first_.size()) {}

    template <typename T>
    T *make(std::size_t count) {
        return static_cast<T *>(
            resource_.allocate(std::max<std::size_t>(count, 1) * sizeof(T), alignof(T)));
    }
    std::byte *bytes(std::size_t count) {
        return static_cast<std::byte *>(resource_.allocate(std::max<std::size_t>(count, 1)));
    }

    /// The number of elements in the record for each argument.
    std::array<std::size_t, Call::most_arguments> elements{};
    /// The bytes of each text or blob in the record.
    std::vector<std::size_t> sizes;

private:
    alignas(16) std::array<std::byte, 4096> first_;
    std::pmr::monotonic_buffer_resource resource_;
};

/// Appends the record of a call.
void put_call(RecordWriter &writer, const CallArguments &arguments);
/// Reads the arguments of a call from its record, after the call's number. Lists live as long as
/// `memory`. A user-provided function is replaced by NoFunction::call unless it is null
/// (typed_arguments()). Throws std::out_of_range if the record lacks data that the call reads.
CallArguments take_call(const Call &call, RecordReader &reader, ArgumentMemory &memory);

/// Replaces a user-provided function in processes that do not run the program.
template <typename Function>
struct NoFunction;
template <typename Result, typename... Arguments>
struct NoFunction<Result(CL_CALLBACK *)(Arguments...)> {
    static Result CL_CALLBACK call(Arguments...) { return Result(); }
};

/// Converts a word to the type of its argument.
template <typename T>
T typed(std::uint64_t word) {
    if constexpr (std::is_pointer_v<T> && std::is_function_v<std::remove_pointer_t<T>>)
        return word != 0 ? &NoFunction<T>::call : nullptr;
    else if constexpr (std::is_pointer_v<T>)
        return reinterpret_cast<T>(word);
    else
        return static_cast<T>(word);
}
template <typename... Arguments>
std::tuple<Arguments...> typed_arguments(const CallArguments &arguments) {
    return [&]<std::size_t... i>(std::index_sequence<i...>) {
        return std::tuple<Arguments...>{typed<Arguments>(arguments.words[i])...};
    }
    (std::index_sequence_for<Arguments...>());
}

}  // namespace cldist::cluster
