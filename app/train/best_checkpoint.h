// The best evaluation of a run that is resumed, and its checkpoint.
#pragma once
#include <string>
#include <vector>

#include "engine/train/checkpoint.h"
#include "engine/train/config.h"
#include "engine/train/reports/report.h"

namespace ft {

// Chooses the best of the past evaluations by evaluation.metric_for_best_model, which may be another one now.
// With load_best_model_at_end only those count whose checkpoint is complete in output_dir. Returns a warning
// where the best's is not; empty: there is none. whole: a step whose checkpoint has been verified.
std::string settle_best(TrainState&, const History& past, const EvaluationConfig&,
                        const std::string& output_dir, std::int64_t whole);

// Names the fault of a checkpoint; empty: it is complete.
std::string fault_of(const std::string& checkpoint);

}  // namespace ft
