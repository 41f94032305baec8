/// The descriptions of OpenCL's functions in calls.def, as constants.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace cldist::cluster {

/// FNV-1a. The same in all processes.
constexpr std::uint64_t hash_of(std::string_view bytes,
                                std::uint64_t before = 0xcbf29ce484222325U) {
    for (const char byte : bytes)
        before = (before ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
    return before;
}

/// The finaliser of splitmix64.
constexpr std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

/// An argument of a function: its kind, and which other arguments it depends on.
struct Argument {
    enum class Kind : unsigned char {
        // Compared between the processes:
        object,           ///< a handle, by the object's number
        scalar,           ///< a number
        capacity,         ///< the size of the output array `of`; ignored if that is NULL
        status,           ///< 0 or a negative error code
        count,            ///< the number of elements of other arguments; compared with those
        lengths,          ///< the lengths of texts or blobs, as an array; compared with those
        objects,          ///< an array of handles
        wait_list,        ///< an array of events
        range,            ///< an array of up to three sizes; ignored if there are more
        triple,           ///< three sizes
        text,             ///< a null-terminated string
        texts,            ///< an array of strings; null-terminated if their length is 0 or missing
        blobs,            ///< an array of blocks of bytes
        pairs,            ///< a property list: names and values, up to a name that is 0 or unknown
        list,             ///< a 0-terminated list of values
        first,            ///< a property list that must be empty: only its first name is compared
        region,           ///< a cl_buffer_region, if `of` is CL_BUFFER_CREATE_TYPE_REGION
        image_format,     ///< a cl_image_format
        image_desc,       ///< a cl_image_desc, as far as its image type uses it (as_read())
        kernel_argument,  ///< bytes of a scalar, or number of an object; see docs/cluster.md
        mapping,          ///< an address from a map of `of`; compared by range, recorded by number
        // Compared only for being NULL:
        bytes,      ///< the program's memory, of `of` bytes
        pattern,    ///< a fill pattern of `of` bytes, if that is a valid size
        box,        ///< the program's memory, by region, origin and pitches
        pixels,     ///< the program's memory, by the image's region and pitches
        color,      ///< four components, or one for a depth image
        callback,   ///< a function of the program
        user_data,  ///< an address for the callback `of`; must be NULL without a callback
        out,        ///< the address for a result
        // Not compared:
        code,  ///< the address for the error code
    };
    Kind kind = Kind::code;
    std::string_view name{};
    /// The argument on which this one depends: its number of elements or bytes, object or callback.
    std::string_view of{};
    std::string_view lengths{};  ///< the argument with the length of each element

    static constexpr std::size_t none = ~std::size_t{0};
    std::size_t of_place = none;       ///< the index of the argument `of` in the call
    std::size_t lengths_place = none;  ///< the index of the argument `lengths`

    /// Whether the call log records a number for it.
    [[nodiscard]] constexpr bool is_valued() const {
        return kind < Kind::bytes && kind != Kind::count && kind != Kind::lengths;
    }
    /// Whether the call log only records whether it is NULL.
    [[nodiscard]] constexpr bool is_address() const {
        return kind >= Kind::bytes && kind != Kind::code;
    }
};

/// Which calls all processes must make alike. Callbacks, and threads that set user events, run at
/// different times in each process. They may only set user events, release objects and, in a
/// callback, query the event. `by_creator`: calls by the thread that created the event.
enum class Comparison { never, always, outside_callbacks, by_creator };

/// The numbers of functions in the records of a central host, from 1. `none`: never recorded.
enum class CallNumber : unsigned {
    none,
#define CLDIST_CALL(function, ...) function,
#define CLDIST_PLAIN(function, ...)
#define CLDIST_EXTENSION CLDIST_CALL
#define CLDIST_ABSENT(function)
#include "cluster/calls/calls.def"
};

/// An OpenCL function in the platform's dispatch table.
struct Call {
    static constexpr std::size_t most_arguments = 14;
    static constexpr std::size_t most_values = 12;
    /// The element of `values` for all addresses: a mask with a bit for each NULL.
    static constexpr std::size_t addresses = most_arguments;

    constexpr Call(std::string_view the_function, Comparison the_comparison,
                   std::initializer_list<Argument> list, CallNumber the_number = CallNumber::none)
        : function(the_function),
          comparison(the_comparison),
          number(the_number),
          hash(hash_of(function)),
          count(list.size()) {
        std::copy(list.begin(), list.end(), arguments.begin());
        bool has_addresses = false;
        for (std::size_t i = 0; i < count; ++i) {
            Argument &argument = arguments[i];
            // An array of lengths has as many elements as the texts or blobs that refer to it.
            for (const Argument &other : arguments)
                if (argument.kind == Argument::Kind::lengths && other.lengths == argument.name)
                    argument.of = other.of;
            if (!argument.of.empty()) argument.of_place = place(argument.of);
            if (!argument.lengths.empty()) argument.lengths_place = place(argument.lengths);
            hash = hash_of(argument.name, hash_of(",", hash));
            if (argument.is_valued()) values[value_count++] = i;
            has_addresses = has_addresses || argument.is_address();
        }
        if (has_addresses) values[value_count++] = addresses;
    }

    /// The index of the argument with that name. Does not compile if there is none.
    [[nodiscard]] constexpr std::size_t place(std::string_view name) const {
        std::size_t i = 0;
        while (arguments.at(i).name != name) ++i;
        return i;
    }
    /// Whether a central host sends such calls to the other processes: calls that a replicated host
    /// compares, calls that change reference counts, and clFlush.
    [[nodiscard]] constexpr bool is_followed() const {
        return comparison != Comparison::never || function.starts_with("clRetain") ||
               function.starts_with("clRelease") || function == "clFlush";
    }
    /// Whether it enqueues a command. The queue is then its first argument.
    [[nodiscard]] constexpr bool enqueues() const { return function.starts_with("clEnqueue"); }

    std::string_view function;
    Comparison comparison;
    CallNumber number;
    std::uint64_t hash;  ///< of the names of the function and its arguments
    std::size_t count;
    std::array<Argument, most_arguments> arguments{};
    std::size_t value_count = 0;
    /// The values that are recorded of a call: indices of arguments, and `addresses` at the end.
    std::array<std::size_t, most_values> values{};
};

/// The functions that calls.def uses for arguments, and a constant `Call` for each OpenCL function.
namespace calls {

using Kind = Argument::Kind;
using enum Comparison;

#define CLDIST_ARGUMENT(kind) \
    constexpr Argument kind(std::string_view name) { return {Kind::kind, name}; }
#define CLDIST_ARGUMENT_OF(kind)                                          \
    constexpr Argument kind(std::string_view name, std::string_view of) { \
        return {Kind::kind, name, of};                                    \
    }
CLDIST_ARGUMENT(object)
CLDIST_ARGUMENT(scalar)
CLDIST_ARGUMENT(status)
CLDIST_ARGUMENT(count)
CLDIST_ARGUMENT(lengths)
CLDIST_ARGUMENT(triple)
CLDIST_ARGUMENT(text)
CLDIST_ARGUMENT(pairs)
CLDIST_ARGUMENT(list)
CLDIST_ARGUMENT(first)
CLDIST_ARGUMENT(image_format)
CLDIST_ARGUMENT(image_desc)
CLDIST_ARGUMENT(box)
CLDIST_ARGUMENT(pixels)
CLDIST_ARGUMENT(callback)
CLDIST_ARGUMENT(out)
CLDIST_ARGUMENT(code)
CLDIST_ARGUMENT_OF(capacity)
CLDIST_ARGUMENT_OF(objects)
CLDIST_ARGUMENT_OF(wait_list)
CLDIST_ARGUMENT_OF(range)
CLDIST_ARGUMENT_OF(region)
CLDIST_ARGUMENT_OF(kernel_argument)
CLDIST_ARGUMENT_OF(mapping)
CLDIST_ARGUMENT_OF(bytes)
CLDIST_ARGUMENT_OF(pattern)
CLDIST_ARGUMENT_OF(color)
CLDIST_ARGUMENT_OF(user_data)
#undef CLDIST_ARGUMENT
#undef CLDIST_ARGUMENT_OF
constexpr Argument texts(std::string_view name, std::string_view of,
                         std::string_view lengths = {}) {
    return {Kind::texts, name, of, lengths};
}
constexpr Argument blobs(std::string_view name, std::string_view of, std::string_view lengths) {
    return {Kind::blobs, name, of, lengths};
}

#define CLDIST_CALL(function, entry, comparison, ...) \
    inline constexpr Call function{#function, comparison, {__VA_ARGS__}, CallNumber::function};
#define CLDIST_PLAIN(function, entry, ...) \
    inline constexpr Call function{#function, never, {__VA_ARGS__}};
#define CLDIST_EXTENSION CLDIST_CALL
#define CLDIST_ABSENT(function)
#include "cluster/calls/calls.def"

}  // namespace calls

/// Whether a process may leave out such a command on bound buffers (CL/cl_ext_attach.h).
constexpr bool can_be_left_out(const Call &call) {
    constexpr std::array<std::string_view, 7> all{
        "clEnqueueNDRangeKernel",  "clEnqueueTask",       "clEnqueueCopyBuffer",
        "clEnqueueCopyBufferRect", "clEnqueueFillBuffer", "clEnqueueWriteBuffer",
        "clEnqueueWriteBufferRect"};
    return std::ranges::find(all, call.function) != all.end();
}

/// Recorded as the last call at the end of the program.
inline constexpr Call program_end{"the end of the program", Comparison::always, {}};

}  // namespace cldist::cluster
