#include "search.hpp"

#include "smith_waterman.hpp"

#include <CL/cl_ext_dist.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace smith_waterman {
namespace {

constexpr int wide = 16;
constexpr std::size_t pitch = 36;  // bytes per row of the matrix, as in the kernel
constexpr signed char worst = -128;

template <typename T>
T info(const Device &device, cl_device_info name) {
    T value;
    check(clGetDeviceInfo(device.id, name, sizeof value, &value, nullptr), "clGetDeviceInfo");
    return value;
}

template <typename T>
Buffer make_filled(const Context &context, const T *data, std::size_t count) {
    cl_int status;
    Buffer buffer(clCreateBuffer(context.get(), CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                                 count * sizeof(T), const_cast<T *>(data), &status));
    check(status, "clCreateBuffer");
    return buffer;
}

/// BLOSUM62, padded with the worst score for entries that are no residues.
std::vector<signed char> matrix() {
    std::vector<signed char> all((letters.size() + 1) * pitch, worst);
    for (std::size_t row = 0; row < letters.size(); ++row)
        std::copy(blosum62[row].begin(), blosum62[row].end(),
                  all.begin() + std::ptrdiff_t(row * pitch));
    return all;
}

/// Returns an upper bound of the score of an alignment with the query.
long highest_score(const Residues &query) {
    long sum = 0;
    for (const std::uint8_t residue : query)
        sum += *std::max_element(blosum62[residue].begin(), blosum62[residue].end());
    return sum;
}

}  // namespace

Search::Search(const Database &database, const Device &device, const Residues &query, Gap gap,
               int lanes, int buffers)
    : database_(database), device_(device), query_(query), residues_(std::size_t(buffers)) {
    const auto constant = info<cl_ulong>(device_, CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE);
    if (query_.size() > constant)
        throw std::invalid_argument(
            fmt::format("the query has {} residues, more than the {} that the device can hold in "
                        "constant memory",
                        query_.size(), constant));
    is_wide_ = lanes == 0 ? !device_.is_gpu : lanes == wide;
    // 16 bits are enough for most queries, and such vectors fit a CPU's vector registers. The
    // lowest number is the negative cost of a gap.
    const bool is_short =
        is_wide_ && highest_score(query_) + gap.open < std::numeric_limits<short>::max();
    const std::string cell = is_short ? "short" : "int";
    const std::size_t group = is_wide_ ? 1 : 64;
    const std::size_t cells =
        (is_short ? sizeof(cl_short) : sizeof(cl_int)) * (is_wide_ ? wide : 1);

    // Enough work-items for all threads of the device, limited by the memory for their columns.
    const std::size_t wanted =
        info<cl_uint>(device_, CL_DEVICE_MAX_COMPUTE_UNITS) * (is_wide_ ? 8 : 512);
    const std::size_t column = query_.size() * cells;
    const std::size_t possible = info<cl_ulong>(device_, CL_DEVICE_MAX_MEM_ALLOC_SIZE) / column;
    items_ = std::max(group, std::min(wanted, possible) / group * group);

    context_ = make_context(device_);
    queue_ = make_queue();
    kernel_ = build_kernel(
        context_, device_, smith_waterman_source,
        fmt::format("-DLANES={} -DCELL={} -DCELLS={}{} -DGROUP={} -DOPEN={} -DEXTEND={}",
                    is_wide_ ? wide : 1, cell, cell, is_wide_ ? "16" : "", group, gap.open,
                    gap.extend),
        "smith_waterman");
    static_assert(sizeof(cl_ulong) == sizeof(database_.starts[0]));
    starts_ = make_filled(context_, database_.starts.data(), database_.starts.size());
    scores_ = make_buffer(context_, database_.size() * sizeof(cl_int));
    query_buffer_ = make_filled(context_, query_.data(), query_.size());
    const std::vector<signed char> blosum = matrix();
    blosum_ = make_filled(context_, blosum.data(), blosum.size());
    best_ = make_buffer(context_, items_ * column);
    gap_ = make_buffer(context_, items_ * column);
    for (Buffer &carried : carried_)
        carried = make_buffer(context_, query_.size() * 2 * sizeof(cl_int));
}

void Search::set_block(std::size_t block) {
    chunks_ = cut(database_.starts, block);
    const std::size_t largest = size_of(0);
    for (Buffer &buffer : residues_) buffer = make_buffer(context_, largest);
    for (PinnedMemory &block : host_block_) block = PinnedMemory(context_, device_, largest);
}

File Search::open() const {
    File file(std::fopen(database_.path.c_str(), "rb"));
    if (!file || fseeko(file.get(), off_t(database_.residues_at), SEEK_SET) != 0)
        throw std::runtime_error(fmt::format("{}: {}", database_.path, std::strerror(errno)));
    return file;
}

Event Search::enqueue_kernel(const Queue &queue, std::size_t chunk, const WaitList &after) {
    const Chunk &part = chunks_[chunk];
    cl_uint index = 0;
    const auto set = [&](const auto &value) {
        check(clSetKernelArg(kernel_.get(), index++, sizeof value, &value), "clSetKernelArg");
    };
    const auto set_buffers = [&](std::initializer_list<cl_mem> all) {
        for (const cl_mem one : all) set(one);
    };
    set_buffers({buffer(chunk), starts_.get(), scores_.get(), query_buffer_.get()});
    set(cl_uint(query_.size()));
    set_buffers({blosum_.get(), best_.get(), gap_.get(), carried_[chunk % 2].get(),
                 carried_[(chunk + 1) % 2].get()});
    set(cl_ulong(part.begin));
    set(cl_ulong(part.end));
    set(cl_uint(part.first));
    set(cl_uint(part.count));

    const std::size_t local = is_wide_ ? 1 : 64, of_item = is_wide_ ? wide : 1;
    const std::size_t needed = (part.count + local * of_item - 1) / (local * of_item) * local;
    const std::size_t global = std::min(items_, needed);
    Event computed;
    check(clEnqueueNDRangeKernel(queue.get(), kernel_.get(), 1, nullptr, &global, &local,
                                 after.count(), after.data(), computed.put()),
          "enqueueing the kernel");
    check(clFlush(queue.get()), "clFlush");
    check(clTraceEvent(computed.get(), "smith_waterman"), "clTraceEvent");
    return computed;
}

void Search::reset() {
    const cl_int none = -1;
    check(clEnqueueFillBuffer(queue_.get(), scores_.get(), &none, sizeof none, 0,
                              database_.size() * sizeof none, 0, nullptr, nullptr),
          "clEnqueueFillBuffer");
    check(clFinish(queue_.get()), "clFinish");
}

std::vector<int> Search::scores() const {
    std::vector<int> all(database_.size());
    check(clEnqueueReadBuffer(queue_.get(), scores_.get(), CL_TRUE, 0, all.size() * sizeof(cl_int),
                              all.data(), 0, nullptr, nullptr),
          "reading the scores");
    return all;
}

double duration(const Event &event) {
    cl_ulong start, end;
    check(clGetEventProfilingInfo(event.get(), CL_PROFILING_COMMAND_START, sizeof start, &start,
                                  nullptr),
          "profiling");
    check(clGetEventProfilingInfo(event.get(), CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr),
          "profiling");
    return double(end - start) * 1e-9;
}

}  // namespace smith_waterman
