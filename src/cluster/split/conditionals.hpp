#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cldist::cluster {

/// Finds out from a device's compiler how it preprocesses a program. The compiler builds a program
/// with only the directives. Its kernel reports which branches of conditionals were taken, and the
/// values of the predefined macros.
///
/// The text has its included files in place. The options are those of clBuildProgram.
class Conditionals {
public:
    /// Throws std::runtime_error if the text's preprocessing can't be asked for.
    Conditionals(const std::string &source, const std::string &options);

    /// Whether nothing depends on the compiler.
    [[nodiscard]] bool empty() const { return branches_.empty() && macros_.empty(); }

    /// The name of the kernel of program(). Its arguments: a buffer of char, to which it writes its
    /// report, which ends with 0; and that buffer's size, a uint.
    static constexpr const char *kernel_name = "cldist_report";
    [[nodiscard]] std::string program() const;
    /// A size that suffices for a report.
    [[nodiscard]] std::size_t report_size() const;

    /// The text without conditionals, as a compiler takes it that has made this report: macros that
    /// compilers predefine are defined as they are there. Lines keep their numbers. Throws
    /// std::runtime_error if the report is none, or if something was not found out.
    [[nodiscard]] std::string decided(const std::string &report) const;
    /// The value of __OPENCL_C_VERSION__ in a report; 0 if it is not defined there.
    [[nodiscard]] unsigned language_version(const std::string &report) const;
    /// What two reports differ in, for people; empty if they don't.
    [[nodiscard]] std::string difference(const std::string &report, const std::string &other) const;

private:
    struct Branch {
        std::size_t token;
        unsigned line;
    };
    struct Report {
        std::string taken;  // '1' or '0' for each branch
        // Of macros: "=" and the expansion; empty where it is not defined.
        std::vector<std::string> values;
    };
    [[nodiscard]] Report parsed(const std::string &report) const;

    std::string source_;  // without lines that are continued on the next
    std::vector<Branch> branches_;
    std::vector<std::string> macros_;  // that compilers may predefine, and the text uses;
                                       // __OPENCL_C_VERSION__ is the first
};

}  // namespace cldist::cluster
