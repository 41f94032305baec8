#include "plot.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "base/child_process.hpp"
#include "measure.hpp"

namespace cldist::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds time_limit{60};
constexpr int no_such_command = 127;  // the exit status of env

// In ../autotune of the build folder, or in the library's folder of the installation.
fs::path plot_script() {
    std::error_code failure;
    const fs::path folder = fs::read_symlink("/proc/self/exe", failure).parent_path();
    for (const char *relative : {"../autotune/plot_profile.py", CLDIST_SCRIPTS "/plot_profile.py"})
        if (fs::exists(folder / relative, failure)) return folder / relative;
    throw TuneError(fmt::format("plot_profile.py is missing in {}; install cldist again",
                                (folder / CLDIST_SCRIPTS).string()));
}

/// A temporary file that this object deletes.
class TemporaryFile {
public:
    explicit TemporaryFile(const std::string &text)
        : path_((fs::temp_directory_path() / "cldist-plot-XXXXXX").string()) {
        const int descriptor = mkstemp(path_.data());
        if (descriptor >= 0) close(descriptor);
        std::ofstream file(path_);
        file << text << std::flush;
        if (descriptor < 0 || !file) throw TuneError(fmt::format("can't write {}", path_));
    }
    TemporaryFile(const TemporaryFile &) = delete;
    TemporaryFile &operator=(const TemporaryFile &) = delete;
    ~TemporaryFile() { unlink(path_.c_str()); }
    [[nodiscard]] const std::string &path() const { return path_; }

private:
    std::string path_;
};

}  // namespace

void draw(const nlohmann::json &data, const std::string &png) {
    const TemporaryFile file(data.dump());
    const ChildEnd end = run_child({"/usr/bin/env", "python3", plot_script().string(), file.path(),
                                    fs::absolute(png).string()},
                                   time_limit);
    if (end.well()) return;
    if (end.status == no_such_command)
        throw TuneError("--plot needs python3, which is not in PATH");
    // The script prints the error.
    throw TuneError(end.output.empty() ? "plot_profile.py failed; its messages are above"
                                       : end.output.substr(0, end.output.find('\n')));
}

}  // namespace cldist::tool
