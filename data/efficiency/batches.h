// The micro-batches of a run with data efficiency: another source's, cut to what their step is to learn from.
// Like those of every source they are a function of epoch and index: nothing is saved to resume, and all
// ranks agree.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "data/efficiency/config.h"
#include "engine/core/batch.h"

namespace ft {

// Sequences, sources and targets of at most `length` tokens: their first.
Batch truncated(const Batch&, std::int64_t length);
// Longer sequences become several of `length` tokens, the last of what is left. Not for encoder-decoders.
Batch reshaped(const Batch&, std::int64_t length);

class EfficientBatches final : public BatchSource {
 public:
  // `per_step`: micro-batches of a step, of all ranks. `from` outlives it.
  EfficientBatches(const BatchSource& from, const DataEfficiencyConfig& config, std::int64_t per_step);

  std::int64_t batches_per_epoch() const override { return from_.batches_per_epoch(); }
  Batch batch(std::int64_t epoch, std::int64_t i) const override;
  BatchShape shape(std::int64_t epoch, std::int64_t i) const override;

  // What the schedules say of step n = 1, 2, ..., by the names of the log.
  std::vector<std::pair<std::string, double>> schedules(std::int64_t step) const;

 private:
  std::int64_t step_of(std::int64_t epoch, std::int64_t i) const;

  const BatchSource& from_;
  DataEfficiencyConfig config_;
  std::int64_t per_step_, steps_per_epoch_;
};

}  // namespace ft
