// SHA-256 digests of many numbers.

#include "hash_cl.hpp"
#include "splitting.hpp"

#include <bit>

using namespace splitting;

namespace {

// The constants of SHA-256: the first 32 bits of the fractional parts of the first primes' roots.
std::vector<std::uint32_t> root_bits(std::size_t count, long double (*root)(long double)) {
    std::vector<std::uint32_t> bits;
    for (unsigned n = 2; bits.size() < count; ++n) {
        bool prime = true;
        for (unsigned d = 2; d * d <= n; ++d) prime = prime && n % d != 0;
        const long double of = root(n);
        if (prime) bits.push_back(std::uint32_t((of - std::floor(of)) * 0x1p32L));
    }
    return bits;
}

std::vector<cl_uint> sha256_of(std::uint32_t number) {
    static const auto start = root_bits(8, [](long double x) { return std::sqrt(x); });
    static const auto constants = root_bits(64, [](long double x) { return std::cbrt(x); });
    std::vector<std::uint32_t> w(64);
    w[0] = number;
    w[1] = std::uint32_t{1} << 31U;
    w[15] = 32;
    for (std::size_t t = 16; t < 64; ++t)
        w[t] = w[t - 16] + (std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ w[t - 15] >> 3U) +
               w[t - 7] + (std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ w[t - 2] >> 10U);
    std::uint32_t a = start[0], b = start[1], c = start[2], d = start[3], e = start[4],
                  f = start[5], g = start[6], h = start[7];
    for (std::size_t t = 0; t < 64; ++t) {
        const std::uint32_t one = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                                  ((e & f) ^ (~e & g)) + constants[t] + w[t];
        const std::uint32_t two =
            (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + one;
        d = c;
        c = b;
        b = a;
        a = one + two;
    }
    const std::array<std::uint32_t, 8> end{a, b, c, d, e, f, g, h};
    std::vector<cl_uint> digest;
    for (std::size_t i = 0; i < 8; ++i) digest.push_back(start[i] + end[i]);
    return digest;
}

double compute(const Options &options) {
    const auto count = std::size_t(number(options.size.c_str(), 1));
    const cl_uint first = 0x61626300;
    const Device device;
    const Program program = device.build(hash_source);
    const Kernel kernel = make_kernel(program, "sha256");
    const Buffer digests = device.room<cl_uint>(8 * count);
    set_arguments(kernel, digests, first);
    const double seconds = measure(device, options.repeat, [&] { device.launch(kernel, {count}); });

    if (options.check) {
        std::vector<cl_uint> expected;
        for (std::size_t i = 0; i < count; ++i)
            for (const cl_uint word : sha256_of(first + cl_uint(i))) expected.push_back(word);
        expect_same("digests", device.get<cl_uint>(digests, 8 * count), expected);
    }
    return seconds;
}

}  // namespace

int main(int argc, char **argv) {
    return run({"hash",
                "Computes the SHA-256 digests of many numbers.",
                "numbers",
                nullptr,
                {.size = "1000000"}},
               argc, argv, compute);
}
