// Memory objects, except image functions.
#include <algorithm>

#include "cluster/api/answers.hpp"
#include "cluster/api/checks.hpp"
#include "cluster/api/enqueueing.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/handles.hpp"
#include "cluster/api/host_mode.hpp"
#include "cluster/api/record.hpp"

namespace cldist::cluster {
namespace {

constexpr cl_mem_flags device_access = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY;
constexpr cl_mem_flags host_access =
    CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS;
constexpr cl_mem_flags host_pointers =
    CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR;

bool at_most_one(cl_mem_flags flags) { return (flags & (flags - 1)) == 0; }

cl_mem make_buffer(cl_context context_handle, std::vector<cl_mem_properties> properties,
                   cl_mem_flags flags, size_t size, void *host_ptr) {
    ContextObject &context = context_of(context_handle);
    if (!properties.empty() && properties.front() != 0)
        fail(CL_INVALID_PROPERTY, "unknown buffer property {:#x}", properties.front());
    check_mem_flags(flags);
    if (size == 0 || size > context.largest_allocation)
        fail(CL_INVALID_BUFFER_SIZE, "the size is {} bytes; expected 1 to {}", size,
             context.largest_allocation);
    check_host_ptr(flags, host_ptr);
    flags = with_device_access(flags);

    const GivenContents given = host_mode().given_contents(context, flags, host_ptr, size);
    auto object = std::make_unique<MemObject>(context, given.flags, size);
    object->host_ptr = given.host_ptr;
    object->properties = std::move(properties);
    World &world = World::get();
    world.executor().objects().know(
        *object, host_ptr != nullptr ? Contents::everywhere : Contents::undefined);
    // Creates the native buffers now, because the program may change the bytes after the call.
    if (host_ptr != nullptr)
        in_all([&] {
            if (given.made_at_once) object->make_natives();
        });
    object->host_ptr = given.program_ptr;
    object->set_number(world.next_number());
    return object.release()->handle();
}

MemObject &root_buffer_of(cl_mem memory) {
    MemObject &buffer = memory_of(memory);
    require(!buffer.is_image(), CL_INVALID_MEM_OBJECT,
            "the memory object is an image; expected a buffer");
    require(!buffer.parent, CL_INVALID_MEM_OBJECT,
            "the buffer is a sub-buffer; bind its parent buffer instead");
    return buffer;
}

}  // namespace

cl_mem_flags with_device_access(cl_mem_flags flags) {
    return flags != 0 ? flags : CL_MEM_READ_WRITE;
}

void check_mem_flags(cl_mem_flags flags) {
    const bool known = (flags & ~(device_access | host_access | host_pointers)) == 0;
    require(known && at_most_one(flags & device_access) && at_most_one(flags & host_access) &&
                (flags & (CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR)) !=
                    (CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR) &&
                (flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR)) !=
                    (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR),
            CL_INVALID_VALUE,
            "flags is {:#x}, which contains unknown bits or flags that exclude each other", flags);
}

void check_host_ptr(cl_mem_flags flags, const void *host_ptr) {
    const bool needs_pointer = (flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR)) != 0;
    require(needs_pointer == (host_ptr != nullptr), CL_INVALID_HOST_PTR,
            "host_ptr is {}NULL, but flags ({:#x}) {} CL_MEM_USE_HOST_PTR or CL_MEM_COPY_HOST_PTR",
            host_ptr == nullptr ? "" : "not ", flags,
            needs_pointer ? "contains" : "does not contain");
}

cl_mem_flags inherited_flags(const MemObject &parent, cl_mem_flags flags) {
    require((flags & host_pointers) == 0 && at_most_one(flags & device_access) &&
                at_most_one(flags & host_access),
            CL_INVALID_VALUE,
            "flags is {:#x}, which contains unknown bits or flags that exclude each other", flags);
    if ((flags & device_access) == 0) flags |= parent.flags & device_access;
    if ((flags & host_access) == 0) flags |= parent.flags & host_access;
    const auto both = [&](cl_mem_flags of_parent, cl_mem_flags excluded) {
        return (parent.flags & of_parent) != 0 && (flags & excluded) != 0;
    };
    require(!both(CL_MEM_WRITE_ONLY, CL_MEM_READ_WRITE | CL_MEM_READ_ONLY) &&
                !both(CL_MEM_READ_ONLY, CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY) &&
                !both(CL_MEM_HOST_WRITE_ONLY, CL_MEM_HOST_READ_ONLY) &&
                !both(CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_WRITE_ONLY) &&
                !both(CL_MEM_HOST_NO_ACCESS, CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY),
            CL_INVALID_VALUE,
            "flags is {:#x}, which allows accesses that the buffer's flags ({:#x}) do not allow",
            flags, parent.flags);
    return flags | (parent.flags & host_pointers);
}

cl_mem create_buffer(cl_context context, cl_mem_flags flags, size_t size, void *host_ptr,
                     cl_int *) {
    return make_buffer(context, {}, flags, size, host_ptr);
}

