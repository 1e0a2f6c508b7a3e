#include "engine/train/reports/tensorboard.h"

#include <unistd.h>
#include <cmath>

#include <array>
#include <bit>
#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "engine/files/file.h"
#include "engine/files/protobuf.h"
#include "engine/train/reports/crc.h"
#include "engine/train/reports/hparams.h"
#include "engine/train/reports/tracked.h"

namespace ft {
namespace tensorboard {
namespace {

using namespace protobuf;  // NOLINT: this file writes messages

// Field numbers of tensorflow.Event, Summary, Summary.Value and SessionLog.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr int kSummaryValue = 1, kValueTag = 1, kValueSimple = 2, kSessionStatus = 1, kSessionStart = 1;

}  // namespace

std::uint32_t crc32c(std::string_view data) { return crc32<kCastagnoli>(data); }

std::uint32_t masked_crc32c(std::string_view data) { return std::rotr(crc32c(data), 15) + 0xa282ead8u; }

std::string record(std::string_view data) {
  const std::string length = little_endian(std::uint64_t{data.size()});
  return length + little_endian(masked_crc32c(length)) + std::string(data) +
         little_endian(masked_crc32c(data));
}

std::string version_event(double wall_time) {
  return real64(kWallTime, wall_time) + bytes(kFileVersion, "brain.Event:2");
}

std::string scalars_event(double wall_time, std::int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& s : scalars)
    summary +=
        bytes(kSummaryValue, bytes(kValueTag, s.tag) + real32(kValueSimple, static_cast<float>(s.value)));
  return real64(kWallTime, wall_time) + integer(kStep, step) + bytes(kSummary, summary);
}

std::string values_event(double wall_time, std::int64_t step, std::span<const std::string> values) {
  std::string summary;
  for (const std::string& value : values) summary += bytes(kSummaryValue, value);
  return real64(kWallTime, wall_time) + integer(kStep, step) + bytes(kSummary, summary);
}

std::string restart_event(double wall_time, std::int64_t step) {
  return real64(kWallTime, wall_time) + integer(kStep, step) +
         bytes(kSessionLog, integer(kSessionStatus, kSessionStart));
}

}  // namespace tensorboard

namespace {

// Returns the name of a new file, events.out.tfevents.SECONDS.HOST.PROCESS.N: TensorBoard reads the files of
// a folder in the order of names.
std::string new_file(const std::string& folder) {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {"localhost"};
  const std::string name = str("events.out.tfevents.", static_cast<std::int64_t>(seconds_since_1970()), ".",
                               host.data(), ".", getpid(), ".");
  int n = 0;
  while (std::filesystem::exists(join_path(folder, name + std::to_string(n)))) ++n;
  return name + std::to_string(n);
}

}  // namespace

void TensorBoard::begin(const RunHeader& header) {
  file_ = RunFile(folder_, join_path(job_, new_file(join_path(folder_, job_))), /*keep=*/false);
  file_.append(tensorboard::record(tensorboard::version_event(seconds_since_1970())));
  if (header.resumed_step > 0)
    file_.append(
        tensorboard::record(tensorboard::restart_event(seconds_since_1970(), header.resumed_step + 1)));
  if (!header.settings.empty()) describe(header);
}

// Writes the settings as text, and as the hyperparameters of a session whose metrics are the last scalars.
void TensorBoard::describe(const RunHeader& header) {
  const double now = seconds_since_1970();
  const auto settings = flat_settings(header.settings);
  std::vector<std::string> metrics{"train/train_loss", "train/train_runtime",
                                   "train/train_tokens_per_second"};
  if (header.data.held_out > 0) metrics.insert(metrics.begin(), "eval/loss");
  const std::array values{tensorboard::text_value("config", "```json\n" + header.settings + "\n```"),
                          tensorboard::experiment_value(settings, metrics, now),
                          tensorboard::session_start_value(settings, now)};
  file_.append(tensorboard::record(tensorboard::values_event(now, header.resumed_step, values)));
}

void TensorBoard::write(std::int64_t step, std::vector<tensorboard::Scalar> scalars,
                        const std::string& prefix, const Measures& more) {
  std::vector<std::string> tags;  // Scalars hold views of these
  for (const auto& measure : more) tags.push_back(prefix + measure.first);
  for (std::size_t i = 0; i < tags.size(); ++i) scalars.push_back({tags[i], more[i].second});
  file_.append(tensorboard::record(tensorboard::scalars_event(seconds_since_1970(), step, scalars)));
}

void TensorBoard::step(const StepRow& row) {
  std::vector<tensorboard::Scalar> all{{"train/learning_rate", row.learning_rate},
                                       {"train/grad_norm", row.grad_norm},
                                       {"train/tokens_per_second", row.tokens_per_second},
                                       {"train/epoch", row.epoch}};
  if (!std::isnan(row.loss)) all.insert(all.begin(), {"train/loss", row.loss});
  if (row.loss_scaling) all.push_back({"train/loss_scale", row.loss_scaling->loss_scale});
  write(row.step, all, "train/", row.columns);
}

void TensorBoard::evaluation(const EvalRow& row) {
  std::vector<tensorboard::Scalar> all{{"eval/loss", row.eval_loss}};
  if (!std::isnan(row.perplexity)) all.push_back({"eval/perplexity", row.perplexity});
  write(row.step, all, "eval/", row.measures);
}

void TensorBoard::end(const Summary& summary) {
  std::vector<tensorboard::Scalar> all{{"train/train_runtime", summary.train_runtime},
                                       {"train/train_tokens_per_second", summary.train_tokens_per_second}};
  if (!std::isnan(summary.train_loss)) all.insert(all.begin(), {"train/train_loss", summary.train_loss});
  write(summary.step, all);
  const double now = seconds_since_1970();
  const std::array end{tensorboard::session_end_value(summary.finished, now)};
  file_.append(tensorboard::record(tensorboard::values_event(now, summary.step, end)));
}

}  // namespace ft
