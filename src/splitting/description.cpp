#include "splitting/description.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "splitting/bounds.hpp"

namespace cldist::splitting {

namespace {

/// With more ranges, read ranges are merged, and written ranges count as not understood.
constexpr std::size_t most_ranges = std::size_t{1} << 20;

/// A longer range comes from an unknown value.
constexpr Wide most_bytes = Wide{1} << 46;

// ---- Text: one item per line, which begins with its kind

constexpr std::string_view first_line = "cldist-accesses 2";

std::string without_ends(std::string text) {
    std::ranges::replace(text, '\n', ' ');
    return text;
}

std::string_view take_word(std::string_view &line) {
    const auto end = std::min(line.find(' '), line.size());
    const auto word = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    return word;
}

// ---- The model

class DescribedModel final : public AccessModel {
public:
    explicit DescribedModel(const KernelDescription &kernel) : kernel_(kernel) {}

    bool splittable(std::string &why_not) const override {
        why_not = kernel_.why_not;
        if (!kernel_.advice.empty()) why_not += "; to have it split: " + kernel_.advice;
        return kernel_.why_not.empty();
    }

    std::optional<std::vector<ArgumentAccess>> accesses(
        const Launch &launch, const SubRange &part,
        std::span<const Immediate> arguments) const override {
        if (!kernel_.why_not.empty() || arguments.size() != kernel_.arguments.size())
            return std::nullopt;
        std::vector<ArgumentAccess> all(arguments.size());
        std::vector<Boxes> boxes(arguments.size());
        const auto groups = equal_groups(launch, part);
        for (std::size_t i = 0; i < all.size() && !groups.empty(); ++i)
            all[i].reads_whole = !kernel_.arguments[i].why_whole.empty();
        for (const AccessDescription &access : kernel_.accesses) {
            const ArgumentAccess &argument = all.at(access.argument);
            for (const Groups &equal : groups) {
                if (!access.written && argument.reads_whole) break;
                if (!add(access, launch, equal, arguments, all[access.argument],
                         boxes[access.argument]))
                    return std::nullopt;
            }
        }
        for (std::size_t i = 0; i < all.size(); ++i) {
            for (const Box &box : boxes[i].written) {
                if (ranges_of(box) > most_ranges) return std::nullopt;
                all[i].written.unite(Intervals(box));
            }
            if (all[i].reads_whole) continue;
            for (const Box &box : boxes[i].read) all[i].read.unite(Intervals(coarsened(box)));
        }
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (arguments[i].buffer_size == 0) continue;
            const Intervals buffer{{0, arguments[i].buffer_size}};
            all[i].read.intersect(buffer);
            all[i].written.intersect(buffer);
            if (all[i].reads_whole) all[i].read = buffer;
        }
        return all;
    }

private:
    /// The accesses to one argument.
    struct Boxes {
        std::vector<Box> read;
        std::vector<Box> written;
    };

    /// Adds a box. Boxes with equal steps that touch are merged.
    static void unite(std::vector<Box> &boxes, Box box) {
        for (;;) {
            const auto touching = std::ranges::find_if(boxes, [&](const Box &other) {
                return other.steps == box.steps && other.begin <= box.begin + box.length &&
                       box.begin <= other.begin + other.length;
            });
            if (touching == boxes.end()) break;
            const std::size_t end =
                std::max(touching->begin + touching->length, box.begin + box.length);
            box.begin = std::min(touching->begin, box.begin);
            box.length = end - box.begin;
            box = normalised(box);
            boxes.erase(touching);
        }
        boxes.push_back(std::move(box));
    }

    /// Merges ranges until the box has at most most_ranges.
    static Box coarsened(Box box) {
        while (ranges_of(box) > most_ranges) {
            const auto [stride, count] = box.steps.front();
            box.length += stride * (count - 1);
            box.steps.erase(box.steps.begin());
            box = normalised(box);
        }
        return box;
    }

