#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cldist::analysis {

/// The lines of a program, by the files and numbers that #line gives them.
class SourceLines {
public:
    explicit SourceLines(const std::string &source);

    /// The access that is written there: "from[y * width + x]". Empty if none is: a macro has it.
    [[nodiscard]] std::string access_at(const std::string &file, unsigned line, unsigned column) const;

private:
    std::map<std::pair<std::string, unsigned>, std::vector<std::string>> lines_;
};

}  // namespace cldist::analysis
