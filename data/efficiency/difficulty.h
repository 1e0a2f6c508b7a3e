// How difficult samples are, by the metrics that choose among them; and which of them a step finds easy
// enough.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/efficiency/config.h"
#include "data/rows/dataset.h"

namespace ft {

// (samples) Tokens; of an encoder-decoder's sample those of the longer of source and target.
std::vector<std::int64_t> sequence_lengths(const Dataset&);

// (samples) The sum of -ln p over a sample's tokens, rounded down, where p is the token's share of all tokens
// of the data: how the data analysis of Megatron-DeepSpeed counts it. Both sides of an
// encoder-decoder's sample count, except what is not trained of the target.
std::vector<std::int64_t> vocabulary_rarity(const Dataset&);

// A metric that chooses samples.
class Difficulty {
 public:
  // values: (samples)
  Difficulty(std::string name, const CurriculumMetricConfig& schedule, std::vector<std::int64_t> values);

  const std::string& name() const { return name_; }
  std::int64_t samples() const { return static_cast<std::int64_t>(values_.size()); }
  // Step n = 1, 2, ... finds samples easy enough that are below this: by value those of at most
  // difficulty_at(n); by percentile p of max_difficulty P the first floor(samples / P) p in the order of
  // their values, all of them for P.
  std::int64_t limit(std::int64_t step) const;
  bool below(std::int64_t sample, std::int64_t limit) const {
    return values_[static_cast<std::size_t>(sample)] < limit;
  }
  // How many samples no step finds easy enough.
  std::int64_t never() const;
  // "vocabularyrarity: step 1 allows 10, and samples have 35 to 90"
  std::string range() const;

 private:
  std::string name_;
  CurriculumMetricConfig schedule_;
  bool percentile_;
  std::vector<std::int64_t> values_;  // (samples) by percentile: places in the order of the values
  std::int64_t least_ = 0, most_ = 0;
};

// For the metrics that choose samples.
std::vector<Difficulty> difficulties(const CurriculumMetrics&, const Dataset&);

}  // namespace ft
