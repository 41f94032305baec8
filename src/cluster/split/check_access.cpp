#include "cluster/split/check_access.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "ocl/query.hpp"

namespace cldist::cluster {
namespace {

using splitting::Interval;
using splitting::Intervals;

using Bytes = std::vector<std::byte>;

/// How a trial fills the bytes that the part does not read according to its accesses. Bytes that
/// the part should write get other values than the rest, so that unwritten bytes are noticed.
enum class Fill { zeros, varied };

/// `zeros` uses one value for all bytes. `varied` makes it depend on argument and byte, so that
/// copies from such bytes to others are noticed, too. The values are small both as floating-point
/// numbers and as one-byte integers.
std::byte filling(Fill fill, bool is_written, std::size_t copy, std::size_t at) {
    if (fill == Fill::zeros) return is_written ? std::byte{0x55} : std::byte{0};
    return static_cast<std::byte>((is_written ? 0xa0U : 0x30U) | ((mixed(at) + copy) & 0xfU));
}

/// Runs a part on copies of its buffers.
class Trial {
public:
    Trial(const QueueObject &lane, const KernelObject &kernel, const SplitLaunch &split,
          const SplitLaunch::PartOfLaunch &part, bool with_local)
        : kernel_(kernel),
          split_(split),
          part_(part),
          with_local_(with_local),
          space_(*lane.space) {
        queue_ = create("clCreateCommandQueue", clCreateCommandQueue, space_.context.get(),
                        lane.device->native, 0U);
        native_ = create("clCreateKernel", clCreateKernel, kernel.program->native(space_),
                         kernel.info->name.c_str());
        for (cl_uint i = 0; i < kernel.arguments.size(); ++i) set(i);
    }

    void examine() {
        std::vector<Bytes> inputs_a;
        std::vector<Bytes> inputs_b;
        for (std::size_t i = 0; i < copies_.size(); ++i) {
            inputs_a.push_back(input(i, Fill::zeros));
            inputs_b.push_back(input(i, Fill::varied));
        }
        const auto out_a = run(inputs_a);
        const auto out_b = run(inputs_b);
        for (std::size_t i = 0; i < copies_.size(); ++i) {
            check_written(i, inputs_a[i], out_a[i], inputs_b[i], out_b[i]);
            check_left_alone(i, inputs_a[i], out_a[i], inputs_b[i], out_b[i]);
        }
        if (depends(out_a, out_b, inputs_a, inputs_b)) find_read(inputs_a, out_a, inputs_b);
    }

private:
    struct Copy {
        cl_uint argument;
        Bytes contents;
        Mem memory;
    };

    void set(cl_uint index) {
        const KernelObject::Argument &argument = kernel_.arguments[index];
        MemObject *const memory = argument.memory.get();
        if (memory == nullptr || memory->is_image()) {
            argument.set_in(native_.get(), index, space_);
            return;
        }
        Copy copy{index, Bytes(memory->size), {}};
        check(clEnqueueReadBuffer(queue_.get(), memory->root().native(space_), CL_TRUE,
                                  memory->origin, memory->size, copy.contents.data(), 0, nullptr,
                                  nullptr),
              "clEnqueueReadBuffer");
        copy.memory = create("clCreateBuffer", clCreateBuffer, space_.context.get(),
                             CL_MEM_READ_WRITE, memory->size, nullptr);
        const cl_mem native = copy.memory.get();
        check(clSetKernelArg(native_.get(), index, sizeof native, &native), "clSetKernelArg");
        copies_.push_back(std::move(copy));
    }

