// Several adapters as one, as PEFT's add_weighted_adapter makes it:
//   cat     A below A, B beside B: exactly the sum of the changes, of the sum of the ranks
//   svd     the best of a rank for that sum
//   linear  A and B each added up, with roots of weight and scale: rough, of the same rank
//   ties, dare_linear, dare_ties, magnitude_prune  as linear, pruned first: see combine.h
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
  double density = 1;                // where it prunes
  bool by_frequency = false;         // ties: the majority of signs, not of what they sum up to
  std::optional<std::int64_t> rank;  // svd's; nothing: the largest of the parts
  std::uint64_t seed = 0;            // dare's
};

// Writes the adapter into an existing folder. UserError for parts that are more than LoRA, or that do not fit
// together.
void write_mix(const std::string& folder, const std::vector<MixPart>&, const MixRule&);

}  // namespace ft::lora
