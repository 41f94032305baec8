// A profile, as a user may have changed it.
#include "fuzz.hpp"

#include "pipeline/profile_file.cpp"

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    using namespace cldist;
    try {
        const Profile profile = parse_profile(std::string(reinterpret_cast<const char *>(data), size));
        static_cast<void>(profile.advice());
        // What `cldist tune` writes it reads.
        static_cast<void>(parse_profile(profile_text(profile)));
    } catch (const Error &error) {
        FUZZ_REQUIRE(error.status().code == CL_INVALID_VALUE && !error.status().message.empty());
    }
    return 0;
}
