// Writes TensorBoard event files. The format is a chain of records, each a protocol buffer between two
// checksums. Tags have the names of transformers' Trainer: train/loss, eval/loss, ...
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/train/reports/report.h"
#include "engine/train/reports/run_file.h"

namespace ft {

namespace tensorboard {

struct Scalar {
  std::string_view tag;
  double value;
};

// CRC-32C (Castagnoli), and its rotated form in TensorFlow's records.
std::uint32_t crc32c(std::string_view bytes);
std::uint32_t masked_crc32c(std::string_view bytes);

// Returns u64 length, masked CRC of these 8 bytes, the bytes, masked CRC of the bytes; little-endian.
std::string record(std::string_view bytes);

// Return messages of type Event; wall_time in seconds since 1970.
std::string version_event(double wall_time);  // the first of every file
std::string scalars_event(double wall_time, std::int64_t step, std::span<const Scalar> scalars);
// Returns an event with other values of a Summary, from logging/hparams.h.
std::string values_event(double wall_time, std::int64_t step, std::span<const std::string> values);
// Tells TensorBoard that the process started again: it then forgets events of `step` and later that it read
// before.
std::string restart_event(double wall_time, std::int64_t step);

}  // namespace tensorboard

class TensorBoard final : public Report {
 public:
  // The files are below folder/job, where no part of `job` may be a symbolic link.
  explicit TensorBoard(std::string folder, std::string job = "")
      : folder_(std::move(folder)), job_(std::move(job)) {}

  void begin(const RunHeader& header) override;
  void step(const StepRow& row) override;
  void evaluation(const EvalRow& row) override;
  void end(const Summary& summary) override;

 private:
  // Writes the scalars, and `more` with the prefix before their names.
  void write(std::int64_t step, std::vector<tensorboard::Scalar> scalars, const std::string& prefix = "",
             const Measures& more = {});

  void describe(const RunHeader& header);

  std::string folder_, job_;
  RunFile file_;
};

}  // namespace ft
