// Combines several adapters into one, as PEFT's add_weighted_adapter:
//   cat     A below A, B beside B: exactly the sum of the changes, with the sum of the ranks
//   svd     the best approximation of that sum by a given rank
//   linear  the sums of A and of B, weighted by roots of weight and scale: approximate, of the same rank
//   ties, dare_linear, dare_ties, magnitude_prune  prune first, then as linear: see combine.h
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/words.h"

namespace ft::lora {

enum class Combination : std::uint8_t { cat, svd, linear, ties, dare_linear, dare_ties, magnitude_prune };
constexpr auto words(Combination) {
  using enum Combination;
  return to_words<Combination>({{cat, "cat"},
                                {svd, "svd"},
                                {linear, "linear"},
                                {ties, "ties"},
                                {dare_linear, "dare_linear"},
                                {dare_ties, "dare_ties"},
                                {magnitude_prune, "magnitude_prune"}});
}
constexpr bool prunes(Combination c) { return c > Combination::linear; }

struct MixPart {
  std::string folder;
  double weight = 1;  // may be negative
};
struct MixRule {
  Combination combination = Combination::cat;
  double density = 1;                // if the combination prunes
  bool by_frequency = false;         // ties: the majority of signs, not the sign of the sum
  std::optional<std::int64_t> rank;  // for svd; empty: the largest of the parts
  std::uint64_t seed = 0;            // for dare
};

// Writes the combined adapter into an existing folder. Throws UserError (input) if a part is more than LoRA
// or the parts do not fit together.
void write_mix(const std::string& folder, const std::vector<MixPart>&, const MixRule&);

}  // namespace ft::lora
