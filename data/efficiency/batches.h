// The micro-batches of a run with data efficiency: batches of another source, cut to the part that their step
// trains on. They are a function of epoch and index, as in every source: nothing is saved to resume, and all
// ranks agree.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "data/efficiency/config.h"
#include "engine/core/batch.h"

namespace ft {

// Keeps the first `length` tokens of each sequence, source and target.
Batch truncated(const Batch&, std::int64_t length);
// Splits longer sequences into several of `length` tokens; the last one holds the rest. Not for
// encoder-decoders.
Batch reshaped(const Batch&, std::int64_t length);

class EfficientBatches final : public BatchSource {
 public:
  // `per_step`: micro-batches of a step, on all ranks together. `from` must outlive this object.
  EfficientBatches(const BatchSource& from, const DataEfficiencyConfig& config, std::int64_t per_step);

  std::int64_t batches_per_epoch() const override { return from_.batches_per_epoch(); }
  Batch batch(std::int64_t epoch, std::int64_t i) const override;
  BatchShape shape(std::int64_t epoch, std::int64_t i) const override;

  // Returns the schedules' values in step n = 1, 2, ..., with their names in the log.
  std::vector<std::pair<std::string, double>> schedules(std::int64_t step) const;

 private:
  std::int64_t step_of(std::int64_t epoch, std::int64_t i) const;

  const BatchSource& from_;
  DataEfficiencyConfig config_;
  std::int64_t per_step_, steps_per_epoch_;
};

}  // namespace ft
