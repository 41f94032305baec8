#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "splitting/access.hpp"
#include "splitting/expression.hpp"

namespace cldist::splitting {

/// One access of a kernel's source to a buffer argument.
struct AccessDescription {
    unsigned argument = 0;
    bool written = false;
    bool certain =
        false;          ///< each work-item for which the conditions hold makes it, in each round of the loops around it
    unsigned line = 0;  ///< of the source; 0 if not known
    Operand offset;     ///< first byte
    Operand bytes;      ///< how many
    std::vector<Operand> conditions;  ///< that hold when it is made
    std::string text{};               ///< as the source has it: "from[y * width + x]"; empty if not known
};

struct ArgumentDescription {
    std::string name;
    bool buffer = false;    ///< in global or constant memory
    std::string why_whole;  ///< why any of its bytes may be read; empty if that is known better
};

/// What was derived of a kernel.
struct KernelDescription {
    std::string name;
    std::vector<ArgumentDescription> arguments;
    std::vector<AccessDescription> accesses;
    std::string why_not;   ///< why its launches can't be split; empty if they can
    std::string advice{};  ///< what to do about it, then
};

/// Of a program's kernels, by their names.
using Descriptions = std::map<std::string, KernelDescription>;

/// As text, and back. Throws std::invalid_argument for a text that text_of() has not made.
std::string text_of(const Descriptions &kernels);
Descriptions parse_descriptions(std::string_view text);

/// For readers: what each argument's accesses are, or why they are not known; lines with an end.
std::string readable(const KernelDescription &kernel);

std::unique_ptr<AccessModel> model_from_description(const KernelDescription &kernel);

}  // namespace cldist::splitting
