/// Programs that stall, or end, with file commands in flight. Each needs its own process; the
/// argument selects the program. A script checks their standard error.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "bare_device.hpp"

using namespace cldist_test;

namespace {

constexpr std::size_t size = 1 << 20;

void say(const char *text) {
    std::fprintf(stderr, "%s\n", text);
    std::fflush(stderr);
}

struct pipe_streams {
    pipe_streams() {
        int ends[2] = {-1, -1};
        expect("pipe", ::pipe(ends), 0);
        reading = ::fdopen(ends[0], "rb");
        writing = ::fdopen(ends[1], "wb");
    }
    void put(std::size_t count) const {
        const std::vector<char> data(count, 'x');
        expect("the bytes written", static_cast<long>(std::fwrite(data.data(), 1, count, writing)),
               static_cast<long>(count));
        std::fflush(writing);
    }
    std::FILE *reading;
    std::FILE *writing;
};

/// A read of a pipe that gets its data 3 s later, after the stall is reported.
void stalled_read(const bare_device &d, cl_bool blocking) {
    const pipe_streams pipe;
    const std::jthread writer([&] {
        std::this_thread::sleep_for(std::chrono::seconds(3));
        pipe.put(4321);
    });
    cl_event event = nullptr;
    expect("the read",
           clEnqueueWriteBufferFromStdioFile(d.queue, d.buffer, blocking, 0, 4321, pipe.reading, 0,
                                             nullptr, blocking == CL_TRUE ? nullptr : &event),
           CL_SUCCESS);
    if (event != nullptr) {
        clWaitForEvents(1, &event);
        expect("the read's status", status_told(event), CL_COMPLETE);
    }
}

/// main returns while a write waits for its gate. Then another thread opens the gate.
void exit_with_write(const bare_device &d, const char *path) {
    std::vector<unsigned char> data(size, 7);
    clEnqueueWriteBuffer(d.queue, d.buffer, CL_TRUE, 0, size, data.data(), 0, nullptr, nullptr);
    cl_int error = CL_SUCCESS;
    cl_event gate = clCreateUserEvent(d.context, &error);
    std::FILE *file = std::fopen(path, "wb");
    for (int i = 0; i < 3; ++i) {
        expect("the write",
               clEnqueueReadBufferToStdioFile(d.queue, d.buffer, CL_FALSE, 0, size - 1, file,
                                              i == 0 ? 1 : 0, i == 0 ? &gate : nullptr, nullptr),
               CL_SUCCESS);
    }
    std::thread([gate] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        clSetUserEventStatus(gate, CL_COMPLETE);
    }).detach();
    say("main ends");
}

/// main returns while a read waits for a pipe without data. The library must release the stream's
/// lock, because exit() flushes all streams, and some C libraries lock them for that.
void exit_with_read(const bare_device &d) {
    const pipe_streams pipe;
    static std::FILE *stream = pipe.reading;
    std::atexit([] {
        flockfile(stream);
        say("the stream is free");
        funlockfile(stream);
    });
    expect("the read",
           clEnqueueWriteBufferFromStdioFile(d.queue, d.buffer, CL_FALSE, 0, 4321, pipe.reading, 0,
                                             nullptr, nullptr),
           CL_SUCCESS);
    say("main ends");
}

/// MPI is finalised while a read waits for a pipe and a write waits for the read. The pipe gets its
/// data afterwards, and both commands succeed.
void finalize(const bare_device &d, const char *path) {
    const pipe_streams pipe;
    std::FILE *file = std::fopen(path, "wb");
    cl_event got = nullptr;
    cl_event put = nullptr;
    expect("the read",
           clEnqueueWriteBufferFromStdioFile(d.queue, d.buffer, CL_FALSE, 0, size, pipe.reading, 0,
                                             nullptr, &got),
           CL_SUCCESS);
    expect("the write",
           clEnqueueReadBufferToStdioFile(d.other_queue, d.buffer, CL_FALSE, 0, size, file, 1, &got,
                                          &put),
           CL_SUCCESS);
    MPI_Finalize();
    say("MPI is finalised");
    expect("the status of the read after MPI_Finalize", status_told(got), CL_RUNNING);
    pipe.put(size);
    clWaitForEvents(1, &put);
    expect("the read's status", status_told(got), CL_COMPLETE);
    expect("the write's status", status_told(put), CL_COMPLETE);
    expect("the bytes in the file", std::ftell(file), static_cast<long>(size));
}

}  // namespace

int main(int argc, char **argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    const char *path = argc > 2 ? argv[2] : nullptr;
    if (what == "finalize") {
        MPI_Init(&argc, &argv);
    }
    const bare_device d(size);
    if (what == "stalled-read") {
        stalled_read(d, CL_FALSE);
    } else if (what == "stalled-blocking-read") {
        stalled_read(d, CL_TRUE);
    } else if (what == "exit-with-write" && path != nullptr) {
        exit_with_write(d, path);
    } else if (what == "exit-with-read") {
        exit_with_read(d);
    } else if (what == "finalize" && path != nullptr) {
        finalize(d, path);
    } else {
        std::fprintf(stderr, "unknown case: %s\n", what.c_str());
        return 2;
    }
    return failures == 0 ? 0 : 1;
}
