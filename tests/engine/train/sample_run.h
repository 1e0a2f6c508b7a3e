// A small invented run for the tests of reports, in a temporary folder.
#pragma once
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "engine/train/reports/report.h"

namespace ft {

class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ft-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

inline std::vector<std::string> lines_of(const std::string& path) {
  std::istringstream in(text_of(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Returns two digits for each byte.
inline std::string hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto u = static_cast<unsigned char>(c);
    out += {kDigits[u >> 4], kDigits[u & 15]};
  }
  return out;
}

inline RunHeader sample_header() {
  RunHeader h;
  h.run_name = "gsm8k";
  h.output = "outputs/gsm8k";
  h.steps = 20;
  h.steps_per_epoch = 10;
  h.epochs = 2;
  h.micro_batch = 4;
  h.logging_steps = 1;
  h.eval_steps = 5;
  h.save_steps = 5;
  return h;
}

inline StepRow sample_step(std::int64_t step) {
  const auto s = static_cast<double>(step);
  return {.step = step,
          .epoch = s / 10,
          .loss = 1.0 / (1 + s) + 0.1,
          .learning_rate = 2e-4 * (1 - s / 20),
          .grad_norm = 1 / s,
          .tokens_per_second = 1234.5,
          .num_input_tokens_seen = step * 2048};
}

inline EvalRow sample_evaluation(std::int64_t step, double loss, bool best) {
  return {.step = step,
          .epoch = static_cast<double>(step) / 10,
          .eval_loss = loss,
          .perplexity = 2,
          .best = best,
          .seconds = 0.5};
}

inline Summary sample_summary(std::int64_t step) {
  Summary s;
  s.step = step;
  s.epoch = static_cast<double>(step) / 10;
  s.train_loss = 0.25;
  s.train_runtime = 12.5;
  s.train_tokens_per_second = 4096;
  s.num_input_tokens_seen = step * 2048;
  s.total_flops = 1e15;
  s.memory = {.weights = 1,
              .adapter = 2,
              .gradients = 3,
              .optimizer = 4,
              .activations = 5,
              .scratch = 6,
              .communication = 7,
              .total = 28};
  return s;
}

// Reports rows first .. last, with an evaluation and a checkpoint at every fifth.
inline void play(Report& report, std::int64_t first, std::int64_t last) {
  for (std::int64_t step = first; step <= last; ++step) {
    report.progress(sample_step(step));
    report.step(sample_step(step));
    if (step % 5 != 0) continue;
    report.evaluation(sample_evaluation(step, step == 10 ? 0.5 : 0.75, step == 5 || step == 10));
    report.saved({.step = step,
                  .seconds = 0.1,
                  .waited = {},
                  .folder = "outputs/gsm8k/checkpoint-" + std::to_string(step)});
  }
}

}  // namespace ft
