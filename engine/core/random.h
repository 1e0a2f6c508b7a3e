// Random numbers are a function, not a stream: Philox4x32-10 (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011) of a key and a counter. A dropout mask is recomputed instead of stored, and does
// not depend on the ZeRO stage, the number of ranks or recomputation.
//
// Dropout uses 16 bits for an element, so that one call serves eight elements, and seven rounds, the fewest
// with which Philox4x32 passes all tests of BigCrush (table 2 of the paper). All other random numbers use ten
// rounds, the authors' default, which leaves a margin.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "engine/core/dtype.h"

namespace ft {

using Philox4 = std::array<std::uint32_t, 4>;

template <int kRounds = 10>
FT_HD constexpr Philox4 philox(Philox4 counter, std::uint64_t key) {
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0],
                        b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return counter;
}

// Uniform in (0, 1], from 24 bits; never 0.
FT_HD constexpr float to_uniform(std::uint32_t bits) {
  return (static_cast<float>(bits >> 8) + 1.0f) * (1.0f / 16777216.0f);
}

// Dropout with probability p: an element is kept if its 16-bit number is at least `limit`. So the probability
// is limit / 65536, within 2^-17 of p. Kept elements are multiplied by 1 / (1 - limit / 65536), which
// preserves the mean.
struct DropRule {
  std::uint32_t limit;
  FT_HD constexpr explicit DropRule(float p)
      : limit(p * 65536.0f + 0.5f < 65535.0f ? static_cast<std::uint32_t>(p * 65536.0f + 0.5f) : 65535u) {}
  // of kept elements
  FT_HD constexpr float share() const { return static_cast<float>(65536 - limit) / 65536.0f; }
  FT_HD constexpr float growth() const { return 1 / share(); }
  // n: the number, 0 to 7, of a 16-bit half in the four words, the lower half of each word first.
  FT_HD constexpr bool keeps(const Philox4& eight, std::uint64_t n) const {
    return (eight[static_cast<std::size_t>(n / 2)] >> n % 2 * 16 & 0xffffu) >= limit;
  }
};

// FNV-1a. Turns names into parts of keys.
constexpr std::uint64_t hash_name(std::string_view text) {
  std::uint64_t h = 14695981039346656037ull;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return h;
}

// A family of random numbers. `with` returns an independent family.
struct Random {
  std::uint64_t key = 0;
  constexpr Random with(std::uint64_t what) const {
    const Philox4 r =
        philox({static_cast<std::uint32_t>(what), static_cast<std::uint32_t>(what >> 32), 0x6674u, 0}, key);
    return {std::uint64_t{r[0]} << 32 | r[1]};
  }
  constexpr Random with(std::string_view name) const { return with(hash_name(name)); }
  // Four numbers of the family. index counts groups of four.
  constexpr Philox4 at(std::uint64_t index) const {
    return philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), 0, 0}, key);
  }
  // Eight 16-bit numbers for a DropRule. index counts groups of eight.
  constexpr Philox4 eight_at(std::uint64_t index) const {
    return philox<7>({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), 0, 0}, key);
  }
};

}  // namespace ft
