#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "splitting/access.hpp"
#include "splitting/expression.hpp"

namespace cldist::splitting {

/// One access to a buffer argument in a kernel's source.
struct AccessDescription {
    unsigned argument = 0;
    bool written = false;
    /// Each work-item that satisfies the conditions makes the access, in each round of its loops.
    bool certain = false;
    unsigned line = 0;                ///< line of the source; 0 if unknown
    Operand offset;                   ///< first byte
    Operand bytes;                    ///< number of bytes
    std::vector<Operand> conditions;  ///< they hold when the access is made
    /// Source text, for example "from[y * width + x]"; empty if unknown.
    std::string text{};
};

struct ArgumentDescription {
    std::string name;
    bool buffer = false;    ///< in global or constant memory
    std::string why_whole;  ///< why any of its bytes may be read; empty if the accesses are known
};

/// The result of the analysis of a kernel.
struct KernelDescription {
    std::string name;
    std::vector<ArgumentDescription> arguments;
    std::vector<AccessDescription> accesses;
    std::string why_not;   ///< why its launches can't be split; empty if they can
    std::string advice{};  ///< how to change the kernel so that it can be split
};

/// The kernels of a program. The keys are their names.
using Descriptions = std::map<std::string, KernelDescription>;

/// Convert to text and back. parse_descriptions() throws std::invalid_argument for other texts.
std::string text_of(const Descriptions &kernels);
Descriptions parse_descriptions(std::string_view text);

/// For users: the accesses of each argument, or why they are unknown, in complete lines.
std::string readable(const KernelDescription &kernel);

std::unique_ptr<AccessModel> model_from_description(const KernelDescription &kernel);

}  // namespace cldist::splitting
