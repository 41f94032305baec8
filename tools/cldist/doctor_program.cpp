#include "doctor_program.hpp"

#include <link.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "api/init.hpp"
#include "base/child_process.hpp"

namespace cldist::tool {
namespace {

constexpr const char *topic = "program";

std::string name_of_file(const std::string &path) {
    return std::filesystem::path(path).filename().string();
}

bool is_cldist(const LoadedObject &object) {
    return name_of_file(object.path).starts_with("libcldist.so");
}
bool is_mpi(const LoadedObject &object) { return object.has_profiling_init; }
bool is_tool(const LoadedObject &object) {
    return object.has_init && !is_mpi(object) && !is_cldist(object);
}

template <typename Value>
std::vector<Value> read_at(std::ifstream &file, std::uint64_t offset, std::uint64_t bytes) {
    std::vector<Value> values(bytes / sizeof(Value));
    file.seekg(static_cast<std::streamoff>(offset));
    file.read(reinterpret_cast<char *>(values.data()),
              static_cast<std::streamsize>(values.size() * sizeof(Value)));
    return file ? values : std::vector<Value>{};
}

// The symbols that the file defines.
LoadedObject examine(const std::string &path) {
    LoadedObject object{path};
    std::ifstream file(path, std::ios::binary);
    const auto headers = read_at<ElfW(Ehdr)>(file, 0, sizeof(ElfW(Ehdr)));
    if (headers.empty() || !std::equal(ELFMAG, ELFMAG + SELFMAG, headers[0].e_ident)) return object;
    const auto sections =
        read_at<ElfW(Shdr)>(file, headers[0].e_shoff, headers[0].e_shnum * sizeof(ElfW(Shdr)));
    for (const ElfW(Shdr) & section : sections) {
        if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
        const ElfW(Shdr) &names = sections[section.sh_link];
        std::vector<char> text = read_at<char>(file, names.sh_offset, names.sh_size);
        text.push_back('\0');
        for (const ElfW(Sym) & symbol :
             read_at<ElfW(Sym)>(file, section.sh_offset, section.sh_size)) {
            if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= text.size()) continue;
            const std::string_view name = &text[symbol.st_name];
            object.has_init = object.has_init || name == "MPI_Init";
            object.has_profiling_init = object.has_profiling_init || name == "PMPI_Init";
        }
    }
    return object;
}

// The files in lines such as "libmpi.so.40 => /usr/lib/libmpi.so.40 (0x00007f...)".
std::vector<LoadedObject> objects_in(const std::string &text) {
    std::vector<LoadedObject> objects;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t begin = line.find('/');
        const std::size_t end = line.rfind(" (0x");
        if (begin != std::string::npos && end != std::string::npos && begin < end)
            objects.push_back(examine(line.substr(begin, end - begin)));
    }
    return objects;
}

}  // namespace

Findings judge_program(const std::string &program, const std::vector<LoadedObject> &objects) {
    const auto cldist = std::ranges::find_if(objects, is_cldist);
    const auto mpi = std::ranges::find_if(objects, is_mpi);
    if (cldist == objects.end())
        return {note(
            topic, program + " does not load libcldist at its start",
            "link it with -lcldist, or load libcldist later and call clDistInit after MPI_Init")};
    if (mpi == objects.end())
        return {problem(topic, program + " loads libcldist, but no MPI library",
                        "link the program with MPI's compiler wrapper")};
    Findings findings;
    if (const auto other = std::find_if(mpi + 1, objects.end(), is_mpi); other != objects.end())
        findings.push_back(problem(
            topic,
            fmt::format("{} loads two MPI libraries, {} and {}", program, mpi->path, other->path),
            "build the program, cldist and other libraries with one MPI library"));
    for (const LoadedObject &object : objects)
        if (is_tool(object))
            findings.push_back(
                redirects_calls
                    ? ok(topic,
                         fmt::format("{} is a PMPI tool; it receives each call before cldist",
                                     object.path))
                    : problem(topic,
                              fmt::format("{} is a PMPI tool; calls through it bypass cldist",
                                          object.path),
                              "call MPI_Init_thread with MPI_THREAD_MULTIPLE and then clDistInit; "
                              "do not use MPI_CL_MEM"));
    if (cldist < mpi)
        findings.push_back(ok(topic, program + " loads libcldist before the MPI library"));
    else if (redirects_calls)
        findings.push_back(note(
            topic,
            fmt::format(
                "{} loads {} before libcldist; at its start, cldist redirects the MPI calls "
                "of the program and of the libraries that it links",
                program, name_of_file(mpi->path)),
            "if the program loads plugins that call MPI, link -lcldist before the MPI library"));
    else
        findings.push_back(
            problem(topic,
                    fmt::format("{} loads {} before libcldist: its MPI calls bypass cldist",
                                program, name_of_file(mpi->path)),
                    "link -lcldist before the MPI library"));
    return findings;
}

Findings program_findings(const std::string &program) {
    const ChildEnd end = run_child({"/usr/bin/ldd", program}, std::chrono::seconds(20));
    if (!end.well())
        return {problem(topic, fmt::format("ldd cannot list the libraries of {}", program),
                        "pass the program's file, not a script that starts the program")};
    return judge_program(program, objects_in(end.output));
}

}  // namespace cldist::tool
