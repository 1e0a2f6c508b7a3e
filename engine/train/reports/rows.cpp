#include "engine/train/reports/rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

namespace ft {
namespace {

double real(const Json& row, const char* key) {
  const auto at = row.find(key);
  return at != row.end() && at->is_number() ? at->get<double>() : NAN;
}

// Returns true for the fixed names in a row of training; other names are columns.
bool is_own(const std::string& name) {
  constexpr std::array kOwn{"step",
                            "epoch",
                            "loss",
                            "learning_rate",
                            "grad_norm",
                            "tokens_per_second",
                            "num_input_tokens_seen",
                            "loss_scale",
                            "skipped_steps"};
  return std::find(kOwn.begin(), kOwn.end(), name) != kOwn.end();
}

std::int64_t whole(const Json& row, const char* key) {
  const auto at = row.find(key);
  return at != row.end() && at->is_number_integer() ? at->get<std::int64_t>() : 0;
}

}  // namespace

Json row_json(const StepRow& row) {
  Json json = {{"step", row.step},
               {"epoch", finite_or_null(row.epoch)},
               {"loss", finite_or_null(row.loss)},
               {"learning_rate", finite_or_null(row.learning_rate)},
               {"grad_norm", finite_or_null(row.grad_norm)},
               {"tokens_per_second", finite_or_null(row.tokens_per_second)},
               {"num_input_tokens_seen", row.num_input_tokens_seen}};
  if (row.loss_scaling) {
    json["loss_scale"] = finite_or_null(row.loss_scaling->loss_scale);
    json["skipped_steps"] = row.loss_scaling->skipped_steps;
  }
  for (const auto& [name, value] : row.columns) json[name] = finite_or_null(value);
  return json;
}

Json row_json(const EvalRow& row) {
  Json json = {{"step", row.step},
               {"epoch", finite_or_null(row.epoch)},
               {"eval_loss", finite_or_null(row.eval_loss)},
               {"eval_runtime", finite_or_null(row.seconds)}};
  if (!std::isnan(row.perplexity)) json["perplexity"] = finite_or_null(row.perplexity);
  for (const auto& [name, value] : row.measures) json["eval_" + name] = finite_or_null(value);
  return json;
}

Json row_json(const Summary& summary) {
  Json json = {{"step", summary.step},
               {"epoch", finite_or_null(summary.epoch)},
               {"train_loss", finite_or_null(summary.train_loss)},
               {"train_runtime", finite_or_null(summary.train_runtime)},
               {"train_tokens_per_second", finite_or_null(summary.train_tokens_per_second)},
               {"num_input_tokens_seen", summary.num_input_tokens_seen},
               {"total_flos", finite_or_null(summary.total_flops)},
               {"sent_per_step", summary.sent_per_step},
               {"memory", memory_json(summary.memory)}};
  const Moved& moved = summary.moved_per_step;
  if (!summary.files_by.empty()) {
    json["read_per_step"] = moved.read;
    json["written_per_step"] = moved.written;
    json["files_by"] = summary.files_by;
  }
  if (moved.to_device + moved.to_host > 0) {
    json["to_device_per_step"] = moved.to_device;
    json["to_host_per_step"] = moved.to_host;
  }
  return json;
}

Json memory_json(const MemoryReport& m) {
  return {{"weights", m.weights},
          {"adapter", m.adapter},
          {"gradients", m.gradients},
          {"optimizer", m.optimizer},
          {"activations", m.activations},
          {"scratch", m.scratch},
          {"communication", m.communication},
          {"cuda", m.cuda},
          {"snapshot", m.snapshot},
          {"total", m.total},
          {"host", m.host},
          {"elsewhere", m.elsewhere}};
}

std::int64_t step_of(const Json& row) { return row.is_object() ? whole(row, "step") : 0; }

bool add_row(const Json& row, History& history) {
  if (step_of(row) <= 0) return false;
  if (row.contains("loss")) {
    history.steps.push_back({.step = whole(row, "step"),
                             .epoch = real(row, "epoch"),
                             .loss = real(row, "loss"),
                             .learning_rate = real(row, "learning_rate"),
                             .grad_norm = real(row, "grad_norm"),
                             .tokens_per_second = real(row, "tokens_per_second"),
                             .num_input_tokens_seen = whole(row, "num_input_tokens_seen")});
    if (row.contains("loss_scale"))
      history.steps.back().loss_scaling =
          LossScalingRow{real(row, "loss_scale"), whole(row, "skipped_steps")};
    for (const auto& [name, value] : row.items())
      if (!is_own(name) && value.is_number())
        history.steps.back().columns.emplace_back(name, value.get<double>());
    return true;
  }
  if (!row.contains("eval_loss")) return false;
  history.evaluations.push_back({.step = whole(row, "step"),
                                 .epoch = real(row, "epoch"),
                                 .eval_loss = real(row, "eval_loss"),
                                 .perplexity = real(row, "perplexity"),
                                 .seconds = real(row, "eval_runtime")});
  for (const auto& [key, value] : row.items())
    if (key.starts_with("eval_") && key != "eval_loss" && key != "eval_runtime" && value.is_number())
      history.evaluations.back().measures.emplace_back(key.substr(5), value.get<double>());
  return true;
}

}  // namespace ft
