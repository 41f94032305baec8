#include "cluster/world/native_icds.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <CL/cl_icd.h>

#include "base/log.hpp"

namespace cldist::cluster {
namespace {

namespace fs = std::filesystem;

// The first line of an .icd file is the name of the library.
void add_from_file(const fs::path &file, std::vector<std::string> &libraries) {
    std::ifstream stream(file);
    std::string line;
    if (std::getline(stream, line) && !line.empty())
        libraries.push_back(line);
    else
        log_warning("{}: the file does not contain the name of a library", file.string());
}

std::vector<cl_platform_id> open_library(const std::string &library) {
    void *const opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) {
        const char *const why = dlerror();
        log_info("the OpenCL driver {} is not used: {}", library,
                 why != nullptr ? why : "it cannot be opened");
        return {};
    }
    const auto address_of = reinterpret_cast<void *(CL_API_CALL *)(const char *)>(
        dlsym(opened, "clGetExtensionFunctionAddress"));
    const auto get =
        address_of == nullptr
            ? nullptr
            : reinterpret_cast<cl_int(CL_API_CALL *)(cl_uint, cl_platform_id *, cl_uint *)>(
                  address_of("clIcdGetPlatformIDsKHR"));
    cl_uint count = 0;
    if (get == nullptr || get(0, nullptr, &count) != CL_SUCCESS || count == 0) return {};
    std::vector<cl_platform_id> platforms(count);
    if (get(count, platforms.data(), nullptr) != CL_SUCCESS) return {};
    return platforms;
}

}  // namespace

std::vector<std::string> native_libraries(std::string_view places) {
    std::vector<std::string> libraries;
    while (!places.empty()) {
        const std::string place(places.substr(0, places.find(':')));
        places.remove_prefix(std::min(places.size(), place.size() + 1));
        if (place.empty()) continue;
        std::error_code error;
        if (fs::is_directory(place, error)) {
            std::vector<fs::path> files;
            for (const auto &entry : fs::directory_iterator(place, error))
                if (entry.path().extension() == ".icd") files.push_back(entry.path());
            std::ranges::sort(files);
            for (const fs::path &file : files) add_from_file(file, libraries);
        } else if (fs::path(place).extension() == ".icd") {
            add_from_file(place, libraries);
        } else {
            libraries.push_back(place);
        }
    }
    // The cluster platform is not a native driver.
    std::erase_if(libraries, [](const std::string &name) {
        return name.find("libcldist-cluster.so") != std::string::npos;
    });
    return libraries;
}

std::vector<cl_platform_id> open_native_icds(std::string_view places) {
    std::vector<cl_platform_id> all;
    for (const std::string &library : native_libraries(places))
        for (const cl_platform_id platform : open_library(library))
            if (std::ranges::find(all, platform) == all.end()) all.push_back(platform);
    return all;
}

}  // namespace cldist::cluster
