#include "pipeline/cuda.hpp"

#include <cstdint>
#include <optional>

#include <dlfcn.h>

#include <fmt/format.h>

#include "base/status.hpp"

namespace cldist::cuda {
namespace {

// These declarations copy the used part of CUDA's driver interface (cuda.h, stable since
// CUDA 10.2). The build therefore does not need CUDA.
using Result = int;
using Handle = unsigned long long;
struct Location {
    int type;
    int id;
};
struct Properties {
    int type;
    int handle_types;
    Location location;
    void *windows_attributes;
    struct {
        unsigned char compression, rdma;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
};
constexpr int pinned_allocation = 1;
constexpr int posix_descriptor = 1;
constexpr int on_device = 1;
constexpr Location host_node{3, 0};
struct Access {
    Location location;
    int flags;
};
constexpr int read_write = 3;

struct Driver {
    Result (*init)(unsigned);
    Result (*device_count)(int *);
    Result (*device_uuid)(void *, int);
    Result (*granularity)(std::size_t *, const Properties *, int);
    Result (*create)(Handle *, std::size_t, const Properties *, unsigned long long);
    Result (*share)(void *, Handle, int, unsigned long long);
    Result (*release)(Handle);
    Result (*receive)(Handle *, void *, int);
    Result (*reserve)(unsigned long long *, std::size_t, std::size_t, unsigned long long,
                      unsigned long long);
    Result (*map)(unsigned long long, std::size_t, std::size_t, Handle, unsigned long long);
    Result (*set_access)(unsigned long long, std::size_t, const Access *, std::size_t);
};

template <typename Function>
bool find(void *library, const char *name, Function *&function) {
    *reinterpret_cast<void **>(&function) = dlsym(library, name);
    return function != nullptr;
}

std::optional<Driver> load() {
    void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    Driver d{};
    if (library == nullptr || !find(library, "cuInit", d.init) ||
        !find(library, "cuDeviceGetCount", d.device_count) ||
        !find(library, "cuDeviceGetUuid", d.device_uuid) ||
        !find(library, "cuMemGetAllocationGranularity", d.granularity) ||
        !find(library, "cuMemCreate", d.create) ||
        !find(library, "cuMemExportToShareableHandle", d.share) ||
        !find(library, "cuMemRelease", d.release) ||
        !find(library, "cuMemImportFromShareableHandle", d.receive) ||
        !find(library, "cuMemAddressReserve", d.reserve) || !find(library, "cuMemMap", d.map) ||
        !find(library, "cuMemSetAccess", d.set_access) || d.init(0) != 0)
        return std::nullopt;
    return d;
}

// Never unloaded, because the driver has threads.
const std::optional<Driver> &driver() {
    static const std::optional<Driver> loaded = load();
    return loaded;
}

std::optional<int> ordinal_of(const Uuid &device) {
    int count = 0;
    if (device == Uuid{}) return std::nullopt;
    if (!driver() || driver()->device_count(&count) != 0) return std::nullopt;
    for (int i = 0; i < count; ++i) {
        Uuid uuid{};
        if (driver()->device_uuid(uuid.data(), i) == 0 && uuid == device) return i;
    }
    return std::nullopt;
}

void check(Result result, const char *call) {
    if (result != 0)
        throw Error(CL_MEM_OBJECT_ALLOCATION_FAILURE, fmt::format("{} returned {}", call, result));
}

Descriptor allocate_at(const Location &location, std::size_t &size) {
    Properties properties{};
    properties.type = pinned_allocation;
    properties.handle_types = posix_descriptor;
    properties.location = location;
    std::size_t granularity = 0;
    check(driver()->granularity(&granularity, &properties, 0), "cuMemGetAllocationGranularity");
    size = (size + granularity - 1) / granularity * granularity;
    Handle handle = 0;
    check(driver()->create(&handle, size, &properties, 0), "cuMemCreate");
    int fd = -1;
    const Result shared = driver()->share(&fd, handle, posix_descriptor, 0);
    driver()->release(handle);
    check(shared, "cuMemExportToShareableHandle");
    return Descriptor(fd);
}

}  // namespace

bool knows(const Uuid &device) { return ordinal_of(device).has_value(); }

Descriptor allocate(const Uuid &device, std::size_t &size) {
    const std::optional<int> ordinal = ordinal_of(device);
    if (!ordinal) throw Error(CL_INVALID_DEVICE, "CUDA's driver does not know the device");
    return allocate_at({on_device, *ordinal}, size);
}

Descriptor allocate_host(std::size_t &size) {
    if (!driver()) throw Error(CL_INVALID_OPERATION, "CUDA's driver library is not available");
    return allocate_at(host_node, size);
}

std::byte *map_host(const Descriptor &descriptor, std::size_t size) {
    if (!driver()) throw Error(CL_INVALID_OPERATION, "CUDA's driver library is not available");
    Handle handle = 0;
    void *const given = reinterpret_cast<void *>(static_cast<std::intptr_t>(descriptor.get()));
    check(driver()->receive(&handle, given, posix_descriptor), "cuMemImportFromShareableHandle");
    unsigned long long address = 0;
    check(driver()->reserve(&address, size, 0, 0, 0), "cuMemAddressReserve");
    check(driver()->map(address, size, 0, handle, 0), "cuMemMap");
    const Access access{host_node, read_write};
    check(driver()->set_access(address, size, &access, 1), "cuMemSetAccess");
    return reinterpret_cast<std::byte *>(address);
}

}  // namespace cldist::cuda
