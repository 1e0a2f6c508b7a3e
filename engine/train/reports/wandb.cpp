#include "engine/train/reports/wandb.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "engine/files/file.h"
#include "engine/files/links.h"
#include "engine/files/protobuf.h"
#include "engine/train/reports/crc.h"
#include "engine/train/reports/rows.h"
#include "engine/train/reports/tracked.h"

namespace ft {
namespace fs = std::filesystem;
namespace wandb {
namespace {

using protobuf::little_endian;

constexpr std::size_t kBlock = 32768, kHeader = 7;
enum class Piece : std::uint8_t { whole = 1, first = 2, middle = 3, last = 4 };

std::string piece_of(std::string_view bytes, Piece type) {
  const std::string typed = static_cast<char>(type) + std::string(bytes);
  return little_endian(crc32<kIeee>(typed)) + little_endian(static_cast<std::uint16_t>(bytes.size())) + typed;
}

}  // namespace

std::string Framing::begin() {
  const std::string start = ":W&B" + little_endian(std::uint16_t{0xBEE1}) + little_endian(std::uint8_t{0});
  at_ = start.size();
  return start;
}

std::string Framing::frame(std::string_view record) {
  std::string out;
  for (bool first = true; first || !record.empty(); first = false) {
    std::size_t room = kBlock - at_ % kBlock;
    if (room < kHeader) {  // too short for a header
      out.append(room, '\0');
      at_ += room;
      room = kBlock;
    }
    const std::size_t size = std::min(record.size(), room - kHeader);
    const bool last = size == record.size();
    out += piece_of(record.substr(0, size), first  ? last ? Piece::whole : Piece::first
                                            : last ? Piece::last
                                                   : Piece::middle);
    record.remove_prefix(size);
    at_ += kHeader + size;
    if (last) break;
  }
  return out;
}

}  // namespace wandb

namespace {

using namespace protobuf;  // NOLINT: this file writes messages

// Field numbers of wandb_internal.proto: the kinds of a Record, and the fields of the other messages.
constexpr int kNumber = 1, kHistory = 2, kSummary = 3, kStats = 7, kMetric = 12, kRun = 17, kExit = 18,
              kHeaderRecord = 21, kEnvironment = 26;
constexpr int kItemKey = 1, kItemNestedKey = 2, kItemJson = 16;
constexpr int kHistoryItem = 1, kHistoryStep = 2, kSummaryUpdate = 1, kStatsTime = 2, kStatsItem = 3;
constexpr int kRunId = 1, kRunEntity = 2, kRunProject = 3, kRunConfig = 4, kRunGroup = 6, kRunName = 8,
              kRunHost = 13, kRunStart = 17;
constexpr int kConfigUpdate = 1, kExitRuntime = 2, kVersionInfo = 1, kProducer = 1, kMinConsumer = 2;
constexpr int kMetricName = 1, kMetricGlob = 2, kMetricStep = 4, kMetricOptions = 6, kStepSync = 1,
              kDefined = 3;
constexpr int kOs = 1, kStartedAt = 3, kProgram = 6, kHost = 12;

constexpr const char* kAxis = "train/global_step";

std::string timestamp(double seconds) {
  const double whole = std::floor(seconds);
  return integer(1, static_cast<std::int64_t>(whole)) +
         integer(2, static_cast<std::int64_t>((seconds - whole) * 1e9));
}

// Returns one key, not split at slashes or dots.
std::string item(int key_field, const std::string& name, const std::string& json) {
  return bytes(key_field, name) + bytes(kItemJson, json);
}

std::string host_name() {
  std::array<char, 256> host{};
  return gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "localhost";
}

std::string date(double seconds) {
  const auto now = static_cast<std::time_t>(seconds);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y%m%d_%H%M%S", &local);
  return {text.data(), size};
}

// Returns the newest run's folder; empty: none.
std::string run_in(const std::string& folder) {
  std::string newest;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("offline-run-") && name > newest) newest = name;
  }
  return newest;
}

// Returns transformers' names: eval/loss for an evaluation, train/loss for all else.
Measures named(const Measures& numbers, bool evaluation) {
  Measures out;
  for (auto [name, value] : numbers) {
    const bool measured = evaluation && name != "epoch";
    if (name.starts_with("eval_")) name.erase(0, 5);
    out.emplace_back((measured ? "eval/" : "train/") + name, value);
  }
  return out;
}

}  // namespace

void Wandb::put(int kind, std::string_view message) {
  wandb::Framing after = framing_;  // a failed write leaves framing_ unchanged
  file_.append(after.frame(integer(kNumber, records_ + 1) + bytes(kind, message)));
  framing_ = after;
  ++records_;
}

double Wandb::runtime() const { return seconds_since_1970() - started_; }

