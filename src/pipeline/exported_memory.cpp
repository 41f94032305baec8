#include "pipeline/exported_memory.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/clock.hpp"
#include "ocl/query.hpp"
#include "ocl/quirks.hpp"
#include "pipeline/cuda.hpp"

namespace cldist {
namespace {

// Newer versions of CL/cl_ext.h define these values.
constexpr cl_device_info device_uuid = 0x106A;
constexpr cl_ulong opaque_descriptor = 0x2060;
constexpr cl_ulong device_list = 0x2051;
constexpr cl_ulong device_list_end = 0;
using CreateWithProperties = cl_mem(CL_API_CALL *)(cl_context, const cl_ulong *, cl_mem_flags,
                                                   std::size_t, void *, cl_int *);

CreateWithProperties create_with_properties() {
    // Loaders older than OpenCL 3.0 do not provide this call.
    static const auto call =
        reinterpret_cast<CreateWithProperties>(dlsym(RTLD_DEFAULT, "clCreateBufferWithProperties"));
    return call;
}

bool imports_descriptors(cl_device_id device) {
    const std::string extensions = query_string(device, CL_DEVICE_EXTENSIONS);
    return extensions.find("cl_khr_external_memory_opaque_fd") != std::string::npos &&
           create_with_properties() != nullptr;
}

// Two buffers with the same host memory share their bytes only if the driver uses that memory
// itself. The cluster platform copies it for each device.
bool is_standing_in(cl_device_id device) { return quirks_of(device).keeps_addresses; }

struct SharedMapping {
    void *memory;
    std::size_t size;
};

void CL_CALLBACK unmap(cl_mem, void *data) {
    const auto *const mapping = static_cast<SharedMapping *>(data);
    munmap(mapping->memory, mapping->size);
    delete mapping;
}

Mem wrap_shared_memory(cl_context context, int descriptor, cl_mem_flags flags, std::size_t size,
                       std::size_t mapped) {
    void *const memory = map_shared_memory(descriptor, mapped);
    cl_int code = CL_SUCCESS;
    Mem buffer =
        Mem::adopt(clCreateBuffer(context, flags | CL_MEM_USE_HOST_PTR, size, memory, &code));
    if (code != CL_SUCCESS) {
        munmap(memory, mapped);
        check(code, "clCreateBuffer");
    }
    clSetMemObjectDestructorCallback(buffer.get(), &unmap, new SharedMapping{memory, mapped});
    return buffer;
}

Mem import(cl_context context, cl_device_id device, int descriptor, cl_mem_flags flags,
           std::size_t size, std::size_t allocated) {
    if (is_standing_in(device))
        return wrap_shared_memory(context, descriptor, flags, size, allocated);
    if (!imports_descriptors(device))
        throw Error(CL_INVALID_OPERATION, "the device cannot import memory of another process");
    // The platform may close an imported descriptor at any time, so it gets a duplicate.
    const int given = duplicate(descriptor);
    // A context of several devices may refuse an import without a list.
    const std::array<cl_ulong, 6> properties{opaque_descriptor, static_cast<cl_ulong>(given),
                                             device_list,       reinterpret_cast<cl_ulong>(device),
                                             device_list_end,   0};
    cl_int code = CL_SUCCESS;
    Mem buffer = Mem::adopt(
        create_with_properties()(context, properties.data(), flags, size, nullptr, &code));
    if (code != CL_SUCCESS) close(given);
    check(code, "clCreateBufferWithProperties");
    return buffer;
}

Descriptor allocate(cl_device_id device, std::size_t &size) {
    if (!is_standing_in(device)) return cuda::allocate(uuid_of(device), size);
    size = (size + 4095) / 4096 * 4096;
    return allocate_shared_memory(size);
}

struct Buffers {
    std::mutex mutex;
    std::map<cl_mem, std::shared_ptr<ExportedMemory>> all;
    std::vector<std::weak_ptr<ImportedMemory>> imported;
};

Buffers &buffers() {
    // Never destroyed, because buffers may exist after the program's end.
    static auto &instance = *new Buffers;
    return instance;
}

void CL_CALLBACK forget(cl_mem buffer, void *) {
    std::shared_ptr<ExportedMemory> memory;
    const std::lock_guard lock(buffers().mutex);
    const auto at = buffers().all.find(buffer);
    if (at == buffers().all.end()) return;
    memory = std::move(at->second);
    buffers().all.erase(at);
}

}  // namespace

int duplicate(int descriptor) {
    const int made = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (made < 0)
        throw Error(CL_OUT_OF_RESOURCES, fmt::format("a descriptor: {}", std::strerror(errno)));
    return made;
}

Descriptor allocate_shared_memory(std::size_t size) {
    Descriptor memory(memfd_create("cldist", MFD_CLOEXEC));
    if (!memory || ftruncate(memory.get(), static_cast<off_t>(size)) != 0)
        throw Error(CL_OUT_OF_HOST_MEMORY, fmt::format("shared memory: {}", std::strerror(errno)));
    return memory;
}

void *map_shared_memory(int descriptor, std::size_t size) {
    void *const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED)
        throw Error(CL_OUT_OF_HOST_MEMORY,
                    fmt::format("mapping shared memory: {}", std::strerror(errno)));
    return memory;
}

