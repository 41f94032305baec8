#include "cluster/api/call_arguments.hpp"

#include <cstring>
#include <stdexcept>
#include <string_view>

#include "cluster/api/checks.hpp"

namespace cldist::cluster {
namespace {

using Word = std::uint64_t;

static_assert(sizeof(cl_context_properties) == sizeof(Word) &&
                  sizeof(cl_device_partition_property) == sizeof(Word) &&
                  sizeof(std::size_t) == sizeof(Word) && sizeof(void *) == sizeof(Word),
              "elements of lists are words");

constexpr std::size_t nowhere_size = std::size_t{1} << 20U;
/// Memory for results that no program reads.
Word nowhere() {
    alignas(16) static std::array<std::byte, nowhere_size> bytes;
    return reinterpret_cast<Word>(bytes.data());
}
/// As many zero bytes. Nothing overwrites them.
Word zeros() {
    alignas(16) static std::array<std::byte, nowhere_size> bytes;
    return reinterpret_cast<Word>(bytes.data());
}

/// A platform for arguments of which only the type is checked, and for invalid handles.
Word some_platform() {
    static _cl_platform_id platform{{&dispatch_table, Kind::platform}};
    return reinterpret_cast<Word>(&platform);
}
bool is_platform(Word property) {
    const auto *const platform = reinterpret_cast<cl_platform_id>(property);
    return platform != nullptr && platform->kind == Kind::platform;
}

Word object_with(Word number) { return reinterpret_cast<Word>(find_object(number)); }

/// One argument of a call.
struct Arg {
    const CallArguments &all;
    std::size_t at;

