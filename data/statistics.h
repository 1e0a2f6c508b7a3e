// Figures of a dataset that help to choose max_seq_length: lengths, and what each limit would cost.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace ft {

struct DataStatistics {
  struct Bucket {
    std::int64_t most = 0, samples = 0;  // samples of up to so many tokens, and more than the bucket before
  };
  struct Limit {
    std::int64_t length = 0;     // max_seq_length
    std::int64_t longer = 0;     // samples
    std::int64_t lost = 0;       // tokens that truncation takes away
    std::int64_t untrained = 0;  // samples that would have targets, and lose all of them
    std::int64_t packs = 0;      // with packing, of what is left
    double fill = 0;             // the share of the packs' tokens in use
  };

  std::int64_t samples = 0, tokens = 0, targets = 0;
  std::int64_t shortest = 0, median = 0, p95 = 0, longest = 0;  // tokens of a sample
  std::vector<Bucket> histogram;                                // by powers of two
  std::vector<Limit> limits;
};

// `data` as it is without any limit; `truncation` is keep_start, keep_end or drop.
DataStatistics data_statistics(const Dataset& data, std::span<const std::int64_t> limits,
                               const std::string& truncation);

}  // namespace ft