    [[nodiscard]] const splitting::ArgumentAccess &said(std::size_t copy) const {
        return part_.arguments[copies_[copy].argument];
    }
    [[nodiscard]] Intervals undeclared(std::size_t copy) const {
        return without(Intervals{{0, copies_[copy].contents.size()}}, said(copy).read);
    }
    [[nodiscard]] Bytes input(std::size_t copy, Fill fill) const {
        Bytes bytes = copies_[copy].contents;
        for (const Interval &interval : undeclared(copy))
            for (std::size_t at = interval.begin; at < interval.end; ++at)
                bytes[at] = filling(fill, false, copy, at);
        for (const Interval &interval : without(said(copy).written, said(copy).read))
            for (std::size_t at = interval.begin; at < interval.end; ++at)
                bytes[at] = filling(fill, true, copy, at);
        return bytes;
    }

    std::vector<Bytes> run(const std::vector<Bytes> &inputs) {
        for (std::size_t i = 0; i < copies_.size(); ++i)
            check(clEnqueueWriteBuffer(queue_.get(), copies_[i].memory.get(), CL_TRUE, 0,
                                       inputs[i].size(), inputs[i].data(), 0, nullptr, nullptr),
                  "clEnqueueWriteBuffer");
        check(split_.enqueue(queue_.get(), *kernel_.info, native_.get(), part_.range, with_local_,
                             {0, nullptr, nullptr}),
              "clEnqueueNDRangeKernel");
        std::vector<Bytes> outputs;
        for (const Copy &copy : copies_) {
            outputs.emplace_back(copy.contents.size());
            check(clEnqueueReadBuffer(queue_.get(), copy.memory.get(), CL_TRUE, 0,
                                      outputs.back().size(), outputs.back().data(), 0, nullptr,
                                      nullptr),
                  "clEnqueueReadBuffer");
        }
        return outputs;
    }

    void say(std::size_t copy, Interval bytes, const char *what) const {
        log_error("kernel {}, argument {}, work-items {}: the sub-range {} bytes [{}, {})",
                  kernel_.info->name, copies_[copy].argument,
                  text_of(part_.range, split_.launch.dimensions), what, bytes.begin, bytes.end);
    }

    /// The first range of bytes in `where` that are wrong. Empty if there is none.
    template <typename Wrong>
    static Interval first_of(const Intervals &where, Wrong &&wrong) {
        for (const Interval &interval : where)
            for (std::size_t at = interval.begin; at < interval.end; ++at) {
                if (!wrong(at)) continue;
                // Joins ranges up to two bytes apart: the bytes between are right by chance.
                std::size_t last = at;
                for (std::size_t end = at + 1; end < interval.end && end - last <= 3; ++end)
                    if (wrong(end)) last = end;
                return {at, last + 1};
            }
        return {};
    }

    void check_written(std::size_t copy, const Bytes &in_a, const Bytes &out_a, const Bytes &in_b,
                       const Bytes &out_b) const {
        const Intervals others = without(Intervals{{0, in_a.size()}}, said(copy).written);
        const Interval found = first_of(
            others, [&](std::size_t at) { return out_a[at] != in_a[at] || out_b[at] != in_b[at]; });
        if (found.end != 0)
            say(copy, found, "writes, without an access function that reports this,");
    }

    void check_left_alone(std::size_t copy, const Bytes &in_a, const Bytes &out_a,
                          const Bytes &in_b, const Bytes &out_b) const {
        const Intervals only_written = without(said(copy).written, said(copy).read);
        const Interval found = first_of(only_written, [&](std::size_t at) {
            return out_a[at] == in_a[at] && out_b[at] == in_b[at];
        });
        if (found.end != 0)
            say(copy, found,
                "leaves unchanged, although they are reported as written and not as read,");
    }

    /// Returns true if the bytes that the part writes depend on the filling.
    [[nodiscard]] bool depends(const std::vector<Bytes> &out_a, const std::vector<Bytes> &out_b,
                               const std::vector<Bytes> &in_a,
                               const std::vector<Bytes> &in_b) const {
        for (std::size_t i = 0; i < copies_.size(); ++i)
            for (std::size_t at = 0; at < out_a[i].size(); ++at)
                if (out_a[i][at] != out_b[i][at] &&
                    (out_a[i][at] != in_a[i][at] || out_b[i][at] != in_b[i][at]))
                    return true;
        return false;
    }