void Wandb::open(bool resumed) {
  const std::string there = resumed ? run_in(join_path(folder_, "wandb")) : "";
  id_ = there.empty() ? random_tag().substr(2, 8) : there.substr(there.rfind('-') + 1);
  const std::string name =
      join_path("wandb", there.empty() ? str("offline-run-", date(started_), "-", id_) : there);
  refuse_links(folder_, name);
  const std::string run = join_path(folder_, name);
  const std::string path = join_path(run, "run-" + id_ + ".wandb");
  std::error_code none;
  // These marks are removed because the file gets rows that are not synced.
  for (const char* mark : {".synced", ".syncstate"}) fs::remove(path + mark, none);
  file_ = RunFile(folder_, name + "/run-" + id_ + ".wandb", /*keep=*/false);
  records_ = rows_ = 0;
  file_.append(framing_.begin());
}

void Wandb::begin(const RunHeader& header) {
  started_ = seconds_since_1970();
  open(header.resumed_step > 0);
  put(kHeaderRecord,
      bytes(kVersionInfo, bytes(kProducer, "ft " + header.version) + bytes(kMinConsumer, "0.70.0")));
  std::string run = bytes(kRunId, id_);
  if (!config_.entity.empty()) run += bytes(kRunEntity, config_.entity);
  run += bytes(kRunProject, config_.project);
  std::string config;
  const Json settings = header.settings.empty() ? Json::object() : parse_json(header.settings, {"run.json"});
  for (const auto& [name, value] : settings.items())
    if (name != "$schema") config += bytes(kConfigUpdate, item(kItemKey, name, json_text(value, -1)));
  run += bytes(kRunConfig, config);
  if (!config_.group.empty()) run += bytes(kRunGroup, config_.group);
  run +=
      bytes(kRunName, header.name()) + bytes(kRunHost, host_name()) + bytes(kRunStart, timestamp(started_));
  put(kRun, run);
  put(kEnvironment, bytes(kOs, "Linux") + bytes(kStartedAt, timestamp(started_)) + bytes(kProgram, "ft") +
                        bytes(kHost, host_name()));
  // The optimizer's step is the axis of every chart, as in transformers, because W&B's step counts rows.
  put(kMetric, bytes(kMetricName, kAxis) + bytes(kMetricOptions, integer(kDefined, 1)));
  put(kMetric, bytes(kMetricGlob, "*") + bytes(kMetricStep, kAxis) +
                   bytes(kMetricOptions, integer(kStepSync, 1) + integer(kDefined, 1)));
  for (const StepRow& row : header.past.steps) history(row.step, named(numbers_of(row_json(row)), false));
  for (const EvalRow& row : header.past.evaluations)
    history(row.step, named(numbers_of(row_json(row)), true));
}

void Wandb::history(std::int64_t step, const Measures& numbers) {
  Json row = {{"_step", rows_}, {"_runtime", runtime()}, {"_timestamp", seconds_since_1970()}, {kAxis, step}};
  for (const auto& [name, value] : numbers) row[name] = value;
  std::string items, updates;
  for (const auto& [name, value] : row.items()) {
    const std::string one = item(kItemNestedKey, name, json_text(value, -1));
    items += bytes(kHistoryItem, one);
    updates += bytes(kSummaryUpdate, one);
  }
  put(kHistory, items + bytes(kHistoryStep, integer(1, rows_++)));
  put(kSummary, updates);
}

void Wandb::system() {
  const Measures memory = system_memory();
  if (memory.empty()) return;
  std::string stats = bytes(kStatsTime, timestamp(seconds_since_1970()));
  const std::array names{"memory_percent", "proc.memory.availableMB", "proc.memory.rssMB"};  // W&B's names
  for (std::size_t i = 0; i < names.size(); ++i)
    stats += bytes(kStatsItem, item(kItemKey, names[i], json_text(Json(memory.at(i).second), -1)));
  put(kStats, stats);
}

void Wandb::step(const StepRow& row) {
  history(row.step, named(numbers_of(row_json(row)), false));
  system();
}

void Wandb::evaluation(const EvalRow& row) { history(row.step, named(numbers_of(row_json(row)), true)); }

void Wandb::end(const Summary& summary) {
  const Json row = row_json(summary);
  std::string updates;
  for (const auto& [name, value] : named(numbers_of(row), false))
    updates += bytes(kSummaryUpdate, item(kItemNestedKey, name, json_text(Json(value), -1)));
  updates += bytes(kSummaryUpdate, item(kItemNestedKey, "memory", json_text(row.at("memory"), -1)));
  put(kSummary, updates);
  put(kExit, integer(kExitRuntime, static_cast<std::int64_t>(runtime())));
}

}  // namespace ft
