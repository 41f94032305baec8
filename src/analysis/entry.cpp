// libcldist-analysis: derives the accesses of kernels from an OpenCL program's source.
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IRReader/IRReader.h>
#include <llvm/Support/SourceMgr.h>

#include "analysis/analysis.hpp"
#include "base/child_process.hpp"
#include "splitting/build_options.hpp"

namespace cldist::analysis {

namespace {

constexpr auto compile_limit = std::chrono::seconds(60);

/// A temporary folder. The destructor removes it.
class Folder {
public:
    Folder() {
        std::string name =
            (std::filesystem::temp_directory_path() / "cldist-analysis-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr)
            throw std::runtime_error("cannot create a folder " + name + ": " +
                                     std::strerror(errno));
        path_ = name;
    }
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    [[nodiscard]] std::string file(const char *name) const { return (path_ / name).string(); }

private:
    std::filesystem::path path_;
};

/// Writes the program's LLVM IR to `output`.
void compile(const std::string &source, const std::string &options, const Folder &folder,
             const std::string &output) {
    const std::string input = folder.file("program.cl");
    const std::string messages = folder.file("messages");
    std::ofstream(input, std::ios::binary) << source;
    // Prefers the clang with the LLVM version of this library, which must read its IR.
    const std::string script = "clang=$(command -v clang-" + std::to_string(LLVM_VERSION_MAJOR) +
                               " || command -v clang) || exit 127; messages=$1; shift; exec "
                               "\"$clang\" \"$@\" 2>\"$messages\"";
    std::vector<std::string> command{"/bin/sh", "-c", script, "sh", messages};
    for (const char *option : {"-w", "-x", "cl", "-target", "spir64", "-O1", "-Xclang",
                               "-disable-llvm-passes", "-emit-llvm", "-c", "-gline-tables-only",
                               "-fno-discard-value-names", "-Xclang", "-finclude-default-header"})
        command.emplace_back(option);
    for (std::string &option : splitting::options_of(options)) {
        if (option == "-cl-opt-disable" || option == "-O0" || option == "-g" || option == "-Werror")
            continue;
        command.push_back(std::move(option));
    }
    if (!splitting::chooses_language(options)) command.emplace_back("-cl-std=CL1.2");
    for (const char *last : {"-o", output.c_str(), input.c_str()}) command.emplace_back(last);
    const ChildEnd end = run_child(std::move(command), compile_limit);
    if (end.well()) return;
    if (end.status == 127)
        throw std::runtime_error("clang is not in PATH; install it (Debian's package clang)");
    if (end.timed_out) throw std::runtime_error("clang did not end within a minute");
    // Reports the first error, because later errors are usually consequences.
    std::ifstream said(messages);
    for (std::string line; std::getline(said, line);) {
        if (line.find("error: ") == std::string::npos) continue;
        const auto at = line.rfind("program.cl:");
        throw std::runtime_error("clang does not compile the program: " +
                                 (at == std::string::npos ? line : line.substr(at)));
    }
    throw std::runtime_error("clang does not compile the program: it ended with status " +
                             std::to_string(end.status));
}

std::string analysed(const std::string &source, const std::string &options) {
    const Folder folder;
    const std::string file = folder.file("program.bc");
    compile(source, options, folder, file);
    llvm::LLVMContext context;
    llvm::SMDiagnostic error;
    const std::unique_ptr<llvm::Module> module = llvm::parseIRFile(file, error, context);
    if (module == nullptr) {
        throw std::runtime_error("LLVM " + std::to_string(LLVM_VERSION_MAJOR) +
                                 " cannot read the output of clang: " + error.getMessage().str());
    }
    return text_of(derive(*module, source));
}

}  // namespace

}  // namespace cldist::analysis

/// Derives the accesses of a program's kernels. `options` are the options of clBuildProgram. On
/// success it returns 0, and `text` contains descriptions for parse_descriptions(). Otherwise it
/// returns another number, and `text` contains the reason. The caller frees `text`. Thread-safe.
extern "C" __attribute__((visibility("default"))) int cldist_analyse(const char *source,
                                                                     const char *options,
                                                                     char **text) {
    int failed = 0;
    std::string answer;
    try {
        answer = cldist::analysis::analysed(source, options == nullptr ? "" : options);
    } catch (const std::exception &error) {
        answer = error.what();
        failed = 1;
    }
    *text = strdup(answer.c_str());
    return failed;
}
