#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cldist::analysis {

/// The lines of a program, by the file names and line numbers that #line sets.
class SourceLines {
public:
    explicit SourceLines(const std::string &source);

    /// The source text of the access at this position, such as "from[y * width + x]". Empty if
    /// there is none, for example in a macro.
    [[nodiscard]] std::string access_at(const std::string &file, unsigned line,
                                        unsigned column) const;

private:
    std::map<std::pair<std::string, unsigned>, std::vector<std::string>> lines_;
};

}  // namespace cldist::analysis
