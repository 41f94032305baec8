// What arrives first on a connection to the hub of a job. Anybody may have sent it.
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
    FUZZ_REQUIRE(size == sizeof *greeting && greeting->secret == secret && greeting->rank < greeting->ranks);
    // Another secret is none, however little it differs.
    secret[size % secret.size()] ^= 1;
    FUZZ_REQUIRE(!parse_greeting(bytes, secret));
    return 0;
}
