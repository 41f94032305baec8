/// What calls.def says of OpenCL's functions.
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

/// An argument of a function: what it is, and what else must be known to copy it.
struct Argument {
    enum class Kind : unsigned char {
        // Compared between the processes:
        object,  ///< a handle, by the object's number
        scalar,  ///< a number
        /// A number of bytes or elements for which there is room; meaningless where that is NULL.
        capacity,
        status,  ///< 0 or a negative code
        count,   ///< of elements of the arrays that name it; compared with these
        /// Of the texts or blobs that name it, an array of sizes; compared with these.
        lengths,
        objects,    ///< an array of handles
        wait_list,  ///< an array of events
        range,      ///< an array of sizes; of more than three none is looked at
        triple,     ///< three sizes
        text,       ///< up to its 0
        /// An array of texts, of these lengths or, where they are 0 or not there, up to their 0.
        texts,
        blobs,  ///< an array of blocks of bytes
        pairs,  ///< a property list: names and values, up to a name that is 0 or unknown
        list,   ///< values up to one that is 0
        /// A property list of which the first name says all: there are no such properties.
        first,
        region,        ///< a cl_buffer_region, if the argument that it names says so
        image_format,  ///< a cl_image_format
        image_desc,    ///< a cl_image_desc, of which the image's type says what is read
        /// A scalar's bytes or an object's number; of other values nothing: see cluster.md.
        kernel_argument,
        mapping,  ///< an address that a map of the object returned, by the mapping's number
        // Only whether it is NULL is compared:
        bytes,     ///< the program's memory, of so many bytes
        pattern,   ///< the same, if there are patterns of that size
        box,       ///< the program's memory, as region, origin and pitches say
        pixels,    ///< the program's memory, as the image's region and pitches say
        color,     ///< four components, or one if the image has depths
        callback,  ///< a function of the program's
        /// An address of the program's, handed back to its function; without that it must be NULL.
        user_data,
        out,  ///< where something is written
        // Not compared:
        code,  ///< where the code is written
    };
    Kind kind = Kind::code;
    std::string_view name{};
    /// The argument that says how many elements or bytes there are, or of what, or for what.
    std::string_view of{};
    std::string_view lengths{};  ///< the argument that says how long each element is

    static constexpr std::size_t none = ~std::size_t{0};
    std::size_t of_place = none;       ///< the place of `of` in the call
    std::size_t lengths_place = none;  ///< the place of `lengths`

    /// Whether the log has a number for it.
    [[nodiscard]] constexpr bool is_valued() const {
        return kind < Kind::bytes && kind != Kind::count && kind != Kind::lengths;
    }
    /// Whether only its being NULL is recorded.
    [[nodiscard]] constexpr bool is_address() const {
        return kind >= Kind::bytes && kind != Kind::code;
    }
};

/// When all processes must make the same calls. Callbacks come at another moment in each process,
/// and so may the threads that set user events; these may set them, release objects and, in a
/// callback, ask for the state of its event.
enum class Comparison { never, always, outside_callbacks, by_creator };

/// The numbers of functions in records, from 1. `none` is for calls that are never recorded for
/// other processes.
enum class CallNumber : unsigned {
    none,
#define CLDIST_CALL(function, ...) function,
#define CLDIST_PLAIN(function, ...)
#define CLDIST_EXTENSION CLDIST_CALL
#define CLDIST_ABSENT(function)
#include "cluster/calls/calls.def"
};

/// A function whose calls are made through the platform's table.
struct Call {
    static constexpr std::size_t most_arguments = 14;
    static constexpr std::size_t most_values = 12;
    /// The place in `values` of the addresses: a bit for each that is NULL.
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
            // The texts or blobs that name an array of lengths say how many there are.
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

    /// The place of the argument with that name. Does not compile if there is none.
    [[nodiscard]] constexpr std::size_t place(std::string_view name) const {
        std::size_t i = 0;
        while (arguments.at(i).name != name) ++i;
        return i;
    }
    /// Whether a central host sends such calls to the other processes: what is compared in a
    /// replicated host, and what an object's life depends on.
    [[nodiscard]] constexpr bool is_followed() const {
        return comparison != Comparison::never || function.starts_with("clRetain") ||
               function.starts_with("clRelease") || function == "clFlush";
    }
    /// Whether it enqueues a command in the queue that is its first argument.
    [[nodiscard]] constexpr bool enqueues() const { return function.starts_with("clEnqueue"); }

