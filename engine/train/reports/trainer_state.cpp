#include "engine/train/reports/trainer_state.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/files/checkpoint_folder.h"
#include "engine/files/file.h"
#include "engine/train/reports/rows.h"

namespace ft {
namespace {

// Returns the rows up to a step.
History up_to(std::int64_t step, History rows) {
  std::erase_if(rows.steps, [&](const StepRow& row) { return row.step > step; });
  std::erase_if(rows.evaluations, [&](const EvalRow& row) { return row.step > step; });
  return rows;
}

// Returns the rows of training and evaluation in the order they were made.
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

void TrainerState::begin(const RunHeader& header) {
  header_ = header;
  rows_ = header.past;
  for (const EvalRow& row : rows_.evaluations) {
    if (header.best_step && row.step != *header.best_step) continue;
    const std::optional<double> before = best_.empty() ? std::nullopt : std::optional(metric(best_.back()));
    if (better(metric(row), before, header.greater_is_better)) best_.push_back(row);
  }
  if (!best_.empty() && is_there(best_.back().step)) best_saved_ = best_.back().step;
}

const EvalRow* TrainerState::best_at(std::int64_t step) const {
  const auto after = std::ranges::find_if(best_, [&](const EvalRow& row) { return row.step > step; });
  return after == best_.begin() ? nullptr : &*std::prev(after);
}

bool TrainerState::is_there(std::int64_t step) const {
  return path_exists(checkpoint_path(folder_of(path_), step));
}

void TrainerState::step(const StepRow& row) { rows_.steps.push_back(row); }

void TrainerState::evaluation(const EvalRow& row) {
  rows_.evaluations.push_back(row);
  if (row.best) best_.push_back(row);
}

void TrainerState::saving(std::int64_t step, const std::filesystem::path& folder) {
  write_checkpointed(step, join_path(folder.string(), "trainer_state.json"));
}

void TrainerState::saved(const SavedRow& row) { write_checkpointed(row.step, path_); }

void TrainerState::write_checkpointed(std::int64_t step, const std::string& to) {
  if (const EvalRow* best = best_at(step); best && best->step == step) best_saved_ = step;
  const History rows = up_to(step, rows_);  // training may have passed this step
  const StepRow last = rows.steps.empty() ? StepRow{} : rows.steps.back();
  const double steps = static_cast<double>(std::max<std::int64_t>(1, header_.steps_per_epoch));
  write({.step = step,
         .epoch = static_cast<double>(step) / steps,
         .num_input_tokens_seen = last.num_input_tokens_seen},
        rows, false, to, step);
}

void TrainerState::end(const Summary& summary) { write(summary, rows_, true, path_, 0); }

// Writes the keys in alphabetical order, as transformers does.
void TrainerState::write(const Summary& now, const History& rows, bool ended, const std::string& to,
                         std::int64_t saving) const {
  Json history = log_history(rows);
  if (ended) {
    history.push_back(row_json(now));
    history.back().erase("memory");  // transformers' rows are flat
  }
  const bool has_checkpoint = best_saved_ > 0 && (best_saved_ == saving || is_there(best_saved_));
  const EvalRow* best = best_at(now.step);  // training may have passed this step
  const bool has_metric = best && std::isfinite(metric(*best));
  const Json state = {{"best_global_step", best ? Json(best->step) : Json(nullptr)},
                      {"best_metric", has_metric ? Json(metric(*best)) : Json(nullptr)},
                      {"best_model_checkpoint",
                       has_checkpoint ? Json(checkpoint_path(header_.output, best_saved_)) : Json(nullptr)},
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
