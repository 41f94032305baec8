#include "cluster/split/source_binary.hpp"

#include <algorithm>
#include <string_view>

#include "cluster/calls/call.hpp"
#include "cluster/objects/packing.hpp"

namespace cldist::cluster {
namespace {

constexpr std::string_view mark = "cldist: the source of a program, 1\n";

std::uint64_t hash_of_bytes(std::span<const std::byte> bytes) {
    return hash_of({reinterpret_cast<const char *>(bytes.data()), bytes.size()});
}

}  // namespace

std::vector<std::byte> binary_of(const SourceBinary &program) {
    const Blob body = Packer().put_text(program.options).put_text(program.source).take();
    const auto head = std::as_bytes(std::span(mark));
    Blob binary(head.begin(), head.end());
    const Blob rest = Packer().put(hash_of_bytes(body)).put_bytes(body).take();
    binary.insert(binary.end(), rest.begin(), rest.end());
    return binary;
}

bool is_source_binary(std::span<const std::byte> binary) {
    const auto head = std::as_bytes(std::span(mark));
    return binary.size() >= head.size() && std::equal(head.begin(), head.end(), binary.begin());
}

std::optional<SourceBinary> source_of(std::span<const std::byte> binary) {
    if (!is_source_binary(binary)) return std::nullopt;
    try {
        Unpacker unpacker(binary.subspan(mark.size()));
        const auto hash = unpacker.get<std::uint64_t>();
        const Blob body = unpacker.get_bytes();
        if (hash != hash_of_bytes(body)) return std::nullopt;
        Unpacker parts(body);
        SourceBinary program;
        program.options = parts.get_text();
        program.source = parts.get_text();
        return program;
    } catch (const Error &) {
        return std::nullopt;  // too short
    }
}

}  // namespace cldist::cluster
