// event-probe "DEVICE NAME DRIVER VERSION" exits with 0 if the platform of this device survives a
// failed command. Another command waits for the failed one, and the program holds neither event.
// The library runs this program as a child process because some platforms abort.
#include <cstdlib>
#include <vector>

#include "ocl/query.hpp"
#include "probe/failed_event.hpp"

namespace {

using namespace cldist;

std::vector<cl_device_id> all_devices() {
    cl_uint count = 0;
    std::vector<cl_device_id> devices;
    for (cl_platform_id platform : all_platforms()) {
        if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS)
            continue;
        const std::size_t before = devices.size();
        devices.resize(before + count);
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data() + before, nullptr);
    }
    return devices;
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    for (cl_device_id device : all_devices()) {
        if (query_string(device, CL_DEVICE_NAME) + " " + query_string(device, CL_DRIVER_VERSION) !=
            argv[1])
            continue;
        try {
            survive_failed_event(device);
        } catch (const Error &) {
            return 1;
        }
        std::_Exit(0);  // skip the platform's exit handlers, which are not under test
    }
    return 3;
}
