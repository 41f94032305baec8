#include "pipeline/device_resources.hpp"

#include <atomic>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "events/bridge.hpp"
#include "events/host_addresses.hpp"
#include "ocl/query.hpp"
#include "ocl/quirks.hpp"
#include "pipeline/cleanup.hpp"
#include "pipeline/profile_file.hpp"

namespace cldist {
namespace {

/// The resources of all contexts. Thread-safe.
class AllResources {
public:
    std::shared_ptr<DeviceResources> get(cl_context context, cl_device_id device,
                                         std::span<const cl_mem> buffers) {
        std::vector<cl_mem> added;
        {
            const std::lock_guard lock(mutex_);
            OnContext &on_context = contexts_[context];
            for (const cl_mem buffer : buffers)
                if (on_context.buffers.insert(buffer).second) added.push_back(buffer);
        }
        // Without the lock, because a thread of the platform may wait for the lock in
        // on_destroyed().
        for (const cl_mem buffer : added) {
            if (clSetMemObjectDestructorCallback(buffer, on_destroyed, context) == CL_SUCCESS)
                continue;
            const std::lock_guard lock(mutex_);
            contexts_[context].buffers.erase(buffer);
        }
        if (auto resources = find(context, device)) return resources;
        const std::lock_guard one_at_a_time(making_);
        if (auto resources = find(context, device)) return resources;
        auto resources = std::make_shared<DeviceResources>(context, device);
        const std::lock_guard lock(mutex_);
        contexts_[context].devices[device] = {resources, now_ns()};
        return resources;
    }

    /// Frees unused resources and surplus staging memory, and page-locks staging memory that calls
    /// did not find. Destructors run without the lock, so get() does not wait for them.
    void release_unused(double idle_seconds) {
        const std::uint64_t now = now_ns();
        const auto since = [now](std::uint64_t then) {
            return static_cast<double>(now - then) * 1e-9;
        };
        std::vector<std::shared_ptr<DeviceResources>> released;
        std::vector<std::shared_ptr<StagingPool>> kept;
        {
            const std::lock_guard lock(mutex_);
            for (auto at = contexts_.begin(); at != contexts_.end();) {
                auto &[devices, buffers, left] = at->second;
                const bool all_left = buffers.empty() && left != 0 && since(left) >= left_seconds;
                for (auto on = devices.begin(); on != devices.end();) {
                    auto &[resources, last_used] = on->second;
                    const bool in_use = resources.use_count() > 1;
                    if (in_use) last_used = now;
                    const bool unused = !in_use && (all_left || since(last_used) >= idle_seconds);
                    if (!unused) kept.push_back(resources->staging().shared_from_this());
                    if (unused) released.push_back(std::move(resources));
                    on = unused ? devices.erase(on) : std::next(on);
                }
                at = devices.empty() && buffers.empty() ? contexts_.erase(at) : std::next(at);
            }
        }
        for (const std::shared_ptr<StagingPool> &pool : kept) {
            pool->trim();
            pool->grow();
        }
    }

private:
    struct Entry {
        std::shared_ptr<DeviceResources> resources;
        std::uint64_t last_used = 0;
    };
    struct OnContext {
        std::map<cl_device_id, Entry> devices;
        std::set<cl_mem> buffers;  ///< buffers of the program that commands have used
        std::uint64_t left = 0;    ///< when the last of these buffers was destroyed
    };

    /// A program that goes on to use other buffers creates them within this time.
    static constexpr double left_seconds = 0.02;

    static void CL_CALLBACK on_destroyed(cl_mem buffer, void *context);

    std::shared_ptr<DeviceResources> find(cl_context context, cl_device_id device) {
        const std::lock_guard lock(mutex_);
        std::map<cl_device_id, Entry> &devices = contexts_[context].devices;
        const auto at = devices.find(device);
        if (at == devices.end()) return nullptr;
        at->second.last_used = now_ns();
        return at->second.resources;
    }

