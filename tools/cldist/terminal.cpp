#include "terminal.hpp"

#include <unistd.h>

#include <cstdlib>

#include <fmt/format.h>

#include "doctor_mpi.hpp"

namespace cldist::tool {

bool shows_colours() {
    static const bool shows = [] {
        const char *const no_colour = std::getenv("NO_COLOR");
        const char *const terminal = std::getenv("TERM");
        // Open MPI gives each rank a terminal, wherever its output goes.
        return isatty(STDOUT_FILENO) == 1 && !find_launch().by_launcher &&
               (no_colour == nullptr || *no_colour == '\0') && terminal != nullptr &&
               std::string_view(terminal) != "dumb";
    }();
    return shows;
}

std::string coloured(std::string_view text, Colour colour) {
    if (colour == Colour::none || !shows_colours()) return std::string(text);
    const int code = colour == Colour::green    ? 32
                     : colour == Colour::yellow ? 33
                     : colour == Colour::red    ? 31
                                                : 1;
    return fmt::format("\033[{}m{}\033[0m", code, text);
}

}  // namespace cldist::tool
