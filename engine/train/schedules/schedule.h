// The learning rate of every step: transformers' schedules and DeepSpeed's, each by its own name
// (training.lr_scheduler_type) and with its own arguments (training.lr_scheduler_kwargs). A schedule is a
// struct of those arguments with a rate, in a file of this folder, and stands in list.h.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "engine/train/config.h"
#include "engine/train/optimizers/optimizer.h"
#include "engine/train/schedules/evaluated.h"

namespace ft {

struct SettingsText;

class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual double rate(std::int64_t step) const = 0;  // from 0; skipped ones do not count
  // Replaces adam_beta1 and adam_beta2 in this step; empty: nothing does.
  virtual std::optional<Betas> betas(std::int64_t step) const = 0;
};

// Returns the schedule of a run of `total` steps. Throws as check_schedule does, and for mistakes that only
// `total` shows.
std::unique_ptr<const Schedule> make_schedule(const TrainingConfig&, std::int64_t total);

// For reduce_lr_on_plateau and greedy, in place of the schedule; null for the others.
std::unique_ptr<EvaluatedRate> make_evaluated_rate(const TrainConfig&);

// Throws UserError(config) with every mistake in training.lr_scheduler_kwargs, by its place in `tree`.
void check_schedule(const TrainingConfig&, const SettingsText& tree);

}  // namespace ft
