// The records that a central host sends to the workers, which repeat its calls.
#include "fuzz.hpp"

#include "cluster/api/call_arguments.hpp"

namespace cldist::cluster {

namespace {

constexpr std::array calls_by_number{
#define CLDIST_CALL(function, ...) &calls::function,
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
        while (!reader.empty()) {
            ArgumentMemory memory;
            // Reads all data that the arguments point to, which must be valid memory.
            ComparedValues(take_call(*calls_by_number.at(reader.number() - 1), reader, memory));
        }
    } catch (const std::out_of_range &) {
    }
    return 0;
}