    /// Adds an access. Returns false if it is not understood.
    static bool add(const AccessDescription &access, const Launch &launch, const Groups &groups,
                    std::span<const Immediate> arguments, ArgumentAccess &argument, Boxes &boxes) {
        Evaluation evaluation(launch, groups, arguments);
        if (!evaluation.narrow(access.conditions)) return true;
        const auto steps = evaluation.steps(evaluation.form(*access.offset));
        const auto bytes = evaluation.bounds(evaluation.form(*access.bytes));
        const auto not_understood = [&] {
            argument.reads_whole = argument.reads_whole || !access.written;
            return !access.written;
        };
        if (!steps || !bytes || bytes->high > most_bytes) return not_understood();
        if (bytes->high <= 0) return true;
        // There are no bytes before the buffer.
        Wide begin = steps->begin.low;
        Wide length = steps->begin.high - steps->begin.low + bytes->high;
        if (length > most_bytes) return not_understood();
        bool exact = steps->exact && bytes->low == bytes->high && access.certain;
        Box box;
        const std::size_t end_of_buffer = arguments[access.argument].buffer_size;
        for (const auto &[stride, count] : steps->steps) {
            Wide reach = 0;
            if (__builtin_mul_overflow(stride, count - 1, &reach) || reach > most_bytes)
                return not_understood();
            if (begin < 0) {
                length += reach;
                if (length > most_bytes) return not_understood();
                exact = false;
            } else {
                box.steps.emplace_back(static_cast<std::size_t>(stride),
                                       static_cast<std::size_t>(count));
            }
        }
        if (begin < 0) {
            length += begin;
            begin = 0;
            if (length <= 0) return true;
        }
        if (begin > most_bytes) return not_understood();
        box.begin = static_cast<std::size_t>(begin);
        box.length = static_cast<std::size_t>(length);
        box = normalised(box);
        if (end_of_buffer != 0 && box.begin >= end_of_buffer) return true;
        const bool always =
            exact && std::ranges::all_of(access.conditions, [&](const Operand &condition) {
                return evaluation.always(*condition);
            });
        if (access.written) unite(boxes.written, box);
        if (!access.written || !always) unite(boxes.read, box);
        return true;
    }

    const KernelDescription kernel_;
};

}  // namespace

std::string text_of(const Descriptions &kernels) {
    std::string text = std::string(first_line) + "\n";
    for (const auto &[name, kernel] : kernels) {
        text += "kernel " + name + "\n";
        if (!kernel.why_not.empty()) text += "why_not " + without_ends(kernel.why_not) + "\n";
        if (!kernel.advice.empty()) text += "advice " + without_ends(kernel.advice) + "\n";
        for (const ArgumentDescription &argument : kernel.arguments) {
            text += std::string(argument.buffer ? "buffer " : "argument ") + argument.name + "\n";
            if (!argument.why_whole.empty())
                text += "why_whole " + without_ends(argument.why_whole) + "\n";
        }
        for (const AccessDescription &access : kernel.accesses) {
            text += std::string(access.written ? "write " : "read ") +
                    std::to_string(access.argument) + " " + std::to_string(access.certain ? 1 : 0) +
                    " " + std::to_string(access.line) + " " + text_of(*access.offset) + " " +
                    text_of(*access.bytes);
            for (const Operand &condition : access.conditions) text += " " + text_of(*condition);
            text += "\n";
            if (!access.text.empty()) text += "text " + without_ends(access.text) + "\n";
        }
    }
    return text;
}

Descriptions parse_descriptions(std::string_view text) {
    Descriptions kernels;
    KernelDescription *kernel = nullptr;
    const auto take_line = [&] {
        const auto end = std::min(text.find('\n'), text.size());
        const auto line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        return line;
    };
    if (const auto line = take_line(); line != first_line) {
        throw std::invalid_argument("\"" + std::string(first_line) + "\" was expected, got \"" +
                                    std::string(line) + "\"");
    }
    while (!text.empty()) {
        auto line = take_line();
        const auto kind = take_word(line);
        if (kind == "kernel") {
            kernel = &kernels[std::string(line)];
            kernel->name = line;
            continue;
        }
        if (kernel == nullptr)
            throw std::invalid_argument("\"kernel\" was expected, got \"" + std::string(kind) +
                                        "\"");
        if (kind == "why_not") {
            kernel->why_not = line;
        } else if (kind == "advice") {
            kernel->advice = line;
        } else if (kind == "text" && !kernel->accesses.empty()) {
            kernel->accesses.back().text = line;
        } else if (kind == "argument" || kind == "buffer") {
            kernel->arguments.push_back({std::string(line), kind == "buffer", {}});
        } else if (kind == "why_whole" && !kernel->arguments.empty()) {
            kernel->arguments.back().why_whole = line;
        } else if (kind == "read" || kind == "write") {
            AccessDescription access;
            access.written = kind == "write";
            access.argument = take_number(line);
            access.certain = take_number(line) != 0;
            access.line = take_number(line);
            if (access.argument >= kernel->arguments.size()) {
                throw std::invalid_argument("kernel \"" + kernel->name + "\" has no argument " +
                                            std::to_string(access.argument));
            }
            access.offset = parse_expression(line);
            access.bytes = parse_expression(line);
            while (line.find('(') != std::string_view::npos)
                access.conditions.push_back(parse_expression(line));
            kernel->accesses.push_back(std::move(access));
        } else {
            throw std::invalid_argument("a description of kernels has no \"" + std::string(kind) +
                                        "\"");
        }
    }
    return kernels;
}

std::unique_ptr<AccessModel> model_from_description(const KernelDescription &kernel) {
    return std::make_unique<DescribedModel>(kernel);
}

}  // namespace cldist::splitting
