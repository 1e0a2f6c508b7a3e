// Finds the best evaluation of a resumed run, and its checkpoint.
#pragma once
#include <string>
#include <vector>

#include "engine/train/checkpoint.h"
#include "engine/train/config.h"
#include "engine/train/reports/report.h"

namespace ft {

// Chooses the best of the past evaluations by evaluation.metric_for_best_model, which may have changed. With
// load_best_model_at_end, only evaluations count whose checkpoint is complete in output_dir. Returns a
// warning if the best evaluation has no complete checkpoint; empty: none. `whole`: a step whose checkpoint is
// already verified.
std::string settle_best(TrainState&, const History& past, const EvaluationConfig&,
                        const std::string& output_dir, std::int64_t whole);

// Returns the fault of a checkpoint; empty: it is complete.
std::string fault_of(const std::string& checkpoint);

}  // namespace ft
