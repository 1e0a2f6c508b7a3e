// DeepSpeed's three batch sizes: train_batch_size = train_micro_batch_size_per_gpu x
// gradient_accumulation_steps x ranks.
#pragma once
#include <optional>
#include <string>

#include "app/deepspeed/report.h"

namespace ft::deepspeed {

struct GivenBatch {
  std::optional<std::int64_t> train, micro, accumulation;
};

// Computes the missing batch sizes by DeepSpeed's seven rules. Without train and micro, micro is
// `usual_micro`. Describes a contradiction in `mistake`.
Batch solve_batch(const GivenBatch&, int ranks, std::int64_t usual_micro, std::string& mistake);

}  // namespace ft::deepspeed
