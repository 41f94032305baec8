// The first data on a connection to a job's hub. Any program may have sent it.
#include "fuzz.hpp"

#include <algorithm>
#include <string_view>

#include "../tools/cldist/greeting.cpp"

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    using namespace cldist::tool;
    constexpr std::string_view known = "0123456789abcdef0123456789abcdef";
    Secret secret{};
    std::copy(known.begin(), known.end(), secret.begin());
    const std::span bytes(reinterpret_cast<const std::byte *>(data), size);
    const std::optional<Greeting> greeting = parse_greeting(bytes, secret);
    if (!greeting) return 0;
    FUZZ_REQUIRE(size == sizeof *greeting && greeting->secret == secret &&
                 greeting->rank < greeting->ranks);
    // A secret with one wrong bit must be refused.
    secret[size % secret.size()] ^= 1;
    FUZZ_REQUIRE(!parse_greeting(bytes, secret));
    return 0;
}