cl_mem create_buffer_with_properties(cl_context context, const cl_mem_properties *properties,
                                     cl_mem_flags flags, size_t size, void *host_ptr, cl_int *) {
    std::vector<cl_mem_properties> list;
    if (properties != nullptr) list.push_back(properties[0]);
    return make_buffer(context, std::move(list), flags, size, host_ptr);
}

cl_mem create_sub_buffer(cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type,
                         const void *info, cl_int *) {
    MemObject &parent = memory_of(buffer);
    require(!parent.is_image() && !parent.parent, CL_INVALID_MEM_OBJECT,
            "the memory object is an image or a sub-buffer; expected a buffer");
    const cl_mem_flags all_flags = inherited_flags(parent, flags);
    require(type == CL_BUFFER_CREATE_TYPE_REGION && info != nullptr, CL_INVALID_VALUE,
            "buffer_create_type is {:#x} or buffer_create_info is NULL; expected "
            "CL_BUFFER_CREATE_TYPE_REGION and a region",
            type);
    const auto &region = *static_cast<const cl_buffer_region *>(info);
    require(region.size != 0, CL_INVALID_BUFFER_SIZE,
            "the size of the region is 0; expected at least 1");
    if (region.origin > parent.size || region.size > parent.size - region.origin)
        fail(CL_INVALID_VALUE,
             "the region of {1} bytes from byte {0} exceeds the buffer of {2} bytes", region.origin,
             region.size, parent.size);
    const auto &alignments = parent.context->sub_buffer_alignments;
    require(std::ranges::any_of(
                alignments, [&](std::size_t alignment) { return region.origin % alignment == 0; }),
            CL_MISALIGNED_SUB_BUFFER_OFFSET,
            "the region begins at byte {}, which is not aligned for any device of the context "
            "(CL_DEVICE_MEM_BASE_ADDR_ALIGN)",
            region.origin);
    MemObject *const object = make<MemObject>(*parent.context, all_flags, region.size);
    object->parent = Ref<MemObject>(&parent);
    object->origin = region.origin;
    if (parent.host_ptr != nullptr) object->host_ptr = at(parent.host_ptr, region.origin);
    parent.add_sub_buffer(*object);
    return object->handle();
}

void attach_buffer_to_device(cl_mem memory, cl_device_id device_handle) {
    MemObject &buffer = root_buffer_of(memory);
    const DeviceObject &device = device_of(device_handle);
    require(buffer.context->has(device), CL_INVALID_DEVICE,
            "the device does not belong to the buffer's context");
    if (device.is_aggregate()) return;  // there is no other device
    executor().attach(buffer, device.memory);
    // The warning about CL_MEM_USE_HOST_PTR memory needs to see all commands that use it.
    const bool is_own_affair =
        (buffer.flags & CL_MEM_USE_HOST_PTR) != 0 || device.process == World::get().self();
    buffer.set_homes({is_own_affair ? Home::here : Home::elsewhere});
}

void detach_buffer(cl_mem memory) {
    MemObject &buffer = root_buffer_of(memory);
    executor().detach(buffer);
    buffer.set_homes({});
}

CLDIST_REFERENCES(mem_object, cl_mem, memory_of)

void get_mem_object_info(cl_mem memory, cl_mem_info param, size_t size, void *value,
                         size_t *size_ret) {
    const MemObject &object = memory_of(memory);
    const Answer answer{size, value, size_ret};
    switch (param) {
        case CL_MEM_TYPE: return answer.give(object.type);
        case CL_MEM_FLAGS: return answer.give(object.flags);
        case CL_MEM_SIZE: return answer.give(object.size);
        case CL_MEM_HOST_PTR:
            return answer.give((object.flags & CL_MEM_USE_HOST_PTR) != 0 ? object.host_ptr
                                                                         : nullptr);
        case CL_MEM_MAP_COUNT: return answer.give(static_cast<cl_uint>(object.mappings.size()));
        case CL_MEM_REFERENCE_COUNT: return answer.give(object.references());
        case CL_MEM_CONTEXT: return answer.give(object.context->handle());
        case CL_MEM_ASSOCIATED_MEMOBJECT:
            return answer.give(object.parent ? object.parent->handle()
                                             : static_cast<cl_mem>(nullptr));
        case CL_MEM_OFFSET: return answer.give(object.is_image() ? std::size_t{0} : object.origin);
        case CL_MEM_USES_SVM_POINTER: return answer.give(cl_bool{CL_FALSE});
        case CL_MEM_PROPERTIES: return answer.list(object.properties);
        default: no_such_param(param);
    }
}

// The platform does not support pipes.
void get_pipe_info(cl_mem memory, cl_pipe_info, size_t, void *, size_t *) {
    memory_of(memory);
    fail(CL_INVALID_MEM_OBJECT, "the memory object is not a pipe");
}

void set_mem_object_destructor_callback(cl_mem memory, void(CL_CALLBACK *notify)(cl_mem, void *),
                                        void *user_data) {
    MemObject &object = memory_of(memory);
    require(notify != nullptr, CL_INVALID_VALUE, "pfn_notify is NULL");
    object.destruction->callbacks.emplace_back(notify, user_data);
}

}  // namespace cldist::cluster
