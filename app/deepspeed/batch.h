// DeepSpeed's three numbers of a step: train_batch_size = train_micro_batch_size_per_gpu x
// gradient_accumulation_steps x ranks.
#pragma once
#include <optional>
#include <string>

#include "app/deepspeed/report.h"

namespace ft::deepspeed {

struct GivenBatch {
  std::optional<std::int64_t> train, micro, accumulation;
};

// Fills in what is not given by its seven rules; without train and micro, `usual_micro`. What does not agree
// goes into `mistake`.
Batch solve_batch(const GivenBatch&, int ranks, std::int64_t usual_micro, std::string& mistake);

}  // namespace ft::deepspeed
