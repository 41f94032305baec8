#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "cluster/objects/arrivals.hpp"
#include "cluster/objects/context.hpp"
#include "cluster/objects/ending.hpp"
#include "cluster/objects/image.hpp"
#include "cluster/schedule/schedule.hpp"

namespace cldist::cluster {

/// A range of a memory object that the program has mapped.
struct Mapped {
    std::uint64_t number = 0;  ///< like Head::number; the same in all processes
    /// The address that the program gets. In a process without the program, `number` replaces it.
    void *memory = nullptr;
    MemoryId device_memory = 0;  ///< of the device that mapped it
    std::size_t begin = 0;       ///< offset in the object, in bytes
    std::size_t end = 0;
    cl_map_flags flags = 0;
    [[nodiscard]] bool is_written() const {
        return (flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)) != 0;
    }
    bool is_native = false;            ///< mapped by the native runtime of this process
    bool is_page_locked = false;       ///< registered in HostCopies
    std::size_t size = 0;              ///< bytes at `memory`, with gaps
    std::shared_ptr<std::byte[]> own;  ///< the memory if the library allocated it
    /// The number of guard bytes behind the `size` bytes, which show overruns (set_guard()).
    std::size_t guard = 0;
    std::shared_ptr<const void> kept;  ///< keeps the memory alive
    std::shared_ptr<Ending> landed;    ///< ends when the contents have arrived and been forwarded
    AccessMode mode_of_writing = AccessMode::write;
    // For an image:
    std::array<std::size_t, 3> origin{};
    std::array<std::size_t, 3> region{};
    Pitches pitches;
};

/// The program's mappings, by address. Commands may use a mapping's memory as host memory. They end
/// before the unmapping, but this process may not know their ends. Therefore such commands keep the
/// memory alive (keeper_of()). Under the lock.
class MappedMemory {
public:
    void add(const Mapped &mapped);
    void remove(const Mapped &mapped);
    /// Returns the owner of the mapped memory at an address. Null if nothing is mapped there.
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

/// Where the buffers of a command are bound to devices (CL/cl_ext_attach.h).
enum class Home : std::uint8_t {
    none,       ///< not all of them are bound
    elsewhere,  ///< to devices of other processes; this process may leave the command out
    /// At least one to a device of this process, or with CL_MEM_USE_HOST_PTR: the warning about
    /// such memory (MemoryObjects) needs all commands that use it.
    here,
};
/// Where the memory of a command is bound.
struct Homes {
    Home home = Home::none;
    /// 0 if the program has bound all buffers. Otherwise cldist has bound some of them to a device,
    /// and `home` is valid only for commands on devices with memory `only` - 1.
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
/// Incremented, under the lock, when a buffer is bound or unbound, or freed while it is bound. 0 if
/// no buffer has ever been bound.
inline std::atomic<std::uint64_t> version_of_homes = 0;

/// A buffer, a sub-buffer or an image. Each space that uses it has a native object, which is
/// created at its first use there. Native sub-buffers are created together with their root, because
/// one that is created after the use of an overlapping one may crash at its release. Commands that
/// do not need native sub-buffers use ranges of the root.
class MemObject final : public Object<MemObject, cl_mem, Kind::memory> {
public:
    MemObject(ContextObject &context_in, cl_mem_flags flags_in, std::size_t size_in);
    ~MemObject();

    /// Returns the native object. Creates it at the first use, or throws an Error.
    cl_mem native(Space &space);
    /// Registers a new sub-buffer of this buffer.
    void add_sub_buffer(MemObject &part);
    /// Creates the native objects of all spaces, with the contents that the program passed. An
    /// image is created only in spaces with devices that support images.
    void make_natives();

    /// The object that owns the bytes: this object, or the buffer of which it is a part.
    [[nodiscard]] MemObject &root() { return parent ? parent->root() : *this; }
    [[nodiscard]] Access access(std::size_t begin, std::size_t end, AccessMode mode) {
        return {root().id, origin + begin, origin + end, mode};
    }
    [[nodiscard]] Access whole(AccessMode mode) { return access(0, size, mode); }
    [[nodiscard]] bool is_image() const { return type != CL_MEM_OBJECT_BUFFER; }
    /// For a root: whether the native runtime has mapped a range of it or of its sub-buffers.
    [[nodiscard]] bool is_mapped_natively() const;
    /// Where the root is bound. Any thread.
    [[nodiscard]] Homes homes() { return root().homes_.load(std::memory_order_relaxed); }
    /// For a root.
    void set_homes(Homes homes) {
        homes_ = homes;
        ++version_of_homes;
    }
    /// The address of byte `at` in the program's memory. Null without CL_MEM_USE_HOST_PTR.
    [[nodiscard]] std::byte *host_memory(std::size_t at) const {
        return (flags & CL_MEM_USE_HOST_PTR) != 0 ? static_cast<std::byte *>(host_ptr) + at
                                                  : nullptr;
    }
    /// See is_safe_in_kernels() of a native buffer. Sub-buffers that stay are safe.
    [[nodiscard]] bool is_safe_in_kernels() const {
        return sub_buffers_.empty() || !has_lost_sub_buffers_;
    }
    /// The last mapping with that Mapped::memory; null if there is none.
    [[nodiscard]] Mapped *mapping(const void *memory) {
        const auto at = std::find_if(mappings.rbegin(), mappings.rend(),
                                     [memory](const Mapped &m) { return m.memory == memory; });
        return memory != nullptr && at != mappings.rend() ? &*at : nullptr;
    }

    const Ref<ContextObject> context;
    const cl_mem_flags flags;
    const std::size_t size;  ///< bytes; those of an image without gaps, unless made from a buffer
    cl_mem_object_type type = CL_MEM_OBJECT_BUFFER;
    void *host_ptr = nullptr;
    std::vector<cl_mem_properties> properties;
    Ref<MemObject> parent;   ///< of a sub-buffer or of an image made from a memory object
    std::size_t origin = 0;  ///< offset in the root, in bytes
    BufferId id = 0;         ///< for a root
    Keeper<MemObject> *keeper = nullptr;  ///< for a root
    Arrivals arrivals;                    ///< for a root
    // For an image:
    cl_image_format format{};
    cl_image_desc desc{};
    std::size_t element_size = 0;
    /// Those of the program's memory or of the parent, if there is one; otherwise without gaps.
    Pitches pitches;

    std::vector<Mapped> mappings;
    // With CL_MEM_USE_HOST_PTR:
    bool seen_by_host = false;          ///< the program has mapped or read it
    std::optional<Process> written_by;  ///< process of the first device that wrote it

    /// Its destructor has the program's destructor callbacks called, in reverse order. Holders are
    /// the object, mappings of the program's memory (CL_MEM_USE_HOST_PTR) and, after the object has
    /// been freed, its native objects, because commands may still use them and that memory.
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
        bool is_used = false;  ///< use_before_parts() has been done
    };
    [[nodiscard]] Native *find_native(const Space &space);
    void use_before_parts(Space &space);

    std::vector<Native> natives_;
    std::vector<MemObject *> sub_buffers_;
    bool has_lost_sub_buffers_ = false;
    std::atomic<Homes> homes_ = Homes{};
};

}  // namespace cldist::cluster
