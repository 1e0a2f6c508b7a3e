// Philox as in engine/core/random.h, sixteen counters at once: a loop over lanes that the compiler turns into
// vector instructions.
#pragma once
#include <cstdint>

namespace ft::cpu::FT_TARGET {
namespace {

constexpr int kCounters = 16;

// The four uniform numbers in (0, 1] that Random{key}.at(index) gives, of each index = high << 32 | low.
struct Uniforms {
  float of[4][kCounters];
};
inline void uniforms(Uniforms& u, const std::uint32_t (&low)[kCounters],
                     const std::uint32_t (&high)[kCounters], std::uint64_t key) {
  std::uint32_t c[4][kCounters];
  for (int j = 0; j < kCounters; ++j) {
    c[0][j] = low[j];
    c[1][j] = high[j];
    c[2][j] = c[3][j] = 0;
  }
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int j = 0; j < kCounters; ++j) {
      const std::uint64_t a = std::uint64_t{0xD2511F53u} * c[0][j], b = std::uint64_t{0xCD9E8D57u} * c[2][j];
      c[0][j] = static_cast<std::uint32_t>(b >> 32) ^ c[1][j] ^ k0;
      c[1][j] = static_cast<std::uint32_t>(b);
      c[2][j] = static_cast<std::uint32_t>(a >> 32) ^ c[3][j] ^ k1;
      c[3][j] = static_cast<std::uint32_t>(a);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int n = 0; n < 4; ++n)
    for (int j = 0; j < kCounters; ++j)
      u.of[n][j] =
          (static_cast<float>(static_cast<std::int32_t>(c[n][j] >> 8)) + 1.0f) * (1.0f / 16777216.0f);
}

}  // namespace
}  // namespace ft::cpu::FT_TARGET
