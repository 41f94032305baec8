// All text that the platform parses itself: a program's source and build options, the reports of a
// device's compiler, and descriptions of kernels.
#include "fuzz.hpp"

#include "cluster/split/adapted_source.cpp"
#include "cluster/split/conditionals.cpp"
#include "cluster/split/source_text.cpp"
#include "splitting/build_options.cpp"

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    using namespace cldist;
    // The input contains options, a file to include, and the source, separated by form feeds.
    const std::string_view all(reinterpret_cast<const char *>(data), size);
    const std::size_t first = std::min(all.find('\f'), all.size());
    const std::size_t second = std::min(all.find('\f', first + 1), all.size());
    const std::string options(all.substr(0, first));
    const std::string included(
        all.substr(std::min(first + 1, all.size()), second - std::min(first + 1, second)));
    const std::string source(all.substr(std::min(second + 1, all.size())));
    static_cast<void>(splitting::options_of(options));
    const std::string whole = cluster::with_includes(source, [&](const std::string &name) {
        return name == "a.h" ? std::optional(included) : std::nullopt;
    });
    const cluster::SourceFacts facts = cluster::facts_of(whole, options);
    const std::string adapted = cluster::adapted_source(whole, facts.hides_names);
    // The adapted text must be valid input, too.
    static_cast<void>(cluster::facts_of(adapted, options));
    try {
        const cluster::Conditionals conditionals(whole, options);
        static_cast<void>(conditionals.program());
        static_cast<void>(conditionals.report_size());
        // A device's compiler may report anything.
        static_cast<void>(conditionals.language_version(included));
        static_cast<void>(cluster::facts_of(conditionals.decided(included), options));
    } catch (const std::runtime_error &) {
    }
    try {
        const auto kernels = splitting::parse_descriptions(source);
        FUZZ_REQUIRE(splitting::text_of(splitting::parse_descriptions(
                         splitting::text_of(kernels))) == splitting::text_of(kernels));
    } catch (const std::invalid_argument &) {
    }
    return 0;
}
