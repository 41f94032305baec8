// The records that a central host sends to the processes that repeat its calls.
#include "fuzz.hpp"

#include "cluster/api/entry_points.hpp"
#include "cluster/api/recording.hpp"

namespace cldist::cluster {

// The target makes no calls.
const cl_icd_dispatch dispatch_table{};

namespace {

template <const Call &call, typename Function>
struct Taken;
template <const Call &call, typename Result, typename... Arguments>
struct Taken<call, Result (*)(Arguments...)> {
    static void take(RecordReader &reader) {
        ArgumentMemory memory;
        const auto arguments = take_call<call, Arguments...>(reader, memory);
        // All data that a call reads through its arguments must exist.
        std::apply([](const auto &...each) { with_values<call>([](auto...) {}, each...); }, arguments);
    }
};

template <const Call &call, typename... Arguments>
struct Taken<call, void (*)(Handling, Arguments...)> : Taken<call, void (*)(Arguments...)> {};

constexpr std::array takers{
#define CLDIST_CALL(function, entry, ...) &Taken<calls::function, decltype(&entry)>::take,
#define CLDIST_PLAIN(function, ...)
#define CLDIST_EXTENSION CLDIST_CALL
#define CLDIST_ABSENT(function)
#include "cluster/calls/calls.def"
};

}  // namespace
}  // namespace cldist::cluster

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    using namespace cldist::cluster;
    static std::unordered_map<std::uint64_t, void *> objects;
    objects_by_number = &objects;
    RecordReader reader({reinterpret_cast<const std::byte *>(data), size});
    try {
        while (!reader.empty()) takers.at(reader.number() - 1)(reader);
    } catch (const std::out_of_range &) {
    }
    return 0;
}
