#include "pipeline/cuda.hpp"

#include <optional>

#include <dlfcn.h>

#include <fmt/format.h>

#include "base/status.hpp"

namespace cldist::cuda {
namespace {

// These declarations copy the used part of CUDA's driver interface (cuda.h, stable since CUDA 10.2). The build
// therefore does not need CUDA.
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

struct Driver {
    Result (*init)(unsigned);
    Result (*device_count)(int *);
    Result (*device_uuid)(void *, int);
    Result (*granularity)(std::size_t *, const Properties *, int);
    Result (*create)(Handle *, std::size_t, const Properties *, unsigned long long);
    Result (*share)(void *, Handle, int, unsigned long long);
    Result (*release)(Handle);
};

template <typename Function>
bool find(void *library, const char *name, Function *&function) {
    *reinterpret_cast<void **>(&function) = dlsym(library, name);
    return function != nullptr;
}

std::optional<Driver> load() {
    void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    Driver d{};
    if (library == nullptr || !find(library, "cuInit", d.init) || !find(library, "cuDeviceGetCount", d.device_count) ||
        !find(library, "cuDeviceGetUuid", d.device_uuid) ||
        !find(library, "cuMemGetAllocationGranularity", d.granularity) || !find(library, "cuMemCreate", d.create) ||
        !find(library, "cuMemExportToShareableHandle", d.share) || !find(library, "cuMemRelease", d.release) ||
        d.init(0) != 0)
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
    if (result != 0) throw Error(CL_MEM_OBJECT_ALLOCATION_FAILURE, fmt::format("{} returned {}", call, result));
}

}  // namespace

bool knows(const Uuid &device) { return ordinal_of(device).has_value(); }

Descriptor allocate(const Uuid &device, std::size_t &size) {
    const std::optional<int> ordinal = ordinal_of(device);
    if (!ordinal) throw Error(CL_INVALID_DEVICE, "CUDA's driver does not know the device");
    Properties properties{};
    properties.type = pinned_allocation;
    properties.handle_types = posix_descriptor;
    properties.location = {on_device, *ordinal};
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

}  // namespace cldist::cuda
