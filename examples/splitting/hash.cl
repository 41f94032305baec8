// SHA-256 (FIPS 180-4).
constant uint constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint turned(uint x, uint n) { return rotate(x, 32 - n); }

// The digests of the numbers from `first` on, each a message of four bytes, the most significant first.
kernel void sha256(global uint *digests, uint first)
{
    uint words[64] = {0};
    words[0] = first + (uint)get_global_id(0);
    words[1] = 0x80000000;
    words[15] = 32;
    for (int i = 16; i < 64; ++i) {
        const uint a = words[i - 15], b = words[i - 2];
        words[i] = words[i - 16] + (turned(a, 7) ^ turned(a, 18) ^ a >> 3) + words[i - 7] +
                   (turned(b, 17) ^ turned(b, 19) ^ b >> 10);
    }
    const uint start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint state[8];
    for (int i = 0; i < 8; ++i)
        state[i] = start[i];
    for (int i = 0; i < 64; ++i) {
        const uint a = state[0], e = state[4];
        const uint more = state[7] + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) +
                          ((e & state[5]) ^ (~e & state[6])) + constants[i] + words[i];
        const uint rest = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) +
                          ((a & state[1]) ^ (a & state[2]) ^ (state[1] & state[2]));
        for (int j = 7; j > 0; --j)
            state[j] = state[j - 1];
        state[4] += more;
        state[0] = more + rest;
    }
    for (int i = 0; i < 8; ++i)
        digests[8 * get_global_id(0) + i] = start[i] + state[i];
}
