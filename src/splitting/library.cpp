#include "splitting/library.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>

namespace cldist::splitting {

namespace {

using Analyse = int (*)(const char *source, const char *options, char **text);

/// The library is never unloaded.
Analyse library() {
    // The loader searches the run path of the binary that contains this code.
    void *const handle = dlopen("libcldist-analysis.so", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr)
        throw std::runtime_error(std::string("cldist cannot derive accesses: ") + dlerror());
    void *const function = dlsym(handle, "cldist_analyse");
    if (function == nullptr)
        throw std::runtime_error(std::string("cldist cannot derive accesses: ") + dlerror());
    return reinterpret_cast<Analyse>(function);
}

}  // namespace

Descriptions derive(const std::string &source, const std::string &options) {
    static const Analyse analyse = library();
    char *text = nullptr;
    const int failed = analyse(source.c_str(), options.c_str(), &text);
    const std::unique_ptr<char, decltype(&std::free)> owned(text, &std::free);
    if (text == nullptr) throw std::runtime_error("cldist cannot derive accesses: out of memory");
    if (failed != 0) throw std::runtime_error(text);
    return parse_descriptions(text);
}

}  // namespace cldist::splitting
