#include "cluster/split/splitting.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <bit>
#include <sstream>

#include <fmt/format.h>

#include "base/config.hpp"
#include "base/log.hpp"
#include "splitting/functions.hpp"
#include "splitting/partition.hpp"

namespace cldist::cluster {
namespace {

using splitting::ArgumentAccess;
using splitting::Interval;
using splitting::Intervals;

// Cached per kernel. A launch has many ranges if its parts use pieces of rows.
constexpr std::size_t most_launches = 4096;
constexpr std::size_t most_ranges = std::size_t{1} << 18;

std::string text_of(const Intervals &intervals) {
    if (intervals.empty()) return "nothing";
    if (intervals.size() == 1)
        return fmt::format("[{}, {})", intervals.begin()->begin, intervals.begin()->end);
    return fmt::format("{} bytes in {} ranges of [{}, {})", intervals.bytes(), intervals.size(),
                       intervals.begin()->begin, (intervals.end() - 1)->end);
}

/// "argument 1 (from)".
std::string argument_text(const KernelObject &kernel, cl_uint index) {
    const auto &known = kernel.info->arguments;
    return fmt::format("argument {}{}", index,
                       index < known.size() && !known[index].name.empty()
                           ? fmt::format(" ({})", known[index].name)
                           : "");
}

std::vector<splitting::Immediate> immediates_of(const KernelObject &kernel) {
    std::vector<splitting::Immediate> immediates(kernel.arguments.size());
    for (std::size_t i = 0; i < immediates.size(); ++i) {
        immediates[i].value = kernel.arguments[i].value;
        if (MemObject *const memory = kernel.arguments[i].memory.get(); memory != nullptr)
            immediates[i].buffer_size = memory->size;
    }
    return immediates;
}

void add_accesses(std::vector<Access> &accesses, BufferId buffer, const Intervals &intervals,
                  AccessMode mode) {
    for (const Interval &interval : intervals)
        accesses.push_back({buffer, interval.begin, interval.end, mode});
}

}  // namespace

std::string text_of(const splitting::SubRange &range, unsigned dimensions) {
    std::string text;
    for (unsigned i = 0; i < dimensions; ++i)
        text += fmt::format("{}[{}, {})", i != 0 ? " x " : "", range.begin.at(i), range.end.at(i));
    return text;
}

cl_int SplitLaunch::enqueue(cl_command_queue queue, const KernelInfo &info, cl_kernel kernel,
                            const splitting::SubRange &range, bool with_local,
                            const Waits &waits) const {
    std::array<std::size_t, 3> offset{};
    std::array<std::size_t, 3> size{};
    for (unsigned i = 0; i < launch.dimensions; ++i) {
        offset.at(i) = launch.offset.at(i) + range.begin.at(i);
        size.at(i) = range.end.at(i) - range.begin.at(i);
    }
    if (info.gets_launch) {
        WholeLaunch whole{};
        for (unsigned i = 0; i < 3; ++i) {
            whole.offset[i] = launch.offset.at(i);
            whole.size[i] = launch.global.at(i);
            whole.first_group[i] = range.begin.at(i) / launch.local.at(i);
            whole.groups[i] = launch.groups(i);
        }
        check(clSetKernelArg(kernel, info.count, sizeof whole, &whole), "clSetKernelArg");
    }
    return clEnqueueNDRangeKernel(queue, kernel, launch.dimensions, offset.data(), size.data(),
                                  with_local ? launch.local.data() : nullptr, waits.count,
                                  waits.events, waits.event);
}

Splitting::Splitting(std::string kernel, std::shared_ptr<const splitting::AccessModel> model,
                     std::string why_not, bool asks_for_groups, bool speaks,
                     std::vector<double> shares, std::shared_ptr<Adaptation> adaptation)
    : kernel_(std::move(kernel)),
      model_(std::move(model)),
      why_not_(std::move(why_not)),
      asks_for_groups_(asks_for_groups),
      speaks_(speaks),
      shares_(std::move(shares)),
      adaptation_(std::move(adaptation)) {}

std::shared_ptr<Splitting> Splitting::with_model(
    std::shared_ptr<const splitting::AccessModel> model, std::string why_not) const {
    return std::make_shared<Splitting>(kernel_, std::move(model), std::move(why_not),
                                       asks_for_groups_, speaks_, shares_, adaptation_);
}

splitting::Launch Splitting::with_local(splitting::Launch launch, std::size_t most) const {
    // Drivers prefer long rows. Higher dimensions get the rest of `most`.
    constexpr std::array<std::size_t, 3> wanted{64, 16, 4};
    for (unsigned i = 0; i < launch.dimensions; ++i) {
        const std::size_t global = std::max<std::size_t>(launch.global.at(i), 1);
        std::size_t local = std::min({wanted.at(i), std::max<std::size_t>(most, 1), global});
        // If the kernel can't query it, it only defines where the launch may be cut. Small groups
        // allow many cuts.
        if (!asks_for_groups_)
            local =
                i == 0 ? std::min(local, std::max<std::size_t>(std::bit_floor(global / 64), 1)) : 1;
        while (asks_for_groups_ && global % local != 0) --local;
        launch.local.at(i) = local;
        most /= local;
    }
    return launch;
}

void Splitting::say_whole(const std::string &why) {
    if (!speaks_ || std::ranges::find(said_, why) != said_.end()) return;
    said_.push_back(why);
    log_warning("kernel {} runs unsplit on one device: {}", kernel_, why);
}

std::shared_ptr<SplitLaunch> Splitting::split(const KernelObject &kernel,
                                              const splitting::Launch &launch) {
    key_.clear();
    for (unsigned i = 0; i < launch.dimensions; ++i)
        key_.insert(key_.end(), {launch.offset.at(i), launch.global.at(i), launch.local.at(i)});
    for (const KernelObject::Argument &argument : kernel.arguments) {
        MemObject *const memory = argument.memory.get();
        if (memory != nullptr) {
            key_.insert(key_.end(), {memory->root().number, memory->origin, memory->size});
            continue;
        }
        key_.push_back(argument.value.size());
        for (std::size_t at = 0; at < argument.value.size(); at += sizeof(std::uint64_t)) {
            std::uint64_t word = 0;
            std::memcpy(&word, argument.value.data() + at,
                        std::min(sizeof word, argument.value.size() - at));
            key_.push_back(word);
        }
    }
    const unsigned version = adaptation_ != nullptr ? adaptation_->shares.version() : 0;
    const auto known = launches_.find(key_);
    if (known != launches_.end() && known->second->version == version) return known->second;
    // Launches of an earlier version do not occur again.
    if (known != launches_.end() || launches_.size() >= most_launches || ranges_ >= most_ranges) {
        launches_.clear();
        ranges_ = 0;
    }
    auto split = std::make_shared<SplitLaunch>();
    split->launch = launch;
    split->version = version;
    const std::vector<double> &shares =
        adaptation_ != nullptr ? adaptation_->shares.shares() : shares_;
    const std::vector<double> equal(shares.size(), 1);
    std::string why = plan(kernel, *split, shares);
    // With equal shares, perhaps no two parts write the same byte.
    if (!why.empty() && shares != equal) why = plan(kernel, *split, equal);
    if (!why.empty()) {
        split->parts.clear();
        say_whole(why);
    } else if (adaptation_ != nullptr) {
        split->kind = adaptation_->kind_of(kernel_, launch);
    }
    for (const SplitLaunch::PartOfLaunch &part : split->parts) {
        split->all.push_back({kernel.program->context->devices[part.lane]->memory, part.accesses});
        ranges_ += part.accesses.size();
    }
    if (speaks_ && config().explain == Switch::on) explain(kernel, *split);
    return launches_[key_] = std::move(split);
}

std::string Splitting::plan(const KernelObject &kernel, SplitLaunch &split,
                            std::span<const double> shares) const {
    split.parts.clear();
    split.buffers.clear();
    if (!why_not_.empty()) return why_not_;
    if (model_ == nullptr) return "its accesses are unknown";
    std::string why;
    if (!model_->splittable(why)) return why;

    const std::vector<splitting::Immediate> immediates = immediates_of(kernel);

    struct Written {
        std::size_t begin;
        std::size_t end;
        std::size_t part;
    };
    std::map<BufferId, std::vector<Written>> written;  // by any part
    const auto ranges = splitting::partition(split.launch, shares);
    for (std::size_t lane = 0; lane < ranges.size(); ++lane) {
        if (ranges[lane].empty()) continue;
        auto accesses = model_->accesses(split.launch, ranges[lane], immediates);
        if (!accesses)
            return "cldist cannot compute its accesses for these sizes and argument values";
        SplitLaunch::PartOfLaunch part{lane, ranges[lane], {}, {}};
        std::map<BufferId, std::pair<Intervals, Intervals>> uses;  // reads, writes
        for (cl_uint i = 0; i < kernel.arguments.size(); ++i) {
            MemObject *const memory = kernel.arguments[i].memory.get();
            if (memory == nullptr) continue;
            ArgumentAccess &access = (*accesses)[i];
            if (memory->is_image()) {
                if (!kernel.reads_only(i, *memory))
                    return fmt::format("it may write argument {}, an image", i);
                access.reads_whole = true;
            }
            if (access.reads_whole) access.read = Intervals{{0, memory->size}};
            const Intervals buffer{{0, memory->size}};
            access.read.intersect(buffer);
            access.written.intersect(buffer);
            if (kernel.reads_only(i, *memory)) access.written = {};
            auto &[read, write] = uses[memory->root().id];
            const auto in_root = [&](const Intervals &intervals) {
                if (memory->origin == 0) return intervals;
                std::vector<Interval> moved;
                for (const Interval &interval : intervals)
                    moved.push_back(
                        {interval.begin + memory->origin, interval.end + memory->origin});
                return Intervals(std::move(moved));
            };
            read.unite(in_root(access.read));
            write.unite(in_root(access.written));
        }
        for (const auto &[buffer, use] : uses) {
            const auto &[read, write] = use;
            for (const Interval &interval : write)
                written[buffer].push_back({interval.begin, interval.end, split.parts.size()});
            Intervals both = read;
            both.intersect(write);
            const std::size_t first = part.accesses.size();
            add_accesses(part.accesses, buffer, without(read, write), AccessMode::read);
            add_accesses(part.accesses, buffer, both, AccessMode::read_write);
            add_accesses(part.accesses, buffer, without(write, read), AccessMode::write);
            std::sort(part.accesses.begin() + static_cast<std::ptrdiff_t>(first),
                      part.accesses.end(),
                      [](const Access &a, const Access &b) { return a.begin < b.begin; });
            if (std::ranges::find(split.buffers, buffer) == split.buffers.end())
                split.buffers.push_back(buffer);
        }
        if (config().check_access == Switch::on) part.arguments = std::move(*accesses);
        split.parts.push_back(std::move(part));
    }
    for (auto &[buffer, all] : written) {
        std::ranges::sort(all, {}, &Written::begin);
        for (std::size_t i = 1; i < all.size(); ++i) {
            if (all[i].begin >= all[i - 1].end) continue;
            cl_uint argument = 0;
            for (cl_uint j = 0; j < kernel.arguments.size(); ++j)
                if (MemObject *const memory = kernel.arguments[j].memory.get();
                    memory != nullptr && memory->root().id == buffer &&
                    !kernel.reads_only(j, *memory))
                    argument = j;
            const unsigned dimensions = split.launch.dimensions;
            const std::size_t end = std::min(all[i].end, all[i - 1].end);
            // A part may leave bytes unwritten that it also reads.
            const auto surely_writes = [&](std::size_t part) {
                const auto &accesses = split.parts[part].accesses;
                return std::ranges::none_of(accesses, [&](const Access &access) {
                    return access.buffer == buffer && access.mode != AccessMode::write &&
                           access.begin < end && all[i].begin < access.end;
                });
            };
            const bool is_sure = surely_writes(all[i].part) && surely_writes(all[i - 1].part);
            return fmt::format("{} bytes [{}, {}) of {}: work-items {} and {}",
                               is_sure ? "two sub-ranges would write" : "two sub-ranges may write",
                               all[i].begin, end, argument_text(kernel, argument),
                               text_of(split.parts[all[i - 1].part].range, dimensions),
                               text_of(split.parts[all[i].part].range, dimensions));
        }
    }
    return {};
}

/// The bytes that neighbouring parts both use, for CLDIST_EXPLAIN. One device sends them to the
/// other after it has written them.
std::string Splitting::text_of_common(const KernelObject &kernel, const SplitLaunch &split) const {
    std::string text;
    for (std::size_t i = 1; i < split.parts.size(); ++i) {
        const SplitLaunch::PartOfLaunch &part = split.parts[i];
        const SplitLaunch::PartOfLaunch &before = split.parts[i - 1];
        for (cl_uint argument = 0; argument < kernel.arguments.size(); ++argument) {
            MemObject *const memory = kernel.arguments[argument].memory.get();
            if (memory == nullptr) continue;
            const auto used = [&](const SplitLaunch::PartOfLaunch &of) {
                std::vector<Interval> all;
                for (const Access &access : of.accesses)
                    if (access.buffer == memory->root().id)
                        all.push_back({access.begin, access.end});
                return Intervals(std::move(all));
            };
            Intervals common = used(part);
            common.intersect(used(before));
            if (!common.empty())
                text += fmt::format("  devices {} and {} both use {} of {}\n", before.lane,
                                    part.lane, text_of(common), argument_text(kernel, argument));
        }
    }
    return text;
}

void Splitting::explain(const KernelObject &kernel, const SplitLaunch &split) const {
    const splitting::Launch &launch = split.launch;
    std::string text =
        fmt::format("cldist: kernel {}, {} work-items: {}\n", kernel_,
                    text_of(whole(launch), launch.dimensions),
                    split.parts.empty() ? "unsplit on one device"
                                        : fmt::format("{} parts", split.parts.size()));
    const std::vector<splitting::Immediate> immediates = immediates_of(kernel);
    for (const SplitLaunch::PartOfLaunch &part : split.parts) {
        text += fmt::format("  device {}: work-items {}\n", part.lane,
                            text_of(part.range, launch.dimensions));
        const auto accesses = model_->accesses(launch, part.range, immediates);
        for (std::size_t i = 0; accesses && i < kernel.arguments.size(); ++i) {
            if (kernel.arguments[i].memory.get() == nullptr) continue;
            const ArgumentAccess &access = (*accesses)[i];
            text += fmt::format(
                "    {}: reads {}, writes {}\n", argument_text(kernel, static_cast<cl_uint>(i)),
                access.reads_whole ? "all" : text_of(access.read), text_of(access.written));
        }
    }
    text += text_of_common(kernel, split);
    std::fputs(text.c_str(), stderr);
}

std::shared_ptr<const splitting::AccessModel> find_functions(const std::string &kernel) {
    static const std::vector<void *> places = [] {
        std::vector<void *> found{RTLD_DEFAULT};
        std::istringstream names(config().access_functions);
        for (std::string name; std::getline(names, name, ':');) {
            if (name.empty()) continue;
            void *const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
            if (library == nullptr)
                log_error("CLDIST_ACCESS_FUNCTIONS: {}", dlerror());
            else
                found.push_back(library);
        }
        return found;
    }();
    const std::string read = "is_buffer_range_read_" + kernel;
    const std::string written = "is_buffer_range_written_" + kernel;
    for (void *const place : places) {
        void *const is_read = dlsym(place, read.c_str());
        void *const is_written = dlsym(place, written.c_str());
        if (is_read != nullptr && is_written != nullptr)
            return splitting::model_from_functions(
                reinterpret_cast<splitting::MetaFunction>(is_read),
                reinterpret_cast<splitting::MetaFunction>(is_written));
        if (is_read != nullptr || is_written != nullptr)
            log_warning("{} exists, but {} does not; a kernel needs both access functions",
                        is_read != nullptr ? read : written, is_read != nullptr ? written : read);
    }
    return nullptr;
}

}  // namespace cldist::cluster
