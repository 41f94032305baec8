/// A program that forks while it uses the library. The children end in different ways or call the
/// library. The parent continues. The argument is "mpi" or "alone". A script checks standard error.

#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

#include "bare_device.hpp"

using namespace cldist_test;

namespace {

constexpr std::size_t size = 4096;
bool with_mpi = false;

/// Runs `body` in a forked child, which must exit with 0. SIGALRM ends a child that hangs.
void expect_child(const char *what, const std::function<int()> &body) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(10);
        std::exit(body());
    }
    int status = 0;
    expect("waitpid", ::waitpid(child, &status, 0), child);
    expect((std::string("the status of the child that ") + what + " ended").c_str(), status, 0);
}

cl_int write_stream(const bare_device &d, cl_bool blocking, std::FILE *stream) {
    return clEnqueueReadBufferToStdioFile(d.queue, d.buffer, blocking, 0, size, stream, 0, nullptr,
                                          nullptr);
}

/// Runs in a child that was forked while the library was in use: all calls must fail and start
/// nothing. Returns the number of failed checks.
int call_the_library(const bare_device &d, std::FILE *stream, cl_event event) {
    expect("a blocking file command", write_stream(d, CL_TRUE, stream), CL_INVALID_OPERATION);
    expect("a file command", write_stream(d, CL_FALSE, stream), CL_INVALID_OPERATION);
    std::size_t bytes = 0;
    expect("clGetTransferInfo",
           clGetTransferInfo(event, CL_TRANSFER_BYTES, sizeof bytes, &bytes, nullptr),
           CL_INVALID_OPERATION);
    expect("a send",
           clEnqueueSendBuffer(d.queue, d.buffer, CL_TRUE, 0, size, 0, 1, MPI_COMM_WORLD, 0,
                               nullptr, nullptr),
           CL_INVALID_OPERATION);
    if (with_mpi) {
        char byte = 0;
        expect("MPI_Send with MPI_CL_MEM", MPI_Send(&byte, 1, MPI_CL_MEM, 0, 1, MPI_COMM_WORLD),
               MPI_ERR_OTHER);
    }
    return failures;
}

void fork_while_in_use() {
    const bare_device d(size);
    std::FILE *const file = std::tmpfile();
    int ends[2] = {-1, -1};
    expect("pipe", ::pipe(ends), 0);
    std::FILE *const reading = ::fdopen(ends[0], "rb");
    // The write has ended, but its bytes are still in the stream's buffer. The read is in progress
    // in a thread that holds its stream's lock.
    expect("a file command", write_stream(d, CL_TRUE, file), CL_SUCCESS);
    cl_event event = nullptr;
    expect("a read of a pipe",
           clEnqueueWriteBufferFromStdioFile(d.other_queue, d.buffer, CL_FALSE, 0, size, reading, 0,
                                             nullptr, &event),
           CL_SUCCESS);
    expect_child("returns from main", [] { return 0; });
    expect_child("calls _exit", []() -> int { ::_exit(0); });
    expect_child("calls exec",
                 [] { return ::execl("/bin/true", "true", static_cast<char *>(nullptr)); });
    expect_child("uses streams",
                 [&] { return std::fputc('x', file) == EOF ? 1 : std::fclose(file); });
    expect_child("calls the library", [&] { return call_the_library(d, file, event); });
    expect_child("forks", [&] {
        expect_child("is a child's", [&] { return call_the_library(d, file, event); });
        return failures;
    });
    // The parent is not affected.
    expect("the read's status", status_told(event), CL_RUNNING);
    const std::vector<char> bytes(size, 'x');
    expect("the bytes written", ::write(ends[1], bytes.data(), size), size);
    clWaitForEvents(1, &event);
    expect("the read's status", status_told(event), CL_COMPLETE);
    expect("a file command after forks", write_stream(d, CL_TRUE, file), CL_SUCCESS);
    if (with_mpi)
        expect("a message after forks",
               clEnqueueSendrecvBuffer(d.queue, d.buffer, CL_TRUE, 0, 100, 0, 1, d.buffer, 200, 100,
                                       0, 1, MPI_COMM_SELF, 0, nullptr, nullptr),
               CL_SUCCESS);
    std::fclose(file);
}

}  // namespace

int main(int argc, char **argv) {
    // The library was not used before this fork, so the child may use it.
    expect_child("was forked before", [] {
        const bare_device d(size);
        expect("a file command", write_stream(d, CL_TRUE, std::tmpfile()), CL_SUCCESS);
        return failures;
    });
    with_mpi = argc > 1 && std::strcmp(argv[1], "mpi") == 0;
    if (with_mpi) MPI_Init(&argc, &argv);
    fork_while_in_use();
    if (with_mpi) MPI_Finalize();
    return failures;
}
