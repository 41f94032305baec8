#pragma once

#include <functional>
#include <memory>

#include "api/arguments.hpp"
#include "pipeline/file_access.hpp"

namespace cldist {

/// A command between a range of a buffer and a file.
struct FileCommand {
    CommandArguments arguments;
    cl_mem buffer;
    std::size_t offset;   ///< bytes
    std::size_t size;     ///< bytes; 0 if the access tells it
    Direction direction;  ///< to_file or from_file
};

/// Checks what concerns the file, throwing an Error, and makes the access to it; may set `size`.
using MakeFileAccess = std::function<std::shared_ptr<FileAccess>(std::size_t &size)>;

/// The body of a C entry point named `call`: checks, enqueues or, if blocking, runs, and translates errors; errno is that
/// of the file if a blocking command failed with one.
cl_int run_file_command(const char *call, const FileCommand &command, const MakeFileAccess &make_access) noexcept;

}  // namespace cldist
