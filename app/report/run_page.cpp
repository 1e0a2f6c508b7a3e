#include "app/report/run_page.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/report/run_facts.h"
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
  if (!path_exists(log)) return;
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
  if (const auto memory = row.find("memory"); memory != row.end()) page.memory = memory_of(*memory);
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

std::int64_t whole_number(const Json& object, const char* key) {
  const double x = number_of(object, key);
  return std::fabs(x) < 9e18 ? static_cast<std::int64_t>(x) : 0;
}

MemoryReport memory_of(const Json& row) {
  const auto bytes = [&](const char* key) { return row.is_object() ? whole_number(row, key) : 0; };
  return {.weights = bytes("weights"),
          .adapter = bytes("adapter"),
          .gradients = bytes("gradients"),
          .optimizer = bytes("optimizer"),
          .activations = bytes("activations"),
          .scratch = bytes("scratch"),
          .communication = bytes("communication"),
          .cuda = bytes("cuda"),
          .snapshot = bytes("snapshot"),
          .total = bytes("total")};
}

RunPage run_page(const std::string& folder, const std::string& settings) {
  RunPage page;
  page.name = last_part(folder);
  for (const auto& [name, value] : flat_settings(settings)) add_leaf(name, value, page.settings);
  for (const auto& [name, value] : page.settings)
    if (name == "logging.run_name" && value != "null") page.name = value;
  const std::string log = join_path(folder, "log.jsonl");
  read_run_facts(folder, page);
  page.rows = read_log(log, INT64_MAX);
  for (const StepRow& row : page.rows.steps) page.curves.add(row);
  read_summary(log, page);
  read_samples(join_path(folder, "samples.json"), page);
  return page;
}

RunPage read_run_page(const std::string& folder) {
  const std::string file = join_path(folder, "run.json");
  if (!path_exists(file))
    throw UserError(Exit::input, printable(folder) + ": holds no run: there is no run.json");
  return run_page(folder, read_file(file, kLargestFile));
}

}  // namespace ft
