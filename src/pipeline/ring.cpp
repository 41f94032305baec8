#include "pipeline/ring.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/status.hpp"

namespace cldist {
namespace {

// 64 KiB, so that the blocks begin at a page boundary for every page size in use.
constexpr std::size_t control_size = std::size_t{64} << 10U;
constexpr std::size_t ring_size = control_size + ring_capacity;

Error missing(const char *what, int error) {
    return {CL_OUT_OF_RESOURCES, fmt::format("{}: {}", what, std::strerror(error))};
}

std::byte *map_ring(int fd) {
    void *const memory = map_shared_memory(fd, ring_size);
    madvise(memory, ring_size, MADV_HUGEPAGE);
    return static_cast<std::byte *>(memory);
}

struct Rings {
    std::mutex mutex;
    std::vector<std::weak_ptr<Ring>> all;
};

Rings &rings() {
    // Never destroyed, because rings may exist after the program's end.
    static auto &instance = *new Rings;
    return instance;
}

std::shared_ptr<Ring> keep(std::shared_ptr<Ring> ring) {
    const std::lock_guard lock(rings().mutex);
    std::erase_if(rings().all, [](const auto &weak) { return weak.expired(); });
    rings().all.push_back(ring);
    return ring;
}

std::vector<std::shared_ptr<Ring>> all_rings() {
    std::vector<std::shared_ptr<Ring>> all;
    const std::lock_guard lock(rings().mutex);
    for (const auto &weak : rings().all)
        if (auto ring = weak.lock()) all.push_back(std::move(ring));
    return all;
}

}  // namespace

std::shared_ptr<Ring> Ring::create(Descriptor &descriptor) {
    // A file beyond the limit would end the program with SIGXFSZ.
    rlimit limit{};
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < ring_size)
        throw missing("shared memory", EFBIG);
    descriptor = Descriptor(memfd_create("cldist", MFD_CLOEXEC));
    if (!descriptor) throw missing("memfd_create", errno);
    // Allocated now, because missing memory would later end the program with SIGBUS.
    if (const int error = posix_fallocate(descriptor.get(), 0, ring_size); error != 0)
        throw missing("shared memory", error);
    auto ring = std::make_shared<Ring>(map_ring(descriptor.get()), new_memory_id());
    ring->made_here_ = true;
    return keep(std::move(ring));
}

std::shared_ptr<Ring> Ring::open(const Descriptor &descriptor, std::uint32_t id) {
    struct stat status {};
    if (fstat(descriptor.get(), &status) != 0 ||
        static_cast<std::size_t>(status.st_size) != ring_size)
        throw missing("the other process's shared memory", EINVAL);
    return keep(std::make_shared<Ring>(map_ring(descriptor.get()), id));
}

Ring::Ring(std::byte *memory, std::uint32_t id)
    : memory_(memory), id_(id), last_used_ns_(now_ns()) {}

Ring::~Ring() {
    locks_.clear();
    munmap(memory_, ring_size);
}

std::byte *Ring::data() const { return memory_ + control_size; }

void Ring::lock_pages(cl_context context, cl_command_queue queue) {
    const std::lock_guard lock(mutex_);
    if (locks_.find(context) == locks_.end())
        locks_.emplace(context, PageLock(context, queue, data(), ring_capacity));
}

std::shared_ptr<ExportedMemory> Ring::landing(cl_context context, cl_device_id device) {
    const std::lock_guard lock(mutex_);
    if (landing_ == nullptr || landing_context_ != context || landing_device_ != device) {
        landing_.reset();
        landing_ = ExportedMemory::create(context, device, CL_MEM_READ_WRITE, landing_capacity);
        landing_context_ = context;
        landing_device_ = device;
    }
    return landing_;
}

bool Ring::take() {
    State expected = State::idle;
    if (!state_.compare_exchange_strong(expected, State::taken)) return false;
    if (made_here_) {
        control().filled = 0;
        control().drained = 0;
        control().answer = DirectAnswer::none;
        control().failed_from = std::numeric_limits<std::uint64_t>::max();
    }
    return true;
}

void Ring::give_back(bool clean) {
    last_used_ns_ = now_ns();
    if (!clean) control().given_up = 1;
    state_ = clean ? State::idle : State::closed;
}

void Ring::release_memory() {
    const std::lock_guard lock(mutex_);
    locks_.clear();
    landing_.reset();
    // Replaces the memory by an empty mapping, so that the address range stays reserved.
    mmap(memory_, ring_size, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

void Ring::forget(cl_context context) {
    for (const auto &ring : all_rings()) {
        const std::lock_guard lock(ring->mutex_);
        ring->locks_.erase(context);
        if (ring->landing_context_ == context) ring->landing_.reset();
    }
}

void Ring::release_idle(double idle_seconds) {
    const std::uint64_t now = now_ns();
    for (const auto &ring : all_rings()) {
        if (ring->closed()) continue;
        const bool unused = static_cast<double>(now - ring->last_used_ns_) * 1e-9 >= idle_seconds;
        State expected = State::idle;
        if (!(ring->made_here_ ? unused : ring->control().retired != 0) ||
            !ring->state_.compare_exchange_strong(expected, State::closed))
            continue;
        if (ring->made_here_) ring->control().retired = 1;
        ring->release_memory();
    }
}

}  // namespace cldist
