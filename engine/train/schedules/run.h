// Figures of a run that its schedule needs.
#pragma once
#include <cstdint>

namespace ft::schedules {

// Steps that fp16 skips do not count.
struct Run {
  double rate = 0;                     // training.learning_rate
  std::int64_t warmup = 0, total = 0;  // steps; total 0: not known yet
  double min_lr_ratio = 0;             // training.min_lr_ratio
  bool betas = true;                   // the optimizer has them
};

}  // namespace ft::schedules
