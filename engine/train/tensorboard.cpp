#include "engine/train/tensorboard.h"

#include <unistd.h>
#include <cmath>

#include <array>
#include <bit>
#include <chrono>
#include <filesystem>
#include <vector>

#include "engine/core/error.h"

namespace ft {
namespace tensorboard {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = c >> 1 ^ (c & 1 ? 0x82f63b78u : 0u);
    table[i] = c;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = make_table();

template <class Integer>
std::string little_endian(Integer value) {
  std::string out;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) out += static_cast<char>(value >> 8 * i & 0xff);
  return out;
}

// Protocol buffer encoding: a key (field number and wire type), then the value.
enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  return out += static_cast<char>(value);
}
std::string key(int field, Wire wire) {
  return varint(static_cast<std::uint64_t>(field << 3 | static_cast<int>(wire)));
}
std::string integer(int field, std::int64_t v) {
  return key(field, Wire::varint) + varint(static_cast<std::uint64_t>(v));
}
std::string real64(int field, double v) {
  return key(field, Wire::fixed64) + little_endian(std::bit_cast<std::uint64_t>(v));
}
std::string real32(int field, float v) {
  return key(field, Wire::fixed32) + little_endian(std::bit_cast<std::uint32_t>(v));
}
std::string bytes(int field, std::string_view v) {
  return key(field, Wire::bytes) + varint(v.size()) + std::string(v);
}

// Field numbers of tensorflow.Event, Summary, Summary.Value and SessionLog.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr int kSummaryValue = 1, kValueTag = 1, kValueSimple = 2, kSessionStatus = 1, kSessionStart = 1;

}  // namespace

std::uint32_t crc32c(std::string_view data) {
  std::uint32_t c = 0xffffffffu;
  for (const char byte : data) c = kTable[(c ^ static_cast<unsigned char>(byte)) & 0xff] ^ c >> 8;
  return ~c;
}

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

std::string restart_event(double wall_time, std::int64_t step) {
  return real64(kWallTime, wall_time) + integer(kStep, step) +
         bytes(kSessionLog, integer(kSessionStatus, kSessionStart));
}

}  // namespace tensorboard

namespace {

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// events.out.tfevents.SECONDS.HOST.PROCESS.N: TensorBoard reads the files of a folder in the order of names.
std::string new_file(const std::string& folder) {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {"localhost"};
  const std::string name = str(folder, "/events.out.tfevents.", static_cast<std::int64_t>(wall_time()), ".",
                               host.data(), ".", getpid(), ".");
  int n = 0;
  while (std::filesystem::exists(name + std::to_string(n))) ++n;
  return name + std::to_string(n);
}

}  // namespace

void TensorBoard::begin(const RunHeader& header) {
  file_ = RunFile(new_file(folder_), /*keep=*/false);
  file_.append(tensorboard::record(tensorboard::version_event(wall_time())));
  if (header.resumed_step > 0)
    file_.append(tensorboard::record(tensorboard::restart_event(wall_time(), header.resumed_step + 1)));
}

void TensorBoard::write(std::int64_t step, std::vector<tensorboard::Scalar> scalars,
                        const std::string& prefix, const Measures& more) {
  std::vector<std::string> tags;  // Scalars hold views
  for (const auto& measure : more) tags.push_back(prefix + measure.first);
  for (std::size_t i = 0; i < tags.size(); ++i) scalars.push_back({tags[i], more[i].second});
  file_.append(tensorboard::record(tensorboard::scalars_event(wall_time(), step, scalars)));
}

void TensorBoard::step(const StepRow& row) {
  std::vector<tensorboard::Scalar> all{{"train/loss", row.loss},
                                       {"train/learning_rate", row.learning_rate},
                                       {"train/grad_norm", row.grad_norm},
                                       {"train/tokens_per_second", row.tokens_per_second},
                                       {"train/epoch", row.epoch}};
  if (row.loss_scaling) all.push_back({"train/loss_scale", row.loss_scaling->loss_scale});
  write(row.step, all, "train/", row.columns);
}

void TensorBoard::evaluation(const EvalRow& row) {
  std::vector<tensorboard::Scalar> all{{"eval/loss", row.eval_loss}};
  if (!std::isnan(row.perplexity)) all.push_back({"eval/perplexity", row.perplexity});
  write(row.step, all, "eval/", row.measures);
}

void TensorBoard::end(const Summary& summary) {
  write(summary.step, {{"train/train_loss", summary.train_loss},
                       {"train/train_runtime", summary.train_runtime},
                       {"train/train_tokens_per_second", summary.train_tokens_per_second}});
}

}  // namespace ft
