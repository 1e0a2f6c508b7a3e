#include "app/train/checkpoints/best_checkpoint.h"

#include <algorithm>
#include <optional>

#include "engine/files/checkpoint_folder.h"

namespace ft {
namespace {

void choose(TrainState& state, const std::vector<EvalRow>& among, const EvaluationConfig& config) {
  state.best.reset();
  state.best_step = 0;
  for (const EvalRow& row : among) {
    const double figure = row.figure(config.metric_for_best_model);
    if (!better(figure, state.best, config.greater())) continue;
    state.best = figure;
    state.best_step = row.step;
  }
}

}  // namespace

std::string fault_of(const std::string& checkpoint) {
  try {
    open_checkpoint(checkpoint);
    return "";
  } catch (const UserError& e) {
    return e.what();
  }
}

std::string settle_best(TrainState& state, const History& past, const EvaluationConfig& config,
                        const std::string& output_dir, std::int64_t whole) {
  std::vector<EvalRow> left = past.evaluations;
  const auto is_best = [&](const EvalRow& row) { return row.step == state.best_step; };
  if (std::any_of(left.begin(), left.end(), is_best)) choose(state, left, config);
  if (!config.load_best_model_at_end) return "";
  std::string fault;
  while (state.best && state.best_step != whole) {
    const std::string why = fault_of(checkpoint_path(output_dir, state.best_step));
    if (why.empty()) break;
    if (fault.empty()) fault = str(why, "; its evaluation at step ", state.best_step, " was the best");
    std::erase_if(left, is_best);
    choose(state, left, config);
  }
  if (fault.empty()) return "";
  return fault + (state.best ? str(": the checkpoint of step ", state.best_step, " takes its place")
                             : std::string(": the next evaluation takes its place"));
}

}  // namespace ft
