/// clDistLocalDevice on several processes: it assigns devices round robin and reports shared ones.

#include <algorithm>
#include <array>
#include <cstdio>

#include <unistd.h>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

struct devices {
    cl_platform_id platform = nullptr;
    std::vector<cl_device_id> all;
};

/// The devices of a type on the first platform that has any. The list is the same in all processes
/// of a host.
devices devices_of(cl_device_type type) {
    std::array<cl_platform_id, 16> platforms{};
    cl_uint count = 0;
    CL_OK(clGetPlatformIDs(platforms.size(), platforms.data(), &count));
    for (cl_uint i = 0; i < std::min<cl_uint>(count, platforms.size()); ++i) {
        cl_uint number = 0;
        if (clGetDeviceIDs(platforms[i], type, 0, nullptr, &number) == CL_SUCCESS && number != 0) {
            devices found{platforms[i], std::vector<cl_device_id>(number)};
            CL_OK(clGetDeviceIDs(found.platform, type, number, found.all.data(), nullptr));
            return found;
        }
    }
    return {};
}

/// Skips the case if there is no CPU device.
devices cpu_devices() {
    devices found = devices_of(CL_DEVICE_TYPE_CPU);
    if (found.all.empty()) {
        skip_case("there is no CPU device");
    }
    return found;
}

/// Captures standard error during its life.
class captured_errors {
public:
    captured_errors() : file(std::tmpfile()), before(::dup(STDERR_FILENO)) {
        REQUIRE(file != nullptr);
        ::dup2(::fileno(file), STDERR_FILENO);
    }
    captured_errors(const captured_errors &) = delete;
    captured_errors &operator=(const captured_errors &) = delete;
    ~captured_errors() {
        restore();
        std::fclose(file);
    }

    /// Ends the capture.
    std::string text() {
        restore();
        std::string all;
        std::rewind(file);
        for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) {
            all += static_cast<char>(c);
        }
        return all;
    }

private:
    void restore() {
        if (before >= 0) {
            ::dup2(before, STDERR_FILENO);
            ::close(before);
            before = -1;
        }
    }

    std::FILE *file;
    int before;
};

/// The ranks in `comm` of the processes on this host, in order.
std::vector<int> ranks_on_host(MPI_Comm comm) {
    MPI_Comm host = MPI_COMM_NULL;
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(host, &size);
    std::vector<int> ranks(static_cast<std::size_t>(size));
    MPI_Allgather(&rank, 1, MPI_INT, ranks.data(), 1, MPI_INT, host);
    MPI_Comm_free(&host);
    return ranks;
}

/// Checks that clDistLocalDevice assigns devices round robin to the processes of `comm` on this
/// host, and that the lowest rank of each shared device prints a warning, except for CPU devices.
void expect_round_robin(MPI_Comm comm, cl_platform_id platform, const devices &all,
                        cl_device_type type) {
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    const std::vector<int> ranks = ranks_on_host(comm);
    const auto mine =
        static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
    const std::size_t number = all.all.size();

    cl_device_id device = nullptr;
    cl_int code = CL_SUCCESS;
    std::string said;
    {
        captured_errors errors;
        code = clDistLocalDevice(comm, platform, type, &device);
        said = errors.text();
    }
    CHECK(code == CL_SUCCESS);
    CHECK(device == all.all[mine % number]);

    CAPTURE(said);
    if (type != CL_DEVICE_TYPE_CPU && mine < number && mine + number < ranks.size()) {
        std::string sharing;
        for (std::size_t i = mine; i < ranks.size(); i += number) {
            sharing += (i == mine ? "" : ", ") + std::to_string(ranks[i]);
        }
        std::array<char, 256> name{};
        CL_OK(clGetDeviceInfo(device, CL_DEVICE_NAME, name.size(), name.data(), nullptr));
        CHECK(said.find("ranks " + sharing + " of the communicator") != std::string::npos);
        CHECK(said.find(name.data()) != std::string::npos);
        CHECK(std::count(said.begin(), said.end(), '\n') == 1);
    } else {
        CHECK(said.empty());
    }
}

}  // namespace

MPI_CASE("local devices are assigned round robin, and the lowest rank reports shared devices", 1) {
    const devices cpus = cpu_devices();
    expect_round_robin(mpi.comm, cpus.platform, cpus, CL_DEVICE_TYPE_CPU);
    expect_round_robin(mpi.comm, nullptr, cpus, CL_DEVICE_TYPE_CPU);
    if (const devices gpus = devices_of(CL_DEVICE_TYPE_GPU); !gpus.all.empty()) {
        expect_round_robin(mpi.comm, gpus.platform, gpus, CL_DEVICE_TYPE_GPU);
    }
}

MPI_CASE("local devices follow the order of ranks in the given communicator", 2) {
    const devices cpus = cpu_devices();
    MPI_Comm reversed = MPI_COMM_NULL;
    MPI_Comm_split(mpi.comm, 0, mpi.size - mpi.rank, &reversed);
    expect_round_robin(reversed, nullptr, cpus, CL_DEVICE_TYPE_CPU);
    MPI_Comm_free(&reversed);
}

MPI_CASE(
    "a process with a wrong argument for its local device takes none and does not block the others",
    2) {
    const devices cpus = cpu_devices();
    static int mark = 0;
    struct wrong {
        cl_int code;
        cl_platform_id platform;
        cl_device_type type;
        bool device;
    };
    const wrong table[] = {
        {CL_INVALID_PLATFORM, reinterpret_cast<cl_platform_id>(&mark), CL_DEVICE_TYPE_CPU, true},
        {CL_INVALID_DEVICE_TYPE, cpus.platform, 0, true},
        {CL_INVALID_VALUE, cpus.platform, CL_DEVICE_TYPE_CPU, false},
        {CL_DEVICE_NOT_FOUND, cpus.platform, CL_DEVICE_TYPE_CUSTOM, true},
    };
    const std::vector<int> ranks = ranks_on_host(mpi.comm);
    const auto mine =
        static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), mpi.rank) - ranks.begin());
    for (const wrong &w : table) {
        CAPTURE(w.code);
        cl_device_id device = nullptr;
        if (mine == 0) {
            CHECK(clDistLocalDevice(mpi.comm, w.platform, w.type, w.device ? &device : nullptr) ==
                  w.code);
            CHECK(device == nullptr);
        } else {
            CHECK(clDistLocalDevice(mpi.comm, cpus.platform, CL_DEVICE_TYPE_CPU, &device) ==
                  CL_SUCCESS);
            CHECK(device == cpus.all[(mine - 1) % cpus.all.size()]);
        }
    }
}

MPI_CASE("a local device on an inter-communicator is CL_INVALID_COMMUNICATOR", 2) {
    MPI_Comm local = MPI_COMM_NULL;
    MPI_Comm inter = MPI_COMM_NULL;
    const int side = mpi.rank == 0 ? 0 : 1;
    MPI_Comm_split(mpi.comm, side, mpi.rank, &local);
    MPI_Intercomm_create(local, 0, mpi.comm, side == 0 ? 1 : 0, 12, &inter);
    cl_device_id device = nullptr;
    CHECK(clDistLocalDevice(inter, nullptr, CL_DEVICE_TYPE_ALL, &device) ==
          CL_INVALID_COMMUNICATOR);
    CHECK(device == nullptr);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&local);
}