    std::string_view function;
    Comparison comparison;
    CallNumber number;
    std::uint64_t hash;  ///< of the texts: addresses differ between processes
    std::size_t count;
    std::array<Argument, most_arguments> arguments{};
    std::size_t value_count = 0;
    /// What a call is recorded by: places of arguments, `addresses`.
    std::array<std::size_t, most_values> values{};
};

/// How calls.def writes arguments.
namespace calls {

using Kind = Argument::Kind;
using enum Comparison;

constexpr Argument object(std::string_view name) { return {Kind::object, name}; }
constexpr Argument scalar(std::string_view name) { return {Kind::scalar, name}; }
constexpr Argument capacity(std::string_view name, std::string_view of) {
    return {Kind::capacity, name, of};
}
constexpr Argument status(std::string_view name) { return {Kind::status, name}; }
constexpr Argument count(std::string_view name) { return {Kind::count, name}; }
constexpr Argument lengths(std::string_view name) { return {Kind::lengths, name}; }
constexpr Argument objects(std::string_view name, std::string_view of) {
    return {Kind::objects, name, of};
}
constexpr Argument wait_list(std::string_view name, std::string_view of) {
    return {Kind::wait_list, name, of};
}
constexpr Argument range(std::string_view name, std::string_view of) {
    return {Kind::range, name, of};
}
constexpr Argument triple(std::string_view name) { return {Kind::triple, name}; }
constexpr Argument text(std::string_view name) { return {Kind::text, name}; }
constexpr Argument texts(std::string_view name, std::string_view of,
                         std::string_view lengths = {}) {
    return {Kind::texts, name, of, lengths};
}
constexpr Argument blobs(std::string_view name, std::string_view of, std::string_view lengths) {
    return {Kind::blobs, name, of, lengths};
}
constexpr Argument pairs(std::string_view name) { return {Kind::pairs, name}; }
constexpr Argument list(std::string_view name) { return {Kind::list, name}; }
constexpr Argument first(std::string_view name) { return {Kind::first, name}; }
constexpr Argument region(std::string_view name, std::string_view of) {
    return {Kind::region, name, of};
}
constexpr Argument image_format(std::string_view name) { return {Kind::image_format, name}; }
constexpr Argument image_desc(std::string_view name) { return {Kind::image_desc, name}; }
constexpr Argument kernel_argument(std::string_view name, std::string_view of) {
    return {Kind::kernel_argument, name, of};
}
constexpr Argument mapping(std::string_view name, std::string_view of) {
    return {Kind::mapping, name, of};
}
constexpr Argument bytes(std::string_view name, std::string_view of) {
    return {Kind::bytes, name, of};
}
constexpr Argument pattern(std::string_view name, std::string_view of) {
    return {Kind::pattern, name, of};
}
constexpr Argument box(std::string_view name) { return {Kind::box, name}; }
constexpr Argument pixels(std::string_view name) { return {Kind::pixels, name}; }
constexpr Argument color(std::string_view name, std::string_view of) {
    return {Kind::color, name, of};
}
constexpr Argument callback(std::string_view name) { return {Kind::callback, name}; }
constexpr Argument user_data(std::string_view name, std::string_view of) {
    return {Kind::user_data, name, of};
}
constexpr Argument out(std::string_view name) { return {Kind::out, name}; }
constexpr Argument code(std::string_view name) { return {Kind::code, name}; }

#define CLDIST_CALL(function, entry, comparison, ...) \
    inline constexpr Call function{#function, comparison, {__VA_ARGS__}, CallNumber::function};
#define CLDIST_PLAIN(function, entry, ...) \
    inline constexpr Call function{#function, never, {__VA_ARGS__}};
#define CLDIST_EXTENSION CLDIST_CALL
#define CLDIST_ABSENT(function)
#include "cluster/calls/calls.def"

}  // namespace calls

/// Whether a process may leave such a command out if it has nothing to do for it
/// (CL/cl_ext_attach.h).
constexpr bool can_be_left_out(const Call &call) {
    constexpr std::array<std::string_view, 7> all{
        "clEnqueueNDRangeKernel",  "clEnqueueTask",       "clEnqueueCopyBuffer",
        "clEnqueueCopyBufferRect", "clEnqueueFillBuffer", "clEnqueueWriteBuffer",
        "clEnqueueWriteBufferRect"};
    return std::find(all.begin(), all.end(), call.function) != all.end();
}

/// Recorded as the last call when the program ends.
inline constexpr Call program_end{"the end of the program", Comparison::always, {}};

}  // namespace cldist::cluster
