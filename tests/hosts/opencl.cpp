// An OpenCL program whose callbacks query the system and whose children use OpenCL, too. Under
// `cldist run`, each line that the main thread prints must be the same in all processes. The
// program does not depend on cldist.
#include <CL/cl.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

std::string self;
std::string folder;  // for output files

void print(const std::string &line) {
    const std::string whole = line + "\n";
    if (write(STDOUT_FILENO, whole.data(), whole.size()) < 0) std::abort();
}

void check(cl_int code, const char *what) {
    if (code == CL_SUCCESS) return;
    std::fprintf(stderr, "%s: %d\n", what, code);
    std::exit(9);
}

struct Devices {
    Devices() {
        cl_platform_id platform = nullptr;
        check(clGetPlatformIDs(1, &platform, nullptr), "clGetPlatformIDs");
        cl_uint count = 0;
        check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count), "clGetDeviceIDs");
        all.resize(count);
        check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, all.data(), nullptr),
              "clGetDeviceIDs");
        cl_int code = CL_SUCCESS;
        context = clCreateContext(nullptr, count, all.data(), nullptr, nullptr, &code);
        check(code, "clCreateContext");
    }
    Devices(const Devices &) = delete;
    Devices &operator=(const Devices &) = delete;
    ~Devices() { clReleaseContext(context); }
    std::vector<cl_device_id> all;
    cl_context context = nullptr;
};

// Fills a buffer on each device and reads it.
void work(const Devices &devices) {
    for (cl_device_id device : devices.all) {
        cl_int code = CL_SUCCESS;
        cl_command_queue queue =
            clCreateCommandQueueWithProperties(devices.context, device, nullptr, &code);
        check(code, "clCreateCommandQueueWithProperties");
        cl_mem buffer = clCreateBuffer(devices.context, CL_MEM_READ_WRITE, 4096, nullptr, &code);
        const int pattern = 42;
        std::array<int, 1024> values{};
        check(clEnqueueFillBuffer(queue, buffer, &pattern, sizeof pattern, 0, sizeof values, 0,
                                  nullptr, nullptr),
              "clEnqueueFillBuffer");
        check(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof values, values.data(), 0,
                                  nullptr, nullptr),
              "clEnqueueReadBuffer");
        if (values.back() != pattern) std::exit(8);
        clReleaseMemObject(buffer);
        clReleaseCommandQueue(queue);
    }
}

// Queries the system in a callback, which each process runs in another thread or at another time.
void ask_for_all(const std::string &caller) {
    timespec now{};
    unsigned number = 0;
    for (int i = 0; i < 3; ++i) clock_gettime(CLOCK_MONOTONIC, &now);
    time(nullptr);
    (void)!getrandom(&number, sizeof number, 0);
    const int file = open((folder + "/callbacks").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)!write(file, (caller + "\n").c_str(), caller.size() + 1);
    close(file);
    std::thread([] { time(nullptr); }).join();
}
void CL_CALLBACK at_end(cl_mem, void *) { ask_for_all("memory"); }
void CL_CALLBACK at_event(cl_event, cl_int, void *) { ask_for_all("event"); }

// Queries the system in the main thread, between its OpenCL calls.
void print_all(int round) {
    timespec now{};
    unsigned number = 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    (void)!getrandom(&number, sizeof number, 0);
    unsigned of_thread = 0;
    std::thread([&] { (void)!getrandom(&of_thread, sizeof of_thread, 0); }).join();
    print("round " + std::to_string(round) + " " + std::to_string(now.tv_sec) + "." +
          std::to_string(now.tv_nsec) + " " + std::to_string(time(nullptr)) + " " +
          std::to_string(number) + " " + std::to_string(of_thread));
}

void callbacks() {
    const Devices devices;
    cl_int code = CL_SUCCESS;
    cl_command_queue queue =
        clCreateCommandQueueWithProperties(devices.context, devices.all.front(), nullptr, &code);
    for (int round = 0; round < 20; ++round) {
        cl_mem buffer = clCreateBuffer(devices.context, CL_MEM_READ_WRITE, 4096, nullptr, &code);
        check(clSetMemObjectDestructorCallback(buffer, at_end, nullptr),
              "clSetMemObjectDestructorCallback");
        print_all(round);
        const int pattern = round;
        cl_event event = nullptr;
        cl_event start = clCreateUserEvent(devices.context, &code);
        check(clEnqueueFillBuffer(queue, buffer, &pattern, sizeof pattern, 0, 4096, 1, &start,
                                  &event),
              "clEnqueueFillBuffer");
        check(clSetEventCallback(event, CL_COMPLETE, at_event, nullptr), "clSetEventCallback");
        clReleaseMemObject(buffer);
        print_all(round);
        check(clSetUserEventStatus(start, CL_COMPLETE), "clSetUserEventStatus");
        check(clFinish(queue), "clFinish");
        clReleaseEvent(event);
        clReleaseEvent(start);
        print_all(round);
    }
    clReleaseCommandQueue(queue);
}

void wait_for(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    print("child " + std::to_string(status));
}

void devices() {
    const Devices all;
    work(all);
    print("devices " + std::to_string(all.all.size()));
}

// Starts a child program after this process has joined the job.
void child() {
    const Devices all;
    work(all);
    const pid_t forked = fork();
    if (forked == 0) {
        execl("/proc/self/exe", self.c_str(), folder.c_str(), "devices", nullptr);
        _exit(127);
    }
    wait_for(forked);
    work(all);
}

// A forked child that uses inherited objects gets an error, and can end.
void inherited() {
    const Devices all;
    work(all);
    const pid_t forked = fork();
    if (forked == 0) {
        cl_int code = CL_SUCCESS;
        clCreateBuffer(all.context, CL_MEM_READ_WRITE, 4096, nullptr, &code);
        std::exit(code == CL_OUT_OF_RESOURCES ? 0 : 1);
    }
    wait_for(forked);
    work(all);
}

// Starts a child before this process has joined the job.
void probe() {
    const pid_t forked = fork();
    if (forked == 0) {
        devices();
        std::exit(0);
    }
    wait_for(forked);
    devices();
}

// Makes a call that depends on the process's number.
void differ() {
    const Devices all;
    clReleaseMemObject(clCreateBuffer(all.context, CL_MEM_READ_WRITE,
                                      static_cast<std::size_t>(getpid()), nullptr, nullptr));
}

void by_system() {
    print("system " + std::to_string(std::system((self + " " + folder + " devices").c_str())));
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    self = argv[0];
    folder = argv[1];
    const std::map<std::string, std::function<void()>> parts{
        {"callbacks", callbacks}, {"devices", devices}, {"child", child},
        {"inherited", inherited}, {"probe", probe},     {"system", by_system},
        {"differ", differ}};
    parts.at(argv[2])();
    print("end");
}
