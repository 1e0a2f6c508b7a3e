#include "app/report/run_page.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/screen/format.h"
#include "app/screen/run_text.h"
#include "engine/files/file.h"
#include "engine/train/reports/json_log.h"
#include "engine/train/reports/tracked.h"

namespace ft {
namespace {

constexpr std::int64_t kLargestLog = std::int64_t{1} << 30, kLargestFile = 1 << 24;

double number_of(const Json& row, const char* key) {
  const auto at = row.find(key);
  return at != row.end() && at->is_number() ? at->get<double>() : 0;
}

// Reads the summary, which is the log's last row once the run has ended.
void read_summary(const std::string& log, RunPage& page) {
  const std::string text = read_file(log, kLargestLog);
  const std::size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return;
  const std::size_t before = text.rfind('\n', end), begin = before == std::string::npos ? 0 : before + 1;
  const Json row = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                               text.begin() + static_cast<std::ptrdiff_t>(end + 1), nullptr, false);
  if (!row.is_object() || !row.contains("train_loss")) return;
  page.ended = true;
  page.seconds = number_of(row, "train_runtime");
  page.tokens_per_second = number_of(row, "train_tokens_per_second");
  const auto memory = row.find("memory");
  if (memory == row.end() || !memory->is_object()) return;
  const auto bytes = [&](const char* key) { return static_cast<std::int64_t>(number_of(*memory, key)); };
  page.memory = {.weights = bytes("weights"),
                 .adapter = bytes("adapter"),
                 .gradients = bytes("gradients"),
                 .optimizer = bytes("optimizer"),
                 .activations = bytes("activations"),
                 .scratch = bytes("scratch"),
                 .communication = bytes("communication"),
                 .cuda = bytes("cuda"),
                 .total = bytes("total")};
}

void read_samples(const std::string& file, RunPage& page) {
  if (!path_exists(file)) return;
  const Json all = read_json(file, {.max_bytes = kLargestFile});
  if (!all.is_array()) throw UserError(Exit::input, printable(file) + ": it is not a list of samples");
  for (const Json& s : all) {
    const auto text = [&](const char* key) {
      return s.is_object() && s.contains(key) && s[key].is_string() ? s[key].get<std::string>() : "";
    };
    page.samples.push_back({text("prompt"), text("expected"), text("before"), text("after")});
  }
}

std::string last_part(const std::string& folder) {
  const auto path = std::filesystem::absolute(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// Adds a setting. A list of objects, such as the data sets, becomes a row for each value that is set in it.
void add_leaf(const std::string& name, const Json& value,
              std::vector<std::pair<std::string, std::string>>& settings) {
  const bool objects = value.is_array() && !value.empty() &&
                       std::ranges::all_of(value, [](const Json& v) { return v.is_object(); });
  if (!objects) return settings.emplace_back(name, plain_text(value)), void();
  for (std::size_t i = 0; i < value.size(); ++i)
    for (const auto& [key, member] : value[i].items())
      if (!member.is_null()) add_leaf(str(name, "[", i, "].", key), member, settings);
}

}  // namespace

void RunCurves::add(const StepRow& row) {
  steps.push_back({row.step, row.loss, row.learning_rate, row.grad_norm, row.tokens_per_second});
  rewards.add(row.step, row.columns);
}

RunPage run_page(const std::string& folder, const std::string& settings) {
  RunPage page;
  page.name = last_part(folder);
  for (const auto& [name, value] : flat_settings(settings)) add_leaf(name, value, page.settings);
  for (const auto& [name, value] : page.settings)
    if (name == "logging.run_name" && value != "null") page.name = value;
  const std::string log = join_path(folder, "log.jsonl");
  page.rows = read_log(log, INT64_MAX);
  for (const StepRow& row : page.rows.steps) page.curves.add(row);
  read_summary(log, page);
  read_samples(join_path(folder, "samples.json"), page);
  return page;
}

RunPage read_run_page(const std::string& folder) {
  for (const char* name : {"run.json", "log.jsonl"})
    if (!path_exists(join_path(folder, name)))
      throw UserError(Exit::input, str(printable(folder), ": holds no run: there is no ", name));
  return run_page(folder, read_file(join_path(folder, "run.json"), kLargestFile));
}

std::vector<std::pair<std::string, std::string>> facts_of(const RunHeader& h) {
  std::vector<std::pair<std::string, std::string>> facts;
  facts.emplace_back(
      "model", str(h.model, ", ", h.architecture, ", ", show::quantity(static_cast<double>(h.parameters)),
                   " parameters, ", h.dtype));
  const std::string trained = show::quantity(static_cast<double>(h.trained_parameters)) + " trained";
  if (h.adapter)
    facts.emplace_back("adapter", str("LoRA r ", h.adapter->rank, ", alpha ", show::number(h.adapter->alpha),
                                      ", on ", h.adapter->linears, " linears, ", trained));
  else
    facts.emplace_back("trained", "all weights, " + trained);
  if (h.data.samples > 0)
    facts.emplace_back("data", str(sample_text(h.data), "; ", show::count(h.data.held_out), " held out"));
  const std::string epochs = h.epochs < 1    ? show::digits(h.epochs, 2) + " of an epoch"
                             : h.epochs == 1 ? "1 epoch"
                                             : show::number(h.epochs) + " epochs";
  facts.emplace_back("steps", str(show::plural(h.steps, "step"), " of ", sequences_text(h), "; ", epochs));
  if (h.learning_rate > 0) facts.emplace_back("rate", rate_text(h));
  std::string machine = h.processor.empty() ? "" : h.processor + ", ";
  machine += h.ranks.empty() ? "one rank" : h.ranks + " ranks";
  if (h.memory_there > 0) machine += ", " + show::memory(h.memory_there);
  if (h.peak_flops > 0) machine += ", " + show::digits(h.peak_flops / 1e12) + " TFLOP/s";
  facts.emplace_back("machine", machine);
  if (!h.started.empty()) facts.emplace_back("begun", h.started);
  facts.emplace_back("versions", "ft " + h.version + (h.cudnn.empty() ? "" : ", cuDNN " + h.cudnn));
  return facts;
}

}  // namespace ft
