#pragma once

#include <functional>
#include <memory>

#include "api/arguments.hpp"
#include "pipeline/file_access.hpp"

namespace cldist {

/// A command between a range of a buffer and a file.
struct FileCommand {
    CommandArguments arguments;
    RangeArgument range;  ///< its size is 0 if the access determines the size
};

/// Checks the file's arguments and creates the access. May change `size`. Throws an Error.
using MakeFileAccess = std::function<std::shared_ptr<FileAccess>(std::size_t &size)>;

/// The body of the C entry point `call`. Checks the arguments, enqueues the command or runs it if
/// it is blocking, and translates errors. Sets errno if a file call of a blocking command failed.
cl_int run_file_command(const char *call, const FileCommand &command,
                        const MakeFileAccess &make_access) noexcept;

}  // namespace cldist
