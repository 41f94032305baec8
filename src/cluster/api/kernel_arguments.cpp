// The arguments of kernels.
#include <cstring>

#include "cluster/api/call_arguments.hpp"
#include "cluster/api/checks.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/handles.hpp"

namespace cldist::cluster {
namespace {

ArgumentKind kind_of(const KernelInfo &info, cl_uint index, std::size_t size, const void *value) {
    if (!info.arguments.empty()) return info.arguments[index].kind;
    // Without argument information, only the value shows the kind.
    if (value == nullptr) return ArgumentKind::local;
    if (size != sizeof(void *)) return ArgumentKind::value;
    void *pointer = nullptr;
    std::memcpy(&pointer, value, sizeof pointer);
    const auto object = argument_objects().find(pointer);
    if (object == argument_objects().end()) return ArgumentKind::value;
    return object->second == Kind::memory ? ArgumentKind::memory : ArgumentKind::sampler;
}

// The size of the argument's type in bytes; 0 if it is unknown.
std::size_t size_of(const KernelInfo &info, cl_uint index) {
    return info.arguments.empty() ? 0 : info.arguments[index].size;
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

void set_local(KernelObject &kernel, cl_uint index, std::size_t size, const void *value) {
    require(value == nullptr, CL_INVALID_ARG_VALUE,
            "arg_value is not NULL; expected NULL for an argument in local memory");
    require(size != 0, CL_INVALID_ARG_SIZE,
            "arg_size is 0; expected the number of bytes of local memory");
    kernel.set_argument(index, {.size = size, .is_local = true});
}

void set_memory(KernelObject &kernel, cl_uint index, std::size_t size, const void *value) {
    require(size == sizeof(cl_mem), CL_INVALID_ARG_SIZE,
            "arg_size is {}; expected {}, the size of a cl_mem", size, sizeof(cl_mem));
    cl_mem handle = nullptr;
    if (value != nullptr) std::memcpy(&handle, value, sizeof handle);
    MemObject *const memory = handle != nullptr ? &memory_of(handle) : nullptr;
    if (!kernel.info->arguments.empty())
        check_image_argument(kernel.info->arguments[index], memory);
    kernel.set_memory(index, memory);
}

void set_sampler(KernelObject &kernel, cl_uint index, std::size_t size, const void *value) {
    require(size == sizeof(cl_sampler), CL_INVALID_ARG_SIZE,
            "arg_size is {}; expected {}, the size of a cl_sampler", size, sizeof(cl_sampler));
    require(value != nullptr, CL_INVALID_SAMPLER,
            "arg_value is NULL; expected the address of a cl_sampler");
    cl_sampler sampler = nullptr;
    std::memcpy(&sampler, value, sizeof sampler);
    kernel.set_argument(index,
                        {.size = size, .sampler = Weak<SamplerObject>(&sampler_of(sampler))});
}

void set_value(KernelObject &kernel, cl_uint index, std::size_t size, const void *value) {
    require(value != nullptr, CL_INVALID_ARG_VALUE,
            "arg_value is NULL; expected the address of the argument's value");
    const std::size_t known = size_of(*kernel.info, index);
    if (size == 0 || (known != 0 && known != size))
        fail(CL_INVALID_ARG_SIZE, "arg_size is {}, but argument {} has {} bytes", size, index,
             known);
    kernel.set_value(index, {at(value, 0), size});
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
    const std::size_t known = size_of(info, index);
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
    const ArgumentInfo &argument = info.arguments[index];
    if (!argument.is_scalar || argument.size != size) return 0;
    return hash_of({static_cast<const char *>(value), size});
}

void set_kernel_arg(cl_kernel kernel, cl_uint index, size_t size, const void *value) {
    KernelObject &object = kernel_of(kernel);
    if (index >= object.arguments.size())
        fail(CL_INVALID_ARG_INDEX, "arg_index is {}, but {} has {} arguments", index,
             object.info->name, object.arguments.size());
    switch (kind_of(*object.info, index, size, value)) {
        case ArgumentKind::value: return set_value(object, index, size, value);
        case ArgumentKind::memory: return set_memory(object, index, size, value);
        case ArgumentKind::sampler: return set_sampler(object, index, size, value);
        case ArgumentKind::local: return set_local(object, index, size, value);
    }
}

}  // namespace cldist::cluster
