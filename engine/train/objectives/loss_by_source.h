// Mean losses of examples by the dataset that they come from, as columns of the log: loss/NAME of a step,
// eval_NAME_loss of an evaluation (transformers' names for several evaluation sets).
#pragma once
#include <string>
#include <vector>

#include "engine/core/batch.h"
#include "engine/model/loss.h"
#include "engine/pass/context.h"
#include "engine/train/objectives/kind.h"
#include "engine/train/reports/report.h"

namespace ft {

class LossBySource {
 public:
  // Datasets of one name are one group.
  explicit LossBySource(const ReportedSources&);

  bool any() const { return !names_.empty(); }
  // Begins a step or an evaluation, whose batches number the datasets differently.
  void begin(bool evaluation);

  // Returns the stretches of a batch's targets; none for a batch without datasets.
  std::vector<TargetStretch> stretches(const Batch&) const;
  // Returns zeros, (groups) f64, in c.scratch.
  Tensor zeros(Ctx& c) const;
  // Adds a pass's sums to the sums on the host.
  void add(Ctx&, Tensor group_sums, std::span<const TargetStretch>);

  std::vector<std::string> columns() const;
  // Returns a sum of losses and a number of targets for each group, and clears them.
  std::vector<double> take();
  Measures measures(const std::vector<double>& sums) const;

 private:
  std::vector<std::string> names_;          // of groups
  std::vector<std::int32_t> train_, eval_;  // by dataset: its group, -1: none
  std::vector<double> sums_;
  bool evaluates_ = false;
};

}  // namespace ft
