// Philox as in engine/core/random.h, for sixteen counters at once: a loop over lanes that the compiler turns
// into vector instructions.
#pragma once
#include <cstdint>

#include "engine/core/random.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr int kCounters = 16;

// The four words of each counter.
struct Words {
  std::uint32_t of[4][kCounters];
};
// Sets the words of each counter = high << 32 | low.
template <int kRounds>
inline void philox(Words& words, const std::uint32_t (&low)[kCounters],
                   const std::uint32_t (&high)[kCounters], std::uint64_t key) {
  auto& c = words.of;
  for (int j = 0; j < kCounters; ++j) {
    c[0][j] = low[j];
    c[1][j] = high[j];
    c[2][j] = c[3][j] = 0;
  }
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
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
}

// The uniform numbers in (0, 1] of Random{key}.at: four for each counter.
inline void uniforms(float (&u)[4 * kCounters], const std::uint32_t (&low)[kCounters],
                     const std::uint32_t (&high)[kCounters], std::uint64_t key) {
  Words words;
  philox<10>(words, low, high, key);
  for (int j = 0; j < kCounters; ++j)
    for (int n = 0; n < 4; ++n)
      u[4 * j + n] =
          (static_cast<float>(static_cast<std::int32_t>(words.of[n][j] >> 8)) + 1.0f) * (1.0f / 16777216.0f);
}

// The numbers of Random{key}.eight_at, for a DropRule.
struct Eights {
  float of[8][kCounters];
};
inline void eights(Eights& e, const std::uint32_t (&low)[kCounters], const std::uint32_t (&high)[kCounters],
                   std::uint64_t key) {
  Words words;
  philox<7>(words, low, high, key);
  for (int n = 0; n < 8; ++n)
    for (int j = 0; j < kCounters; ++j)
      e.of[n][j] = static_cast<float>(static_cast<std::int32_t>(words.of[n / 2][j] >> n % 2 * 16 & 0xffff));
}
// A bound below the numbers of all kept elements.
inline float below_kept(DropRule rule) { return static_cast<float>(rule.limit) - 0.5f; }

}  // namespace
}  // namespace ft::cpu::FT_TARGET
