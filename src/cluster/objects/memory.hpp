#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "cluster/objects/context.hpp"
#include "cluster/objects/ending.hpp"
#include "cluster/objects/image.hpp"
#include "cluster/schedule/schedule.hpp"

namespace cldist::cluster {

/// A range of a memory object that the program has mapped.
struct Mapped {
    std::uint64_t number = 0;  ///< as objects have
    /// Where the program has it in this process; null where there is no program.
    void *memory = nullptr;
    MemoryId device_memory = 0;  ///< of the device that mapped it
    std::size_t begin = 0;       ///< bytes of the object
    std::size_t end = 0;
    cl_map_flags flags = 0;
    [[nodiscard]] bool is_written() const {
        return (flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)) != 0;
    }
    bool is_native = false;            ///< by the native runtime of this process
    bool is_page_locked = false;       ///< HostCopies knows of it
    std::size_t size = 0;              ///< bytes of the program's memory, with gaps
    std::shared_ptr<std::byte[]> own;  ///< the memory, unless it is the program's or native
    /// Bytes behind `size` there that the program has no business with: set_guard()
    std::size_t guard = 0;
    std::shared_ptr<const void> kept;  ///< while somebody holds it, the memory is there
    std::shared_ptr<Ending> landed;    ///< when the contents are there and passed on
    AccessMode mode_of_writing = AccessMode::write;
    // For an image:
    std::array<std::size_t, 3> origin{};
    std::array<std::size_t, 3> region{};
    Pitches pitches;
};

/// The program's mappings, by address. Other commands may use a mapping's memory, too. They end
/// before the mapping does, but perhaps only another process knows both. Under the lock.
class MappedMemory {
public:
    void add(const Mapped &mapped);
    void remove(const Mapped &mapped);
    /// Keeps the memory at an address. Null if nothing is mapped there.
    [[nodiscard]] std::shared_ptr<const void> keeper_of(const void *address) const;

private:
    struct Range {
        const std::byte *end;
        std::shared_ptr<const void> kept;
    };
    std::multimap<const std::byte *, Range> ranges_;
    std::size_t longest_ = 0;
};
MappedMemory &mapped_memory();

/// Where buffers are attached (CL/cl_ext_attach.h).
enum class Home : std::uint8_t {
    none,  ///< not all are
    /// To devices of other processes: who has none of these need not know what is done there.
    elsewhere,
    /// To devices, one of them of this process; or this process has to know for other reasons.
    here,
};
/// Where the memory is attached that a command uses.
struct Homes {
    Home home = Home::none;
    /// Some are attached by themselves: that counts for commands of one memory's devices alone,
    /// with that number less one; 0 if none is.
    MemoryId only = 0;

    [[nodiscard]] constexpr bool by_program() const { return home != Home::none && only == 0; }
    [[nodiscard]] constexpr Home for_device(MemoryId memory) const {
        return only == 0 || only == memory + 1 ? home : Home::none;
    }
};
constexpr Homes homes_of_both(Homes a, Homes b) {
    if (a.home == Home::none || b.home == Home::none ||
        (a.only != 0 && b.only != 0 && a.only != b.only))
        return {};
    return {std::max(a.home, b.home), std::max(a.only, b.only)};
}
/// Another one whenever a buffer is attached or detached, or ends while it is; 0 before the first.
/// Changes under the lock.
inline std::atomic<std::uint64_t> version_of_homes = 0;

class MemObject;

/// Keeps account of root memory objects. Under the lock.
class MemoryKeeper {
public:
    /// The object is about to be freed.
    virtual void forget(MemObject &object) = 0;

protected:
    ~MemoryKeeper() = default;
};

/// A buffer, a sub-buffer or an image. Each space that uses it has a native object, which is
/// created at its first use there. Native sub-buffers are created together with their root:
/// NVIDIA's driver (580) crashes at the release of a sub-buffer if an overlapping one was used
/// before its creation. Commands that do not need native sub-buffers use ranges of the root.
class MemObject final : public Object<MemObject, cl_mem, Kind::memory> {
public:
    MemObject(ContextObject &context_in, cl_mem_flags flags_in, std::size_t size_in);
    ~MemObject();

