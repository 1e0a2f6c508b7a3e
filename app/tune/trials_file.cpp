#include "app/tune/trials_file.h"

#include <nlohmann/json.hpp>

#include "app/process/watched_process.h"
#include "engine/files/file.h"
#include "engine/files/hash.h"
#include "engine/files/json.h"

namespace ft {
namespace {

constexpr std::int64_t kLargest = 1 << 26;  // bytes of a file that is read

TrialOutcome read_outcome(const JsonObject& row) {
  TrialOutcome t;
  t.exit_code = static_cast<int>(row.integer("exit_code", 0, 255));
  t.result = row.text("result");
  t.behind = row.boolean("stopped_early");
  t.steps = row.integer("steps", 0);
  if (t.exit_code != 0) return t;
  t.speed = {row.positive_number_or("tokens_per_second", 0), row.positive_number_or("seconds_per_step", 0),
             row.positive_number_or("noise", 0)};
  if (t.speed.tokens_per_second <= 0) row.refuse("tokens_per_second", "a positive number");
  return t;
}

}  // namespace

TrialsFile::TrialsFile(const std::string& path) {
  if (path_exists(path)) {
    const std::string text = read_file(path, kLargest);
    const std::string whole = text.substr(0, text.rfind('\n') + 1);
    std::int64_t number = 1;
    for (std::size_t begin = 0, end = 0; begin < whole.size(); begin = end + 1, ++number) {
      end = whole.find('\n', begin);
      const auto row = JsonObject::parse(whole.substr(begin, end - begin), {path, number});
      const TrialOutcome outcome = read_outcome(row);
      if (!may_end_otherwise(outcome.exit_code)) known_[row.text("key")] = outcome;
    }
    if (whole.size() < text.size()) write_file(path, whole);
  }
  file_ = RunFile(path, true);
}

std::string TrialsFile::key(const RunConfig& config) {
  return sha256(effective_config(trial_config(config, "trial"))).substr(0, 32);
}

const TrialOutcome* TrialsFile::find(const std::string& key) const {
  const auto at = known_.find(key);
  return at == known_.end() ? nullptr : &at->second;
}

void TrialsFile::add(const std::string& key, const std::string& settings, const TrialOutcome& t) {
  known_[key] = t;
  Json row = {{"key", key},
              {"settings", parse_json(settings, {"settings"})},
              {"exit_code", t.exit_code},
              {"result", t.result}};
  row["stopped_early"] = t.behind;
  row["steps"] = t.steps;
  if (t.exit_code == 0) {
    row["tokens_per_second"] = t.speed.tokens_per_second;
    row["seconds_per_step"] = t.speed.seconds_per_step;
    row["noise"] = t.speed.noise;
  }
  file_.append(json_text(row, -1) + "\n");
}

}  // namespace ft
