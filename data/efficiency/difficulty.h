// Computes the difficulty of samples by the metrics that choose among them, and the samples that are easy
// enough for a step.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/efficiency/config.h"
#include "data/rows/dataset.h"

namespace ft {

// Returns the tokens of each sample; for encoder-decoders the longer of source and target.
std::vector<std::int64_t> sequence_lengths(const Dataset&);

// Returns, for each sample, the sum of -ln p over its tokens, rounded down; p is the token's share of all
// tokens of the data. The data analysis of Megatron-DeepSpeed counts in this way. In an encoder-decoder's
// sample source and target count, except for untrained tokens of the target.
std::vector<std::int64_t> vocabulary_rarity(const Dataset&);

// A metric that chooses samples.
class Difficulty {
 public:
  // values: by sample
  Difficulty(std::string name, const CurriculumMetricConfig& schedule, std::vector<std::int64_t> values);

  const std::string& name() const { return name_; }
  std::int64_t samples() const { return static_cast<std::int64_t>(values_.size()); }
  // Returns the limit of step n = 1, 2, ...: samples below it are easy enough. By value, samples of at most
  // difficulty_at(n). By percentile p of max_difficulty P, the first floor(samples / P) p samples in the
  // order of their values; for p = P all.
  std::int64_t limit(std::int64_t step) const;
  bool below(std::int64_t sample, std::int64_t limit) const {
    return values_[static_cast<std::size_t>(sample)] < limit;
  }
  // Returns the number of samples that are too difficult in every step.
  std::int64_t never() const;
  // Returns text such as "vocabularyrarity: step 1 allows 10, and samples have 35 to 90".
  std::string range() const;

 private:
  std::string name_;
  CurriculumMetricConfig schedule_;
  bool percentile_;
  std::vector<std::int64_t> values_;  // by sample; by percentile: ranks in the order of values
  std::int64_t least_ = 0, most_ = 0;
};

// Makes the metrics that choose samples.
std::vector<Difficulty> difficulties(const CurriculumMetrics&, const Dataset&);

}  // namespace ft
