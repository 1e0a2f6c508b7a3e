// Statistics of a dataset that help to choose max_seq_length, or max_source_length and max_target_length of
// an encoder-decoder: lengths, and the tokens that each limit would lose.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/config.h"
#include "data/rows/dataset.h"

namespace ft {

// Statistics of the numbers of tokens in samples, or in one side of them.
struct LengthStatistics {
  struct Bucket {
    std::int64_t most = 0, samples = 0;  // samples up to this length, above the bucket before
  };
  std::int64_t tokens = 0;
  std::int64_t shortest = 0, median = 0, p95 = 0, longest = 0;
  std::vector<Bucket> histogram;  // bounds are powers of two
};

struct DataStatistics {
  struct Limit {
    std::int64_t length = 0;     // the tried max_seq_length
    std::int64_t longer = 0;     // samples that are longer
    std::int64_t lost = 0;       // tokens removed by truncation
    std::int64_t untrained = 0;  // samples that lose all their targets
    std::int64_t packs = 0;      // with packing, after truncation
    double fill = 0;             // share of the packs' tokens that is not padding
  };

  std::int64_t samples = 0, targets = 0;
  LengthStatistics lengths;
  std::vector<Limit> limits;
};

// Computes the statistics of `data`, which must be uncut. `truncation` is keep_start, keep_end or drop.
DataStatistics data_statistics(const Dataset& data, std::span<const std::int64_t> limits,
                               Truncation truncation);

// Statistics of sources and targets.
struct PairStatistics {
  struct Limit {
    std::int64_t length = 0;  // the tried max_source_length or max_target_length
    std::int64_t longer = 0;  // samples that are longer
    std::int64_t lost = 0;    // tokens of this side removed by truncation
  };
  struct Side {
    LengthStatistics lengths;
    std::vector<Limit> limits;
  };

  std::int64_t samples = 0;
  Side source, target;
};

// Computes each limit as if the other side had none.
PairStatistics pair_statistics(const Dataset& data, std::span<const std::int64_t> source_limits,
                               std::span<const std::int64_t> target_limits, Truncation truncation);

// Cost of limits on both sides together.
struct PairCost {
  std::int64_t longer = 0;  // samples with a side that is too long
  std::int64_t lost = 0;    // tokens of both sides
};
PairCost cost_of(const Dataset& data, std::int64_t max_source, std::int64_t max_target,
                 Truncation truncation);

}  // namespace ft
