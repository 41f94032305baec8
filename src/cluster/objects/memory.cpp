#include "cluster/objects/memory.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "ocl/query.hpp"
#include "ocl/quirks.hpp"

namespace cldist::cluster {
namespace {

void CL_CALLBACK release_destruction(cl_mem, void *held) {
    delete static_cast<std::shared_ptr<MemObject::Destruction> *>(held);
}

// Enqueues a command that uses the buffer without moving data.
void use(cl_mem buffer, Space &space) {
    const std::shared_ptr<const QueueInfo> queue = space.queue_of_transfer();
    check(clEnqueueMigrateMemObjects(queue->queue, 1, &buffer, 0, 0, nullptr, nullptr),
          "clEnqueueMigrateMemObjects");
    flush_if_needed(queue->queue);
}

}  // namespace

void MappedMemory::add(const Mapped &mapped) {
    const auto *const begin = static_cast<const std::byte *>(mapped.memory);
    if (ranges_.empty()) longest_ = 0;
    longest_ = std::max(longest_, mapped.size);
    ranges_.emplace(begin, Range{begin + mapped.size, mapped.kept});
}

void MappedMemory::remove(const Mapped &mapped) {
    const auto *const begin = static_cast<const std::byte *>(mapped.memory);
    for (auto at = ranges_.lower_bound(begin); at != ranges_.end() && at->first == begin; ++at) {
        if (at->second.end != begin + mapped.size) continue;
        ranges_.erase(at);
        return;
    }
}

std::shared_ptr<const void> MappedMemory::keeper_of(const void *address) const {
    if (ranges_.empty()) return nullptr;
    const auto *const wanted = static_cast<const std::byte *>(address);
    const auto place = reinterpret_cast<std::uintptr_t>(address);
    const auto *const from = reinterpret_cast<const std::byte *>(place - std::min(place, longest_));
    for (auto at = ranges_.lower_bound(from); at != ranges_.end() && at->first <= wanted; ++at)
        if (wanted < at->second.end) return at->second.kept;
    return nullptr;
}

MappedMemory &mapped_memory() {
    static auto &all = *new MappedMemory;
    return all;
}

MemObject::MemObject(ContextObject &context_in, cl_mem_flags flags_in, std::size_t size_in)
    : context(&context_in), flags(flags_in), size(size_in) {
    argument_objects().emplace(handle(), Kind::memory);
}

MemObject::~MemObject() {
    argument_objects().erase(handle());
    for (Mapped &mapped : mappings) {
        mapped_memory().remove(mapped);
        mapped.kept = nullptr;
    }
    // A sub-buffer is bound together with its root.
    if (homes().home != Home::none) ++version_of_homes;
    if (keeper != nullptr) keeper->forget(*this);
    if (parent) parent->has_lost_sub_buffers_ |= std::erase(parent->sub_buffers_, this) != 0;
    if (destruction->callbacks.empty()) return;
    for (const Native &native : natives_) {
        auto held = std::make_unique<std::shared_ptr<Destruction>>(destruction);
        if (clSetMemObjectDestructorCallback(native.mem.get(), release_destruction, held.get()) ==
            CL_SUCCESS)
            (void)held.release();
    }
    natives_.clear();
    if (destruction.use_count() > 1) return;  // the last holder has the callbacks called
    call_at_end(destruction->callbacks, handle(), call_later);
    destruction->callbacks.clear();
}

MemObject::Native *MemObject::find_native(const Space &space) {
    const auto at = std::ranges::find(natives_, &space, &Native::space);
    return at == natives_.end() ? nullptr : &*at;
}

cl_mem MemObject::native(Space &space) {
    if (const Native *const made = find_native(space)) return made->mem.get();
    if (parent) {
        parent->native(space);  // also creates those of its sub-buffers
        if (const Native *const made = find_native(space)) return made->mem.get();
    }
    natives_.push_back({&space, make_native(space)});
    const cl_mem mem = natives_.back().mem.get();
    if (parent) parent->use_before_parts(space);
    for (MemObject *const part : sub_buffers_) part->make_early(space);
    return mem;
}

// Uses the buffer before its sub-buffers. Otherwise bytes that kernels write through a sub-buffer
// may be lost if the buffer and another, overlapping sub-buffer are first used at the same time.
void MemObject::use_before_parts(Space &space) {
    Native *const mine = find_native(space);
    if (mine == nullptr || mine->is_used || space.resources()->host_memory()) return;
    use(mine->mem.get(), space);
    mine->is_used = true;
}

bool MemObject::is_mapped_natively() const {
    return std::ranges::any_of(mappings, &Mapped::is_native) ||
           std::ranges::any_of(sub_buffers_, &MemObject::is_mapped_natively);
}

void MemObject::add_sub_buffer(MemObject &part) {
    for (const Native &native : natives_) part.make_early(*native.space);
    sub_buffers_.push_back(&part);
}

// The sub-buffer's origin may be aligned only for another space's devices. Then commands that use
// it in this space report the error.
void MemObject::make_early(Space &space) {
    try {
        native(space);
    } catch (const Error &error) {
        log_debug("{}", error.status().message);
    }
}

void MemObject::make_natives() {
    const auto has_some_with_images = [this](const Space &space) {
        return std::ranges::any_of(context->devices, [&](const auto &device) {
            return device->memory == space.memory && has_images(*device);
        });
    };
    for (const auto &space : context->spaces)
        if (!is_image() || has_some_with_images(*space)) native(*space);
}

Mem MemObject::make_native(Space &space) {
    // The entry points have checked the program's host access. Natively, the host also reads and
    // writes the memory for other processes.
    cl_mem_flags native_flags =
        flags &
        ~cl_mem_flags{CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS};
    // Native objects of several spaces cannot share the program's memory. An image never uses it
    // natively: maps copy the image's contents there.
    if ((flags & CL_MEM_USE_HOST_PTR) != 0 && (is_image() || context->spaces.size() > 1))
        native_flags = (native_flags & ~cl_mem_flags{CL_MEM_USE_HOST_PTR}) | CL_MEM_COPY_HOST_PTR;
    if (parent)
        native_flags &=
            ~cl_mem_flags{CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR};
    if (is_image()) {
        cl_image_desc native_desc = desc;
        if (parent) native_desc.buffer = parent->native(space);
        if (host_ptr != nullptr && !parent) {
            native_desc.image_row_pitch = pitches.row;
            native_desc.image_slice_pitch = pitches.native_slice(type);
        }
        return create("clCreateImage", clCreateImage, space.context.get(), native_flags, &format,
                      &native_desc, parent ? nullptr : host_ptr);
    }
    if (parent) {
        const cl_buffer_region region{origin - parent->origin, size};
        return create("clCreateSubBuffer", clCreateSubBuffer, parent->native(space), native_flags,
                      cl_buffer_create_type{CL_BUFFER_CREATE_TYPE_REGION}, &region);
    }
    return create("clCreateBuffer", clCreateBuffer, space.context.get(), native_flags, size,
                  host_ptr);
}

}  // namespace cldist::cluster
