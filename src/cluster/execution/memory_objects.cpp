#include "cluster/execution/memory_objects.hpp"

#include "base/log.hpp"

namespace cldist::cluster {
namespace {

bool is_map(cl_command_type type) {
    return type == CL_COMMAND_MAP_BUFFER || type == CL_COMMAND_MAP_IMAGE;
}

}  // namespace

void MemoryObjects::know(MemObject &object, Contents contents) {
    const DeviceObject *const holder =
        contents == Contents::everywhere ? mode_.first_holder(*object.context) : nullptr;
    // Processes skip commands on attached buffers, but warn_of_unseen() needs all commands that use
    // the program's memory. Aggregate queues skip none, and need to know each device's bytes.
    const bool attachable = !object.is_image() && (object.flags & CL_MEM_USE_HOST_PTR) == 0 &&
                            !object.context->aggregate;
    object.id = schedule_.create_buffer(
        object.size, holder != nullptr ? Contents::undefined : contents, attachable);
    if (holder != nullptr) schedule_.give_contents(object.id, holder->memory);
    if (object.id >= objects_.size()) objects_.resize(object.id + 1);
    objects_[object.id] = &object;
    object.keeper = this;
}

void MemoryObjects::forget(MemObject &object) {
    warn_of_unseen(object);
    if (counts_memory_) count_of(Kind::memory).more_bytes += schedule_.bytes(object.id);
    objects_[object.id] = nullptr;
    schedule_.release_buffer(object.id);
}

void MemoryObjects::note_home(BufferId id) {
    const auto home = schedule_.home(id);
    const bool here = home && schedule_.topology().process_of(home->memory) == self_;
    objects_[id]->set_homes(home ? Homes{here ? Home::here : Home::elsewhere, home->memory + 1}
                                 : Homes{});
}

// Without a warning, a program that expects commands to change its memory would use old bytes.
void MemoryObjects::note_host_memory(const Enqueued &command) {
    for (const Access &access : command.accesses) {
        MemObject &object = *objects_[access.buffer];
        if ((object.flags & CL_MEM_USE_HOST_PTR) == 0) continue;
        if (command.result.size > 0 || is_map(command.type))
            object.seen_by_host = true;
        else if (access.mode != AccessMode::read && !object.written_by)
            object.written_by = command.queue.device->process;
    }
}

// Only one of the processes whose memory did not get the bytes logs the warning.
void MemoryObjects::warn_of_unseen(const MemObject &object) const {
    if (object.seen_by_host || !object.written_by) return;
    if (self_ != (*object.written_by == 0 ? 1U : 0U)) return;
    log_warning(
        "{} {}, of {} bytes with CL_MEM_USE_HOST_PTR at {}, was written by a device of rank {} and "
        "never mapped or read. The program's memory does not contain these bytes: map or read the "
        "buffer before you use it",
        object.is_image() ? "image" : "buffer", object.number, object.size, object.host_ptr,
        *object.written_by);
}

void MemoryObjects::warn_of_unseen() const {
    for (const MemObject *const object : objects_)
        if (object != nullptr) warn_of_unseen(*object);
}

}  // namespace cldist::cluster
