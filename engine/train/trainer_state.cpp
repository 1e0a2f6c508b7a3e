#include "engine/train/trainer_state.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/io/checkpoint_folder.h"
#include "engine/io/file.h"
#include "engine/train/rows.h"

namespace ft {
namespace {

// Rows of training and evaluation in the order they were made.
Json log_history(const History& rows) {
  Json all = Json::array();
  auto evaluation = rows.evaluations.begin();
  for (const StepRow& row : rows.steps) {
    while (evaluation != rows.evaluations.end() && evaluation->step < row.step)
      all.push_back(row_json(*evaluation++));
    all.push_back(row_json(row));
  }
  while (evaluation != rows.evaluations.end()) all.push_back(row_json(*evaluation++));
  return all;
}

}  // namespace

double TrainerState::metric(const EvalRow& row) const { return row.figure(header_.metric); }

bool TrainerState::better(const EvalRow& a, const EvalRow& b) const {
  return header_.greater_is_better ? metric(a) > metric(b) : metric(a) < metric(b);
}

void TrainerState::begin(const RunHeader& header) {
  header_ = header;
  rows_ = header.past;
  for (const EvalRow& row : rows_.evaluations)
    if (!best_ || better(row, *best_)) best_ = row;
  if (!best_) return;
  if (std::filesystem::exists(checkpoint_path(folder_of(path_), best_->step)))
    best_checkpoint_ = checkpoint_path(header.output, best_->step);
}

void TrainerState::step(const StepRow& row) { rows_.steps.push_back(row); }

void TrainerState::evaluation(const EvalRow& row) {
  rows_.evaluations.push_back(row);
  if (row.best) best_ = row;
}

void TrainerState::saving(std::int64_t step, const std::filesystem::path& folder) {
  write_checkpointed(step, join_path(folder.string(), "trainer_state.json"));
}

void TrainerState::saved(std::int64_t step, double, const std::filesystem::path&) {
  write_checkpointed(step, path_);
}

void TrainerState::write_checkpointed(std::int64_t step, const std::string& to) {
  if (best_ && best_->step == step) best_checkpoint_ = checkpoint_path(header_.output, step);
  const StepRow last = rows_.steps.empty() ? StepRow{} : rows_.steps.back();
  const double steps = static_cast<double>(std::max<std::int64_t>(1, header_.steps_per_epoch));
  write({.step = step,
         .epoch = static_cast<double>(step) / steps,
         .num_input_tokens_seen = last.num_input_tokens_seen},
        false, to);
}

void TrainerState::end(const Summary& summary) { write(summary, true, path_); }

// The keys in the alphabet's order, as transformers sorts them.
void TrainerState::write(const Summary& now, bool ended, const std::string& to) const {
  Json history = log_history(rows_);
  if (ended) {
    history.push_back(row_json(now));
    history.back().erase("memory");  // transformers' rows are flat
  }
  const bool has_metric = best_ && std::isfinite(metric(*best_));
  const Json state = {
      {"best_global_step", best_ ? Json(best_->step) : Json(nullptr)},
      {"best_metric", has_metric ? Json(metric(*best_)) : Json(nullptr)},
      {"best_model_checkpoint", best_checkpoint_.empty() ? Json(nullptr) : Json(best_checkpoint_)},
      {"epoch", now.epoch},
      {"eval_steps", header_.eval_steps},
      {"global_step", now.step},
      {"is_hyper_param_search", false},
      {"is_local_process_zero", true},
      {"is_world_process_zero", true},
      {"log_history", std::move(history)},
      {"logging_steps", header_.logging_steps},
      {"max_steps", header_.steps},
      {"num_input_tokens_seen", now.num_input_tokens_seen},
      {"num_train_epochs", static_cast<std::int64_t>(std::ceil(header_.epochs))},
      {"save_steps", header_.save_steps},
      {"stateful_callbacks", Json::object()},
      {"total_flos", now.total_flops},
      {"train_batch_size", header_.micro_batch},
      {"trial_name", nullptr},
      {"trial_params", nullptr}};
  write_file(to, json_text(state) + "\n");
}

}  // namespace ft