    [[nodiscard]] const Argument &what() const { return all.call.arguments[at]; }
    [[nodiscard]] Word word() const { return all.words[at]; }
    [[nodiscard]] bool is_null() const { return word() == 0; }
    template <typename T>
    [[nodiscard]] const T *pointer() const {
        return reinterpret_cast<const T *>(word());
    }
    /// The value of the argument that this one refers to (Argument::of); 0 if there is none.
    [[nodiscard]] Word of() const {
        return what().of_place != Argument::none ? all.words[what().of_place] : 0;
    }
    [[nodiscard]] const std::size_t *lengths() const {
        return what().lengths_place != Argument::none
                   ? reinterpret_cast<const std::size_t *>(all.words[what().lengths_place])
                   : nullptr;
    }
};

/// The argument that is being read from a record.
struct Taking {
    RecordReader &reader;
    ArgumentMemory &memory;
    Arg arg;
};

/// The functions for a kind of argument.
struct Row {
    Word (*compared)(const Arg &arg);
    void (*put)(RecordWriter &writer, const Arg &arg);
    Word (*take)(const Taking &from);
    /// How many elements or bytes the call reads through the argument, which is not NULL. A null
    /// function if it reads none.
    std::size_t (*elements)(const Arg &arg) = nullptr;
};

// ---- Single words ----

/// A row for a kind of which `number(arg)` is compared and recorded. `made` converts a recorded
/// number back.
template <auto number, auto made = nullptr>
constexpr Row word_row{number,
                       [](RecordWriter &writer, const Arg &arg) { writer.number(number(arg)); },
                       [](const Taking &from) {
                           const Word taken = from.reader.number();
                           if constexpr (made == nullptr)
                               return taken;
                           else
                               return made(from, taken);
                       }};

Word word(const Arg &arg) { return arg.word(); }
// The sign becomes the lowest bit, so that a small negative code is a small number.
Word signed_word(const Arg &arg) {
    return arg.word() << 1U ^ (arg.word() >> 63U != 0 ? ~Word{0} : 0);
}
Word with_sign(const Taking &, Word number) { return number >> 1U ^ (~(number & 1U) + 1); }
Word capacity_if_used(const Arg &arg) { return arg.of() != 0 ? arg.word() : 0; }
Word object_number(const Arg &arg) { return number_of(arg.pointer<Head>()); }
Word made_object(const Taking &, Word number) { return object_with(number); }

// For an address that a map returned, a record contains the mapping's number.
const Mapped *mapping_of(const Arg &arg) {
    MemObject *const memory = MemObject::from(typed<cl_mem>(arg.of()));
    return memory != nullptr ? memory->mapping(arg.pointer<void>()) : nullptr;
}
Word mapping_number(const Arg &arg) {
    const Mapped *const mapped = mapping_of(arg);
    return mapped != nullptr ? mapped->number : 0;
}

/// Whether an address is NULL. A user_data that goes to a callback may have any value and never
/// counts as NULL.
bool is_null(const Arg &arg) {
    return arg.is_null() && !(arg.what().kind == Argument::Kind::user_data && arg.of() != 0);
}
Word null_bit(const Arg &arg) { return Word{is_null(arg)} << arg.at; }
Word is_given(const Arg &arg) { return is_null(arg) ? 0 : 1; }
// In processes without the program, Answer does not write to param_value. The addresses that
// clGetProgramInfo reads there for CL_PROGRAM_BINARIES must be null.
Word made_address(const Taking &from, Word given) {
    if (given == 0) return 0;
    return from.arg.what().name == "param_value" ? zeros() : nowhere();
}

// ---- Lists of words ----

/// Returns a number for a list: that of its only element, or a hash.
template <typename Element>
Word number_of_list(std::size_t count, const Element &element) {
    if (count == 0) return 0;
    if (count == 1) return element(0);
    Word hash = count;
    for (std::size_t i = 0; i < count; ++i) hash = mixed(hash + element(i));
    return hash;
}

/// Returns null if the list is NULL. Two zeros, which end a list of any kind, follow the elements.
Word *take_words(const Taking &from) {
    const auto there = from.reader.elements();
    if (!there) return nullptr;
    from.memory.elements[from.arg.at] = *there;
    Word *const words = from.memory.make<Word>(*there + 2);
    for (std::size_t i = 0; i < *there; ++i) words[i] = from.reader.number();
    words[*there] = words[*there + 1] = 0;
    return words;
}

std::size_t as_many_as_named(const Arg &arg) { return arg.of(); }

/// A row for a list of `count(arg)` elements, of which `element(arg, i)` is compared and recorded.
/// `made` converts the recorded words to the argument.
template <auto count, auto element, auto made = nullptr>
constexpr Row list_row{[](const Arg &arg) {
                           if (arg.is_null()) return count == as_many_as_named ? arg.of() : 0;
                           return number_of_list(count(arg),
                                                 [&](std::size_t i) { return element(arg, i); });
                       },
                       [](RecordWriter &writer, const Arg &arg) {
                           const std::size_t elements = arg.is_null() ? 0 : count(arg);
                           writer.number(arg.is_null() ? 0 : elements + 1);
                           for (std::size_t i = 0; i < elements; ++i)
                               writer.number(element(arg, i));
                       },
                       [](const Taking &from) {
                           Word *const words = take_words(from);
                           if constexpr (made != nullptr)
                               if (words != nullptr) return made(from, words);
                           return reinterpret_cast<Word>(words);
                       },
                       count};

// An invalid number of dimensions counts as 0.
std::size_t dimensions(const Arg &arg) { return arg.of() <= 3 ? arg.of() : 0; }
std::size_t three(const Arg &) { return 3; }
std::size_t one(const Arg &) { return 1; }
std::size_t up_to_zero(const Arg &arg) {
    std::size_t count = 0;
    while (arg.pointer<Word>()[count] != 0) ++count;
    return count;
}
Word element(const Arg &arg, std::size_t i) { return arg.pointer<Word>()[i]; }

Word object_at(const Arg &arg, std::size_t i) { return number_of(arg.pointer<const Head *>()[i]); }
Word made_objects(const Taking &from, Word *words) {
    for (std::size_t i = 0; i < from.memory.elements[from.arg.at]; ++i)
        words[i] = object_with(words[i]);
    return reinterpret_cast<Word>(words);
}

std::size_t pairs_read(const Arg &arg) { return elements_read(arg.pointer<void>()); }
// A platform's address differs between processes.
bool is_platform_value(const Arg &arg, std::size_t i) {
    return i % 2 == 1 && element(arg, i - 1) == CL_CONTEXT_PLATFORM;
}
Word compared_of_pairs(const Arg &arg, std::size_t i) {
    return is_platform_value(arg, i) ? 0 : element(arg, i);
}
Word recorded_of_pairs(const Arg &arg, std::size_t i) {
    return is_platform_value(arg, i) ? Word{is_platform(element(arg, i))} : element(arg, i);
}
Word made_pairs(const Taking &, Word *words) {
    for (std::size_t i = 0; words[i] != 0; i += 2)
        if (words[i] == CL_CONTEXT_PLATFORM && words[i + 1] != 0) words[i + 1] = some_platform();
    return reinterpret_cast<Word>(words);
}

constexpr std::array image_sizes{
    &cl_image_desc::image_width,     &cl_image_desc::image_height,
    &cl_image_desc::image_depth,     &cl_image_desc::image_array_size,
    &cl_image_desc::image_row_pitch, &cl_image_desc::image_slice_pitch};
std::size_t parts_of_desc(const Arg &) { return image_sizes.size() + 4; }
// The parts of an image's descriptor that a call reads. The last part is 0 without a memory object.
// Otherwise it is 1 plus the object's number, or 1 if images of this type are not created from
// memory objects.
Word part_of_desc(const Arg &arg, std::size_t i) {
    const cl_image_desc desc = as_read(*arg.pointer<cl_image_desc>());
    if (i == 0) return desc.image_type;
    if (i <= image_sizes.size()) return desc.*image_sizes[i - 1];
    if (i == image_sizes.size() + 1) return desc.num_mip_levels;
    if (i == image_sizes.size() + 2) return desc.num_samples;
    if (desc.buffer == nullptr) return 0;
    return (may_be_of_memory(desc.image_type) ? number_of(desc.buffer) : 0) + 1;
}
Word made_desc(const Taking &from, Word *words) {
    if (from.memory.elements[from.arg.at] != parts_of_desc(from.arg))
        throw std::out_of_range("a record lacks a part of an image's descriptor");
    auto *const desc = new (from.memory.make<cl_image_desc>(1)) cl_image_desc{};
    desc->image_type = static_cast<cl_mem_object_type>(*words++);
    for (std::size_t cl_image_desc::*const member : image_sizes) desc->*member = *words++;
    desc->num_mip_levels = static_cast<cl_uint>(*words++);
    desc->num_samples = static_cast<cl_uint>(*words++);
    if (*words != 0) {
        const Word parent = object_with(*words - 1);
        desc->buffer = typed<cl_mem>(parent != 0 ? parent : some_platform());
    }
    return reinterpret_cast<Word>(desc);
}

// ---- Texts and bytes ----

void put_bytes(RecordWriter &writer, std::string_view bytes, bool is_null) {
    writer.number(is_null ? 0 : bytes.size() + 1);
    writer.bytes(bytes.data(), bytes.size());
}
/// A 0 follows the bytes.
Word take_bytes(const Taking &from, std::size_t &size) {
    const auto there = from.reader.elements();
    if (!there) return 0;
    size = *there;
    std::byte *const bytes = from.memory.bytes(size + 1);
    const auto taken = from.reader.bytes(size);
    std::copy(taken.begin(), taken.end(), bytes);
    bytes[size] = std::byte{0};
    return reinterpret_cast<Word>(bytes);
}

/// A row for a kind of which a record contains `size(arg)` bytes.
template <auto size, auto compared>
constexpr Row bytes_row{
    compared,
    [](RecordWriter &writer, const Arg &arg) {
        put_bytes(writer, {arg.pointer<char>(), arg.is_null() ? 0 : size(arg)}, arg.is_null());
    },
    [](const Taking &from) { return take_bytes(from, from.memory.elements[from.arg.at]); }, size};

std::size_t length(const Arg &arg) { return std::strlen(arg.pointer<char>()); }
Word text_hash(const Arg &arg) { return arg.is_null() ? 0 : hash_of(arg.pointer<char>()); }

std::size_t region_size(const Arg &arg) {
    return arg.of() == CL_BUFFER_CREATE_TYPE_REGION ? sizeof(cl_buffer_region) : 0;
}
Word region_number(const Arg &arg) {
    if (arg.is_null() || region_size(arg) == 0) return 0;
    const auto &region = *arg.pointer<cl_buffer_region>();
    return mixed(mixed(region.origin) + region.size);
}
std::size_t format_size(const Arg &) { return sizeof(cl_image_format); }
Word format_number(const Arg &arg) {
    if (arg.is_null()) return 0;
    const auto &format = *arg.pointer<cl_image_format>();
    return Word{format.image_channel_order} << 16U ^ format.image_channel_data_type;
}
// The fill color of a depth image has one component.
std::size_t color_size(const Arg &arg) {
    const MemObject *const image = MemObject::from(typed<cl_mem>(arg.of()));
    if (image == nullptr || !image->is_image()) return 0;
    return (image->format.image_channel_order == CL_DEPTH ? 1 : 4) * sizeof(cl_uint);
}
// If the call rejects the pattern's size, the record contains no bytes of it.
std::size_t pattern_bytes(const Arg &arg) { return is_pattern_size(arg.of()) ? arg.of() : 0; }

// ---- Rare kinds ----

/// Returns the text or blob `i`; empty if it is NULL. A text without a length ends before its 0.
std::string_view text_at(const Arg &arg, std::size_t i) {
    const char *const bytes = arg.pointer<const char *>()[i];
    if (bytes == nullptr) return {};
    const std::size_t length = arg.lengths() != nullptr ? arg.lengths()[i] : 0;
    const bool to_its_end = length == 0 && arg.what().kind == Argument::Kind::texts;
    return to_its_end ? std::string_view(bytes) : std::string_view(bytes, length);
}
constexpr Row texts{
    [](const Arg &arg) {
        if (arg.is_null()) return arg.of();
        return number_of_list(arg.of(), [&](std::size_t i) {
            return arg.pointer<const char *>()[i] != nullptr ? hash_of(text_at(arg, i)) : 0;
        });
    },
    [](RecordWriter &writer, const Arg &arg) {
        writer.number(arg.is_null() ? 0 : arg.of() + 1);
        for (std::size_t i = 0; !arg.is_null() && i < arg.of(); ++i)
            put_bytes(writer, text_at(arg, i), arg.pointer<const char *>()[i] == nullptr);
    },
    [](const Taking &from) {
        const auto there = from.reader.elements();
        if (!there) return Word{0};
        from.memory.elements[from.arg.at] = *there;
        from.memory.sizes.assign(*there, 0);
        Word *const all = from.memory.make<Word>(*there);
        for (std::size_t i = 0; i < *there; ++i) all[i] = take_bytes(from, from.memory.sizes[i]);
        return reinterpret_cast<Word>(all);
    },
    as_many_as_named};

// The arguments of clSetKernelArg: the kernel, the index, the size, the value.
constexpr Row kernel_argument{
    [](const Arg &arg) {
        return argument_hash(typed<cl_kernel>(arg.all.words[0]),
                             static_cast<cl_uint>(arg.all.words[1]), arg.of(), arg.pointer<void>());
    },
    [](RecordWriter &writer, const Arg &arg) {
        const RecordedValue recorded =
            recorded_value(typed<cl_kernel>(arg.all.words[0]),
                           static_cast<cl_uint>(arg.all.words[1]), arg.of(), arg.pointer<void>());
        writer.number(static_cast<Word>(recorded.form));
        if (recorded.form == RecordedValue::Form::object) writer.number(recorded.number);
        if (recorded.form == RecordedValue::Form::bytes)
            writer.bytes(arg.pointer<void>(), arg.of());
    },
    [](const Taking &from) {
        using Form = RecordedValue::Form;
        const auto form = static_cast<Form>(from.reader.number());
        const std::size_t size = from.arg.of();
        if (form == Form::null) return Word{0};
        if (form == Form::object || form == Form::no_object) {
            Word *const handle = from.memory.make<Word>(1);
            *handle = form == Form::object ? object_with(from.reader.number()) : some_platform();
            return reinterpret_cast<Word>(handle);
        }
        if (form == Form::bytes) {
            const auto taken = from.reader.bytes(size);
            return reinterpret_cast<Word>(
                std::copy(taken.begin(), taken.end(), from.memory.bytes(size)) - size);
        }
        return nowhere();  // the call is refused before it reads the value
    }};

// Mappings of one range may share an address in one process and not in another. It does not matter
// which of them ends, so the range is compared.
Word mapped_range(const Arg &arg) {
    const Mapped *const mapped = mapping_of(arg);
    if (mapped == nullptr) return 0;
    const auto &[x, y, z] = mapped->origin;
    const auto &[width, height, depth] = mapped->region;
    const std::array<Word, 10> parts{mapped->device_memory,
                                     mapped->begin,
                                     mapped->end,
                                     mapped->flags,
                                     x,
                                     y,
                                     z,
                                     width,
                                     height,
                                     depth};
    return number_of_list(parts.size(), [&](std::size_t i) { return parts[i]; });
}

// ---- The table ----

constexpr Row numbers = word_row<word>;
constexpr Row objects = list_row<as_many_as_named, object_at, made_objects>;
constexpr Row address{null_bit, word_row<is_given>.put, word_row<is_given, made_address>.take};

// In the order of Argument::Kind.
constexpr std::array rows{
    word_row<object_number, made_object>,                                         // object
    numbers,                                                                      // scalar
    word_row<capacity_if_used>,                                                   // capacity
    Row{word, word_row<signed_word>.put, word_row<signed_word, with_sign>.take},  // status
    numbers,                                                                      // count
    list_row<as_many_as_named, element>,                                          // lengths
    objects,                                                                      // objects
    objects,                                                                      // wait_list
    list_row<dimensions, element>,                                                // range
    list_row<three, element>,                                                     // triple
    bytes_row<length, text_hash>,                                                 // text
    texts,                                                                        // texts
    texts,                                                                        // blobs
    Row{list_row<pairs_read, compared_of_pairs>.compared,
        list_row<pairs_read, recorded_of_pairs>.put,
        list_row<pairs_read, recorded_of_pairs, made_pairs>.take, pairs_read},  // pairs
    list_row<up_to_zero, element>,                                              // list
    list_row<one, element>,                                                     // first
    bytes_row<region_size, region_number>,                                      // region
    bytes_row<format_size, format_number>,                                      // image_format
    list_row<parts_of_desc, part_of_desc, made_desc>,                           // image_desc
    kernel_argument,                                                            // kernel_argument
    Row{mapped_range, word_row<mapping_number>.put, word_row<mapping_number>.take},  // mapping
    address,                                                                         // bytes
    bytes_row<pattern_bytes, null_bit>,                                              // pattern
    address,                                                                         // box
    address,                                                                         // pixels
    bytes_row<color_size, null_bit>,                                                 // color
    address,                                                                         // callback
    address,                                                                         // user_data
    address,                                                                         // out
    Row{nullptr, [](RecordWriter &, const Arg &) {},
        [](const Taking &) { return nowhere(); }},  // code
};
static_assert(rows.size() == std::size_t(Argument::Kind::code) + 1);

const Row &row_of(const Argument &argument) {
    return rows[static_cast<std::size_t>(argument.kind)];
}

}  // namespace

std::size_t elements_read(const void *list) {
    const auto is_known = [](Word name) {
        constexpr std::array<Word, 6> known{
            CL_CONTEXT_PLATFORM,          CL_CONTEXT_INTEROP_USER_SYNC, CL_QUEUE_PROPERTIES,
            CL_SAMPLER_NORMALIZED_COORDS, CL_SAMPLER_ADDRESSING_MODE,   CL_SAMPLER_FILTER_MODE};
        return std::ranges::find(known, name) != known.end();
    };
    const auto *const words = static_cast<const Word *>(list);
    if (words == nullptr) return 0;
    std::size_t count = 0;
    while (is_known(words[count])) count += 2;
    return count + 1;
}

std::uint64_t compared(const CallArguments &arguments, std::size_t at) {
    const Call &call = arguments.call;
    if (at != Call::addresses) return row_of(call.arguments[at]).compared({arguments, at});
    Word nulls = 0;
    for (std::size_t i = 0; i < call.count; ++i)
        if (call.arguments[i].is_address()) nulls |= null_bit({arguments, i});
    return nulls;
}

ComparedValues::ComparedValues(const CallArguments &arguments) : count(arguments.call.value_count) {
    for (std::size_t i = 0; i < count; ++i)
        values[i] = compared(arguments, arguments.call.values[i]);
}

void put_call(RecordWriter &writer, const CallArguments &arguments) {
    const Call &call = arguments.call;
    writer.number(static_cast<Word>(call.number));
    for (std::size_t i = 0; i < call.count; ++i)
        row_of(call.arguments[i]).put(writer, {arguments, i});
}

CallArguments take_call(const Call &call, RecordReader &reader, ArgumentMemory &memory) {
    CallArguments arguments(call);
    for (std::size_t i = 0; i < call.count; ++i)
        arguments.words[i] = row_of(call.arguments[i]).take({reader, memory, {arguments, i}});
    for (std::size_t i = 0; i < call.count; ++i) {
        const Arg arg{arguments, i};
        const Row &row = row_of(arg.what());
        if (row.elements == nullptr || arg.is_null()) continue;
        bool there = memory.elements[i] == row.elements(arg);
        for (std::size_t each = 0; arg.lengths() != nullptr && there && each < memory.sizes.size();
             ++each)
            there = arg.pointer<const void *>()[each] == nullptr ||
                    arg.lengths()[each] <= memory.sizes[each];
        if (!there) throw std::out_of_range("a record has another number of elements than it says");
    }
    return arguments;
}

}  // namespace cldist::cluster