    std::mutex making_;  ///< locked before `mutex_`
    std::mutex mutex_;
    std::map<cl_context, OnContext> contexts_;
};

AllResources &all_resources() {
    // Never destroyed, because the OpenCL platform may be unloaded earlier at exit.
    static auto &instance = *new AllResources;
    return instance;
}

// Runs on any thread, and must not block, because the thread may belong to the platform.
void CL_CALLBACK AllResources::on_destroyed(cl_mem buffer, void *context) {
    AllResources &self = all_resources();
    {
        const std::lock_guard lock(self.mutex_);
        const auto at = self.contexts_.find(static_cast<cl_context>(context));
        if (at == self.contexts_.end() || at->second.buffers.erase(buffer) == 0 ||
            !at->second.buffers.empty())
            return;
        at->second.left = now_ns();
    }
    clean_up_soon();
}

std::atomic<bool> own_memory_used{false};

Queue make_queue(cl_context context, cl_device_id device) {
    // The call of OpenCL 1.2, which every platform provides.
    return create("clCreateCommandQueue", clCreateCommandQueue, context, device, 0U);
}

// See QueueInfo::placeholder.
Mem make_placeholder(cl_context context, cl_device_id device) {
    if (!quirks_of(device).markers_wait_for_all) return {};
    return create("clCreateBuffer", clCreateBuffer, context, CL_MEM_READ_WRITE, 64U, nullptr);
}

// See QueueInfo::start_source.
Mem make_start_source(cl_context context, cl_device_id device) {
    if (!quirks_of(device).reports_markers_late) return {};
    return create("clCreateBuffer", clCreateBuffer, context, CL_MEM_READ_WRITE, 64U, nullptr);
}

// Keeps the last sub-devices for some time (Quirks::frees_sub_devices_early).
void release_later(Device device) {
    if (!quirks_of(device.get()).frees_sub_devices_early ||
        query<cl_device_id>(device.get(), CL_DEVICE_PARENT_DEVICE).value_or(nullptr) == nullptr)
        return;
    constexpr std::size_t most = 64;
    static auto &mutex = *new std::mutex;
    static auto &last = *new std::deque<Device>;
    const std::lock_guard lock(mutex);
    last.push_back(std::move(device));
    if (last.size() > most) last.pop_front();
}

}  // namespace

MarkerMemory::MarkerMemory(cl_context context, cl_device_id device, cl_command_queue queue)
    : placeholder_(make_placeholder(context, device)),
      start_source_(make_start_source(context, device)) {
    // Not from DeviceResources::staging(), where it would count as lent.
    if (start_source_)
        start_target_ = std::make_shared<StagingPool>(context, queue, 0)->lease(sizeof(cl_uint));
}

void MarkerMemory::describe(QueueInfo &queue) const {
    queue.placeholder = placeholder_.get();
    queue.start_source = start_source_.get();
    queue.start_target = start_target_;
}

DeviceResources::DeviceResources(cl_context context, cl_device_id device)
    : context_(context),
      device_(Device::share(device)),
      read_queue_(make_queue(context, device)),
      write_queue_(make_queue(context, device)),
      staging_(
          std::make_shared<StagingPool>(context, write_queue_.get(), config().staging_keep.value)),
      marker_memory_(context, device, write_queue_.get()),
      scratch_(std::make_shared<ScratchPool>(context, config().staging_keep.value)),
      traits_{query<cl_bool>(device, CL_DEVICE_HOST_UNIFIED_MEMORY).value_or(CL_FALSE) == CL_TRUE,
              ExportedMemory::possible(device, config().path == Path::peer_to_peer),
              cldist::is_cpu(device), HostAddresses::persist(context)},
      advice_(find_advice(device)) {
    if (!host_memory()) own_memory_used = true;
}

void DeviceResources::describe(QueueInfo &queue) const {
    marker_memory_.describe(queue);
    queue.is_cpu = traits_.is_cpu;
    queue.addresses_persist = traits_.addresses_persist;
}

bool DeviceResources::some_have_own_memory() { return own_memory_used; }

// Rings and imported memory also hold references to the context.
DeviceResources::~DeviceResources() {
    Ring::forget(context_);
    ImportedMemory::forget(context_);
    release_later(std::move(device_));
}

RectKernels &DeviceResources::rect_kernels() {
    std::call_once(rect_kernels_once_,
                   [&] { rect_kernels_ = std::make_unique<RectKernels>(context_, device()); });
    return *rect_kernels_;
}

std::shared_ptr<DeviceResources> DeviceResources::of(cl_context context, cl_device_id device,
                                                     std::span<const cl_mem> buffers) {
    return all_resources().get(context, device, buffers);
}

void DeviceResources::release_unused(double idle_seconds) {
    all_resources().release_unused(idle_seconds);
}

}  // namespace cldist
