// The arguments of kernels.
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "cluster/api/call_arguments.hpp"
#include "cluster/api/checks.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/handles.hpp"

namespace cldist::cluster {
namespace {

enum class ArgumentKind { value, memory, sampler, local };

bool starts_with(const std::string &text, std::string_view with) {
    return text.compare(0, with.size(), with) == 0;
}

ArgumentKind kind_of(const KernelInfo &info, cl_uint index, std::size_t size, const void *value) {
    if (!info.arguments.empty()) {
        const ArgumentInfo &argument = info.arguments[index];
        if (argument.address == CL_KERNEL_ARG_ADDRESS_LOCAL) return ArgumentKind::local;
        if (argument.address != CL_KERNEL_ARG_ADDRESS_PRIVATE ||
            argument.access != CL_KERNEL_ARG_ACCESS_NONE)
            return ArgumentKind::memory;
        return argument.type == "sampler_t" ? ArgumentKind::sampler : ArgumentKind::value;
    }
    // Without argument information, only the value shows the kind.
    if (value == nullptr) return ArgumentKind::local;
    if (size != sizeof(void *)) return ArgumentKind::value;
    void *pointer = nullptr;
    std::memcpy(&pointer, value, sizeof pointer);
    const auto object = argument_objects().find(pointer);
    if (object == argument_objects().end()) return ArgumentKind::value;
    return object->second == Kind::memory ? ArgumentKind::memory : ArgumentKind::sampler;
}

// The size of a built-in type of OpenCL C in bytes; 0 for other types.
std::size_t size_of_type(std::string type) {
    if (starts_with(type, "unsigned ")) type = "u" + type.substr(9);
    constexpr std::array<std::pair<std::string_view, std::size_t>, 11> scalars = {{{"char", 1},
                                                                                   {"uchar", 1},
                                                                                   {"short", 2},
                                                                                   {"ushort", 2},
                                                                                   {"half", 2},
                                                                                   {"int", 4},
                                                                                   {"uint", 4},
                                                                                   {"float", 4},
                                                                                   {"long", 8},
                                                                                   {"ulong", 8},
                                                                                   {"double", 8}}};
    const std::size_t digits = type.find_first_of("0123456789");
    for (const auto &[name, size] : scalars) {
        if (type.substr(0, digits) != name) continue;
        if (digits == std::string::npos) return size;
        const std::string width = type.substr(digits);
        if (width == "3") return 4 * size;
        if (width == "2" || width == "4" || width == "8" || width == "16")
            return std::stoul(width) * size;
    }
    return 0;
}

void check_image_argument(const ArgumentInfo &argument, const MemObject *memory) {
    const bool wants_image = argument.access != CL_KERNEL_ARG_ACCESS_NONE;
    require(wants_image == (memory != nullptr && memory->is_image()) ||
                (!wants_image && memory == nullptr),
            CL_INVALID_MEM_OBJECT, "the argument is {}, but the memory object is {}",
            wants_image ? "an image" : "not an image", wants_image ? "not an image" : "an image");
    const bool reads = argument.access != CL_KERNEL_ARG_ACCESS_WRITE_ONLY;
    const bool writes = argument.access != CL_KERNEL_ARG_ACCESS_READ_ONLY;
    require(!wants_image || ((!reads || (memory->flags & CL_MEM_WRITE_ONLY) == 0) &&
                             (!writes || (memory->flags & CL_MEM_READ_ONLY) == 0)),
            CL_INVALID_ARG_VALUE, "the image's flags forbid what the kernel does with it");
}

KernelObject::Argument checked_argument(const KernelObject &kernel, cl_uint index, std::size_t size,
                                        const void *value) {
    const KernelInfo &info = *kernel.info;
    KernelObject::Argument argument;
    argument.set = true;
    argument.size = size;
    switch (kind_of(info, index, size, value)) {
        case ArgumentKind::local:
            require(value == nullptr, CL_INVALID_ARG_VALUE,
                    "arg_value is not NULL; expected NULL for an argument in local memory");
            require(size != 0, CL_INVALID_ARG_SIZE,
                    "arg_size is 0; expected the number of bytes of local memory");
            argument.is_local = true;
            return argument;
        case ArgumentKind::memory: {
            require(size == sizeof(cl_mem), CL_INVALID_ARG_SIZE,
                    "arg_size is {}; expected {}, the size of a cl_mem", size, sizeof(cl_mem));
            cl_mem memory = nullptr;
            if (value != nullptr) std::memcpy(&memory, value, sizeof memory);
            argument.is_memory = true;
            if (memory != nullptr) argument.memory = Weak<MemObject>(&memory_of(memory));
            if (!info.arguments.empty())
                check_image_argument(info.arguments[index], argument.memory.get());
            return argument;
        }
        case ArgumentKind::sampler: {
            require(size == sizeof(cl_sampler), CL_INVALID_ARG_SIZE,
                    "arg_size is {}; expected {}, the size of a cl_sampler", size,
                    sizeof(cl_sampler));
            require(value != nullptr, CL_INVALID_SAMPLER,
                    "arg_value is NULL; expected the address of a cl_sampler");
            cl_sampler sampler = nullptr;
            std::memcpy(&sampler, value, sizeof sampler);
            argument.sampler = Weak<SamplerObject>(&sampler_of(sampler));
            return argument;
        }
        default: break;
    }
    require(value != nullptr, CL_INVALID_ARG_VALUE,
            "arg_value is NULL; expected the address of the argument's value");
    const std::size_t known = info.arguments.empty() ? 0 : size_of_type(info.arguments[index].type);
    if (size == 0 || (known != 0 && known != size))
        fail(CL_INVALID_ARG_SIZE, "arg_size is {}, but argument {} has {} bytes", size, index,
             known);
    argument.value.assign(at(value, 0), at(value, size));
    return argument;
}

}  // namespace

RecordedValue recorded_value(cl_kernel kernel, cl_uint index, std::size_t size, const void *value) {
    using Form = RecordedValue::Form;
    if (value == nullptr) return {Form::null, 0};
    const KernelObject *const object = KernelObject::from(kernel);
    if (object == nullptr || index >= object->arguments.size()) return {Form::wrong_size, 0};
    const KernelInfo &info = *object->info;
    const ArgumentKind kind = kind_of(info, index, size, value);
    if (kind == ArgumentKind::memory || kind == ArgumentKind::sampler) {
        if (size != sizeof(void *)) return {Form::wrong_size, 0};
        const Head *handle = nullptr;
        std::memcpy(&handle, value, sizeof handle);
        const std::uint64_t number = number_of(handle);
        return {handle != nullptr && number == 0 ? Form::no_object : Form::object, number};
    }
    const std::size_t known = info.arguments.empty() ? 0 : size_of_type(info.arguments[index].type);
    if (kind == ArgumentKind::local || size == 0 || (known != 0 && known != size))
        return {Form::wrong_size, 0};
    return {Form::bytes, 0};
}

// The hash of a scalar's value, or the number of an object. 0 for other values: they may contain
// meaningless bytes, which differ between processes. Examples are the padding of structures and
// unset components of vectors.
std::uint64_t argument_hash(cl_kernel kernel, cl_uint index, std::size_t size, const void *value) {
    const RecordedValue recorded = recorded_value(kernel, index, size, value);
    if (recorded.form == RecordedValue::Form::object) return recorded.number;
    if (recorded.form != RecordedValue::Form::bytes) return 0;
    const KernelInfo &info = *KernelObject::from(kernel)->info;
    if (info.arguments.empty()) return 0;
    const std::string &type = info.arguments[index].type;
    const bool vector = type.find_first_of("0123456789") != std::string::npos;
    if (vector || size_of_type(type) != size) return 0;
    return hash_of({static_cast<const char *>(value), size});
}
void set_kernel_arg(cl_kernel kernel, cl_uint index, size_t size, const void *value) {
    KernelObject &object = kernel_of(kernel);
    if (index >= object.arguments.size())
        fail(CL_INVALID_ARG_INDEX, "arg_index is {}, but {} has {} arguments", index,
             object.info->name, object.arguments.size());
    object.set_argument(index, checked_argument(object, index, size, value));
}

}  // namespace cldist::cluster