    /// Throws an Error if the native runtime refuses.
    cl_mem native(Space &space);
    /// This is one of its sub-buffers from now on.
    void add_sub_buffer(MemObject &part);
    /// Makes it with what the program gave as its contents; an image wherever there are images.
    void make_natives();

    /// The memory object that has the bytes: itself, or what this is a part of.
    [[nodiscard]] MemObject &root() { return parent ? parent->root() : *this; }
    [[nodiscard]] Access access(std::size_t begin, std::size_t end, AccessMode mode) {
        return {root().id, origin + begin, origin + end, mode};
    }
    [[nodiscard]] Access whole(AccessMode mode) { return access(0, size, mode); }
    [[nodiscard]] bool is_image() const { return type != CL_MEM_OBJECT_BUFFER; }
    /// For a root: whether the native runtime has mapped a range of it, or of its sub-buffers.
    [[nodiscard]] bool is_mapped_natively() const;
    /// The homes of its root. Any thread.
    [[nodiscard]] Homes homes() { return root().homes_.load(std::memory_order_relaxed); }
    /// For a root.
    void set_homes(Homes homes) {
        homes_ = homes;
        ++version_of_homes;
    }
    /// Where the program's own memory has these bytes, for CL_MEM_USE_HOST_PTR.
    [[nodiscard]] std::byte *host_memory(std::size_t at) const {
        return (flags & CL_MEM_USE_HOST_PTR) != 0 ? static_cast<std::byte *>(host_ptr) + at
                                                  : nullptr;
    }
    /// The last mapping with that address, or that number; null if there is none.
    [[nodiscard]] Mapped *mapping(const void *memory) {
        const auto at = std::find_if(mappings.rbegin(), mappings.rend(),
                                     [memory](const Mapped &m) { return m.memory == memory; });
        return memory != nullptr && at != mappings.rend() ? &*at : nullptr;
    }

    const Ref<ContextObject> context;
    const cl_mem_flags flags;
    const std::size_t size;  ///< bytes; of an image without gaps
    cl_mem_object_type type = CL_MEM_OBJECT_BUFFER;
    void *host_ptr = nullptr;
    std::vector<cl_mem_properties> properties;
    Ref<MemObject> parent;           ///< of a sub-buffer, or the buffer that an image is made of
    std::size_t origin = 0;          ///< in the root
    BufferId id = 0;                 ///< of a root
    MemoryKeeper *keeper = nullptr;  ///< of a root
    // For an image:
    cl_image_format format{};
    cl_image_desc desc{};
    std::size_t element_size = 0;
    /// Of the program's memory or the buffer, if it is made of such; else without gaps.
    Pitches pitches;

    std::vector<Mapped> mappings;
    // Of CL_MEM_USE_HOST_PTR:
    bool seen_by_host = false;          ///< the program has mapped or read it
    std::optional<Process> written_by;  ///< whose device wrote it first

    /// Has the program's callbacks called, in the reverse order, when it ends. Held by the object,
    /// and from its end on by its native objects: commands may use them, and with them the
    /// program's own memory, for longer.
    struct Destruction {
        explicit Destruction(cl_mem memory_in) : memory(memory_in) {}
        Destruction(const Destruction &) = delete;
        Destruction &operator=(const Destruction &) = delete;
        ~Destruction() { call_at_end(callbacks, memory, call_elsewhere); }

        const cl_mem memory;
        EndCallbacks<cl_mem> callbacks;
    };
    const std::shared_ptr<Destruction> destruction = std::make_shared<Destruction>(handle());
    const std::shared_ptr<const void> life = std::make_shared<char>();

private:
    [[nodiscard]] Mem make_native(Space &space);
    void make_early(Space &space);

    struct Native {
        Space *space;
        Mem mem;
        bool is_used = false;  ///< before its parts were
    };
    [[nodiscard]] Native *find_native(const Space &space);
    void use_before_parts(Space &space);

    std::vector<Native> natives_;
    std::vector<MemObject *> sub_buffers_;
    std::atomic<Homes> homes_ = Homes{};
};

}  // namespace cldist::cluster
