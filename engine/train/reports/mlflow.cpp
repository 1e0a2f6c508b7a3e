#include "engine/train/reports/mlflow.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/core/error.h"
#include "engine/files/file.h"
#include "engine/files/hash.h"
#include "engine/files/links.h"
#include "engine/files/make_folders.h"
#include "engine/train/reports/rows.h"
#include "engine/train/reports/tracked.h"

namespace ft {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxParameter = 6000;  // MLflow cuts longer ones
constexpr std::int64_t kMaxMeta = 1 << 20;
constexpr const char* kOutputTag = "tags/ft.output_dir";

std::int64_t milliseconds() { return static_cast<std::int64_t>(seconds_since_1970() * 1000); }

// Returns a YAML scalar with this text, whatever it contains: a JSON text is also a double-quoted YAML
// scalar.
std::string quoted(const std::string& text) { return json_text(Json(text), -1); }

// Returns a path on this machine as a file: URI.
std::string uri_of(const std::string& path) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string uri = "file://";
  for (const char c : fs::absolute(path).lexically_normal().string()) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u) || std::string_view("/-._~").find(c) != std::string_view::npos)
      uri += c;
    else
      uri += {'%', kDigits[u >> 4], kDigits[u & 15]};
  }
  return uri;
}

// Replaces characters that MLflow does not allow in a metric's name: it takes letters, digits and a few
// signs.
std::string metric_name(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) &&
        std::string_view("_-. /").find(c) == std::string_view::npos)
      c = '_';
  return name;
}

// Returns true if meta.yaml has this name, with or without quotes as MLflow's writer decides.
bool says_name(const std::string& meta, const std::string& name) {
  std::error_code none;
  if (!fs::is_regular_file(meta, none)) return false;
  std::istringstream lines(read_file(meta, kMaxMeta));
  for (std::string line; std::getline(lines, line);)
    for (const std::string& form : {name, quoted(name), "'" + name + "'"})
      if (line == "name: " + form) return true;
  return false;
}

std::vector<std::string> folders_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (entry.is_directory(none)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

void Mlflow::put(const std::string& name, const std::string& text) const {
  make_folders(folder_);
  write_below(folder_, join_path("mlruns", name), text);
}

std::string Mlflow::find_experiment() const {
  for (const std::string& id : folders_in(store_))
    if (says_name(join_path(join_path(store_, id), "meta.yaml"), experiment_)) return id;
  // The id has eighteen digits, like MLflow's, and is the same for all runs that begin this experiment at
  // once.
  std::string id;
  for (const char c : sha256(experiment_).substr(0, 18))
    id += static_cast<char>('1' + (c >= 'a' ? c - 'a' + 1 : c - '0') % 9);
  std::ostringstream meta;
  meta << "artifact_location: " << quoted(uri_of(join_path(store_, id)))
       << "\ncreation_time: " << milliseconds() << "\nexperiment_id: '" << id
       << "'\nlast_update_time: " << milliseconds()
       << "\nlifecycle_stage: active\nname: " << quoted(experiment_) << "\n";
  put(join_path(id, "meta.yaml"), meta.str());
  return id;
}

std::string Mlflow::find_run(const std::string& output) const {
  const std::string experiment = join_path(store_, experiment_id_);
  std::string found;
  fs::file_time_type newest = fs::file_time_type::min();
  for (const std::string& id : folders_in(experiment)) {
    const std::string tag = join_path(join_path(experiment, id), kOutputTag);
    std::error_code none;
    if (!fs::is_regular_file(tag, none) || read_file(tag, kMaxMeta) != output) continue;
    const auto time = fs::last_write_time(tag, none);
    if (!found.empty() && time <= newest) continue;
    found = id;
    newest = time;
  }
  return found;
}

void Mlflow::write_meta(Status status) const {
  std::ostringstream meta;
  meta << "artifact_uri: " << quoted(uri_of(join_path(store_, join_path(run_, "artifacts"))))
       << "\nend_time: " << (status == kRunning ? "null" : std::to_string(milliseconds()))
       << "\nentry_point_name: ''\nexperiment_id: '" << experiment_id_
       << "'\nlifecycle_stage: active\nrun_id: " << run_id_ << "\nrun_name: " << quoted(name_)
       << "\nsource_name: ''\nsource_type: 4\nsource_version: ''\nstart_time: " << started_
       << "\nstatus: " << static_cast<int>(status) << "\ntags: []\nuser_id: ''\n";
  put(join_path(run_, "meta.yaml"), meta.str());
}

void Mlflow::begin(const RunHeader& header) {
  const std::string output = fs::absolute(header.output).lexically_normal().string();
  name_ = header.name();
  started_ = milliseconds();
  experiment_id_ = find_experiment();
  run_id_ = header.resumed_step > 0 ? find_run(output) : "";
  if (run_id_.empty()) run_id_ = sha256(random_tag() + output).substr(0, 32);
  run_ = join_path(experiment_id_, run_id_);
  for (const char* part : {"tags", "artifacts"})
    refuse_links(folder_, join_path("mlruns", join_path(run_, part)));
  for (const char* part : {"metrics", "params"})
    make_empty_below(folder_, join_path("mlruns", join_path(run_, part)));
  write_meta(kRunning);
  for (const auto& [name, value] : flat_settings(header.settings))
    put(join_path(run_, "params/" + name), plain_text(value).substr(0, kMaxParameter));
  if (!header.settings.empty()) put(join_path(run_, "artifacts/run.json"), header.settings + "\n");
  put(join_path(run_, "tags/mlflow.runName"), name_);
  put(join_path(run_, "tags/mlflow.source.name"), "ft");
  put(join_path(run_, "tags/mlflow.source.type"), "LOCAL");
  put(join_path(run_, "tags/ft.version"), header.version);
  put(join_path(run_, kOutputTag), output);
  files_.clear();
  for (const StepRow& row : header.past.steps) log(row.step, numbers_of(row_json(row)));
  for (const EvalRow& row : header.past.evaluations) log(row.step, numbers_of(row_json(row)));
}

void Mlflow::log(std::int64_t step, const Measures& numbers) {
  for (const auto& [name, value] : numbers) {
    RunFile& file = files_[name];
    if (!file)
      file = RunFile(folder_, join_path(join_path("mlruns", run_), "metrics/" + metric_name(name)),
                     /*keep=*/false);
    std::ostringstream line;
    line.precision(std::numeric_limits<double>::max_digits10);
    line << milliseconds() << ' ' << value << ' ' << step << '\n';
    file.append(line.str());
  }
}

void Mlflow::step(const StepRow& row) {
  log(row.step, numbers_of(row_json(row)));
  log(row.step, system_memory());
}

void Mlflow::evaluation(const EvalRow& row) { log(row.step, numbers_of(row_json(row))); }

void Mlflow::end(const Summary& summary) {
  const Json row = row_json(summary);
  log(summary.step, numbers_of(row));
  Measures memory;
  for (const auto& [name, value] : numbers_of(row.at("memory"))) memory.emplace_back("memory/" + name, value);
  log(summary.step, memory);
  write_meta(summary.finished ? kFinished : kKilled);
}

}  // namespace ft