    /// Logs the undeclared bytes on which the part depends, one range per argument (bisection).
    void find_read(const std::vector<Bytes> &inputs_a, const std::vector<Bytes> &out_a,
                   const std::vector<Bytes> &inputs_b) {
        const auto differs = [&](std::size_t copy, Interval bytes) {
            Intervals where = undeclared(copy);
            where.intersect(Intervals{bytes});
            std::vector<Bytes> inputs = inputs_a;
            for (const Interval &interval : where)
                std::copy(inputs_b[copy].begin() + static_cast<std::ptrdiff_t>(interval.begin),
                          inputs_b[copy].begin() + static_cast<std::ptrdiff_t>(interval.end),
                          inputs[copy].begin() + static_cast<std::ptrdiff_t>(interval.begin));
            return depends(out_a, run(inputs), inputs_a, inputs);
        };
        for (std::size_t copy = 0; copy < copies_.size(); ++copy) {
            Interval bytes{0, copies_[copy].contents.size()};
            if (!differs(copy, bytes)) continue;
            for (bool smaller = true; smaller && bytes.end - bytes.begin > 1;) {
                const std::size_t middle = bytes.begin + (bytes.end - bytes.begin) / 2;
                smaller = false;
                for (const Interval half :
                     {Interval{bytes.begin, middle}, Interval{middle, bytes.end}}) {
                    if (!differs(copy, half)) continue;
                    bytes = half;
                    smaller = true;
                    break;
                }
            }
            say(copy, bytes, "reads, without an access function that reports this,");
        }
    }

    const KernelObject &kernel_;
    const SplitLaunch &split_;
    const SplitLaunch::PartOfLaunch &part_;
    const bool with_local_;
    Space &space_;
    Queue queue_;
    Kernel native_;
    std::vector<Copy> copies_;
};

}  // namespace

void check_contents(const KernelObject &kernel, const SplitLaunch &split,
                    const SplitLaunch::PartOfLaunch &part, const Schedule &schedule) {
    for (cl_uint i = 0; i < kernel.arguments.size(); ++i) {
        MemObject *const memory = kernel.arguments[i].memory.get();
        if (memory == nullptr || part.arguments[i].reads_whole) continue;
        Interval found;
        for (const Interval &interval : part.arguments[i].read)
            schedule.residency(memory->root().id)
                .holders()
                .visit(interval.begin + memory->origin, interval.end + memory->origin,
                       [&](std::size_t begin, std::size_t end, const Holders &holders) {
                           if (holders.count() != 0 || found.end != 0) return;
                           found = {begin - memory->origin, end - memory->origin};
                       });
        if (found.end != 0)
            log_error(
                "kernel {}, argument {}, work-items {}: the sub-range reads (by its access "
                "functions) bytes [{}, {}), which nothing has written",
                kernel.info->name, i, text_of(part.range, split.launch.dimensions), found.begin,
                found.end);
    }
}

void check_part(const QueueObject &lane, const KernelObject &kernel, const SplitLaunch &split,
                const SplitLaunch::PartOfLaunch &part, bool with_local) {
    std::vector<const MemObject *> roots;
    for (const KernelObject::Argument &argument : kernel.arguments)
        if (MemObject *const memory = argument.memory.get(); memory != nullptr)
            roots.push_back(&memory->root());
    std::ranges::sort(roots);
    if (std::ranges::adjacent_find(roots) != roots.end()) {
        log_warning("kernel {}: cannot check a launch in which two arguments are the same buffer",
                    kernel.info->name);
        return;
    }
    try {
        Trial(lane, kernel, split, part, with_local).examine();
    } catch (const Error &error) {
        log_error("cannot check kernel {}: {}", kernel.info->name, error.status().message);
    }
}

}  // namespace cldist::cluster
