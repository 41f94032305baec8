#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cldist::cluster {

/// Determines how a device's compiler preprocesses a program. The compiler builds program(), which
/// contains only the directives. Its kernel reports which branches of conditionals were taken, and
/// the values of predefined macros.
class Conditionals {
public:
    /// `source` contains its included files. `options` are those of clBuildProgram. Throws
    /// std::runtime_error if the source uses a feature that prevents the query.
    Conditionals(const std::string &source, const std::string &options);

    /// Returns true if preprocessing does not depend on the compiler.
    [[nodiscard]] bool empty() const { return branches_.empty() && macros_.empty(); }

    /// The name of the kernel in program(). Its arguments are a char buffer for the report, which
    /// ends with a zero byte, and the size of the buffer as a uint.
    static constexpr const char *kernel_name = "cldist_report";
    [[nodiscard]] std::string program() const;
    /// The size for the buffer. It has room for 64 KiB of macro values.
    [[nodiscard]] std::size_t report_size() const;

    /// Returns the source as the compiler that made this report preprocesses it: without
    /// conditionals, and with definitions of the predefined macros. Line numbers are unchanged.
    /// Throws std::runtime_error if the report is malformed, a file that is included is missing, or
    /// the source uses a macro such as __FILE__ or __COUNTER__.
    [[nodiscard]] std::string decided(const std::string &report) const;
    /// The value of __OPENCL_C_VERSION__ in a report; 0 if it is not defined there.
    [[nodiscard]] unsigned language_version(const std::string &report) const;
    /// Returns the first difference between two reports, for messages. Empty if there is none.
    [[nodiscard]] std::string difference(const std::string &report, const std::string &other) const;

private:
    struct Branch {
        std::size_t token;
        unsigned line;
    };
    struct Report {
        std::string taken;  // per branch: '1' or '0'
        // Per macro: "=" and the expansion. Empty if it is not defined.
        std::vector<std::string> values;
    };
    [[nodiscard]] Report parsed(const std::string &report) const;

    std::string source_;  // continued lines are joined
    std::vector<Branch> branches_;
    // Macros that compilers may predefine and the program uses. The first is __OPENCL_C_VERSION__.
    std::vector<std::string> macros_;
};

}  // namespace cldist::cluster
