#include "app/sweep/one_run.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/process/watched_process.h"
#include "app/ranks/ranks.h"
#include "engine/files/file.h"
#include "engine/files/json.h"

namespace ft {
namespace {

constexpr std::int64_t kLargest = 1 << 24;  // bytes of a file of a sweep or its runs

}  // namespace

bool is_as_before(const std::string& path, const RunConfig& config) {
  std::error_code none;
  return std::filesystem::exists(path + ".json", none) &&
         read_file(path + ".json", kLargest) == effective_config(config);
}

RunEnd run_train(const std::string& path, const RunConfig& config, const SignalQueue& signals, bool& stopped,
                 const std::function<void(const std::string&)>& says) {
  const bool goes_on = is_as_before(path, config);
  const int ranks = configured_ranks(config.distributed);
  write_file(path + ".json", effective_config(config));
  std::vector<std::string> words{"train", "--config", path + ".json"};
  if (ranks > 1) words.insert(words.begin(), "launch");
  words.emplace_back(goes_on ? "training.resume_from_checkpoint=auto" : "--overwrite");
  WatchedProcess process(words, path + ".log", signals);
  RunEnd end;
  end.exit_code = process.wait(stopped, says);
  end.last_line = process.last_line();
  return end;
}

bool read_measured(const std::string& folder, SweepRow& row) {
  const std::string file = join_path(folder, "log.jsonl");
  if (!path_exists(file)) return false;
  bool finished = false;
  std::istringstream log(read_file(file, kLargest));
  for (std::string line; std::getline(log, line);) {
    const Json r = parse_json(line, {file});
    if (r.contains("eval_loss") && r["eval_loss"].is_number()) row.eval_loss = r["eval_loss"];
    if (!r.contains("train_loss")) continue;
    finished = true;
    if (r["train_loss"].is_number()) row.train_loss = r["train_loss"];
    if (r["train_tokens_per_second"].is_number()) row.tokens_per_second = r["train_tokens_per_second"];
    row.memory = r["memory"]["total"];
  }
  return finished;
}

}  // namespace ft