std::uint32_t new_memory_id() {
    static std::atomic<std::uint32_t> last{0};
    std::uint32_t id = 0;
    while (id == 0) id = ++last;
    return id;
}

DeviceUuid uuid_of(cl_device_id device) {
    return query<DeviceUuid>(device, device_uuid).value_or(DeviceUuid{});
}

bool ExportedMemory::possible(cl_device_id device, bool stand_in) {
    if (is_standing_in(device)) return stand_in;
#ifdef CLDIST_DIRECT
    if (!imports_descriptors(device)) return false;
    return cuda::knows(uuid_of(device));
#else
    return false;
#endif
}

std::shared_ptr<ExportedMemory> ExportedMemory::create(cl_context context, cl_device_id device,
                                                       cl_mem_flags flags, std::size_t size) {
    std::size_t allocated = size;
    Descriptor descriptor = allocate(device, allocated);
    Mem buffer = import(context, device, descriptor.get(), flags, size, allocated);
    return std::make_shared<ExportedMemory>(std::move(descriptor), allocated, uuid_of(device),
                                            std::move(buffer));
}

Mem ExportedMemory::create_buffer(cl_context context, cl_device_id device, cl_mem_flags flags,
                                  std::size_t size) {
    const std::shared_ptr<ExportedMemory> memory = create(context, device, flags, size);
    Mem buffer = std::move(memory->buffer_);
    {
        const std::lock_guard lock(buffers().mutex);
        buffers().all.emplace(buffer.get(), memory);
    }
    const cl_int code = clSetMemObjectDestructorCallback(buffer.get(), &forget, nullptr);
    if (code != CL_SUCCESS) forget(buffer.get(), nullptr);
    check(code, "clSetMemObjectDestructorCallback");
    return buffer;
}

std::shared_ptr<ExportedMemory> ExportedMemory::of(cl_mem buffer) {
    const std::lock_guard lock(buffers().mutex);
    const auto at = buffers().all.find(buffer);
    return at != buffers().all.end() ? at->second : nullptr;
}

ExportedMemory::ExportedMemory(Descriptor descriptor, std::size_t size, const DeviceUuid &device,
                               Mem buffer)
    : id_(new_memory_id()),
      descriptor_(std::move(descriptor)),
      size_(size),
      device_(device),
      buffer_(std::move(buffer)) {}

std::shared_ptr<ImportedMemory> ExportedMemory::imported() const {
    return std::make_shared<ImportedMemory>(Descriptor(duplicate(descriptor_.get())), size_,
                                            device_);
}

ImportedMemory::ImportedMemory(Descriptor descriptor, std::size_t size, const DeviceUuid &device)
    : descriptor_(std::move(descriptor)), size_(size), device_(device), last_used_ns_(now_ns()) {}

std::shared_ptr<ImportedMemory> ImportedMemory::keep(std::shared_ptr<ImportedMemory> imported) {
    const std::lock_guard lock(buffers().mutex);
    std::erase_if(buffers().imported, [](const auto &weak) { return weak.expired(); });
    buffers().imported.push_back(imported);
    return imported;
}

Mem ImportedMemory::buffer(cl_context context, cl_device_id device) {
    const std::lock_guard lock(mutex_);
    last_used_ns_ = now_ns();
    if (!descriptor_)
        throw Error(CL_INVALID_OPERATION, "the memory of another process was released");
    Mem &buffer = buffers_[{context, device}];
    if (!buffer)
        buffer = import(context, device, descriptor_.get(), CL_MEM_READ_WRITE, size_, size_);
    return Mem::share(buffer.get());
}

bool ImportedMemory::closed() const {
    const std::lock_guard lock(mutex_);
    return !descriptor_;
}

bool ImportedMemory::use() {
    const std::lock_guard lock(mutex_);
    last_used_ns_ = now_ns();
    return static_cast<bool>(descriptor_);
}

std::vector<std::shared_ptr<ImportedMemory>> ImportedMemory::all() {
    std::vector<std::shared_ptr<ImportedMemory>> all;
    const std::lock_guard lock(buffers().mutex);
    for (const auto &weak : buffers().imported)
        if (auto imported = weak.lock()) all.push_back(std::move(imported));
    return all;
}

void ImportedMemory::release_idle(double idle_seconds) {
    for (const auto &imported : all()) {
        decltype(buffers_) released;
        const std::lock_guard lock(imported->mutex_);
        if (static_cast<double>(now_ns() - imported->last_used_ns_) * 1e-9 < idle_seconds) continue;
        imported->descriptor_ = {};
        released.swap(imported->buffers_);
    }
}

void ImportedMemory::forget(cl_context context) {
    for (const auto &imported : all()) {
        const std::lock_guard lock(imported->mutex_);
        std::erase_if(imported->buffers_,
                      [&](const auto &import) { return import.first.first == context; });
    }
}

}  // namespace cldist
