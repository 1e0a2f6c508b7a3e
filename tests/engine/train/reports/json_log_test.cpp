// log.jsonl: the documented names, all digits, and no duplicate rows after a resumption.
#include "engine/train/reports/json_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "tests/engine/train/sample_run.h"

namespace ft {
namespace {

nlohmann::json parsed(const std::string& line) { return nlohmann::json::parse(line); }

TEST(JsonLog, RowsHaveTheNamesOfTheContract) {
  const TestFolder folder;
  JsonLog log(folder.file("out/log.jsonl"));  // the folder is created
  log.begin(sample_header());
  log.step(sample_step(1));
  log.evaluation(sample_evaluation(1, 0.7, true));
  log.end(sample_summary(1));
  const auto lines = lines_of(folder.file("out/log.jsonl"));
  ASSERT_EQ(lines.size(), 3u);
  for (const char* key :
       {"step", "epoch", "loss", "learning_rate", "grad_norm", "tokens_per_second", "num_input_tokens_seen"})
    EXPECT_TRUE(parsed(lines[0]).contains(key)) << key;
  for (const char* key : {"step", "epoch", "eval_loss", "perplexity"})
    EXPECT_TRUE(parsed(lines[1]).contains(key)) << key;
  const auto last = parsed(lines[2]);
  for (const char* key : {"train_loss", "train_runtime", "train_tokens_per_second", "memory"})
    EXPECT_TRUE(last.contains(key)) << key;
  EXPECT_FALSE(last.contains("loss"));
  EXPECT_EQ(last["memory"], nlohmann::json({{"weights", 1},
                                            {"adapter", 2},
                                            {"gradients", 3},
                                            {"optimizer", 4},
                                            {"activations", 5},
                                            {"scratch", 6},
                                            {"communication", 7},
                                            {"cuda", 0},
                                            {"snapshot", 0},
                                            {"total", 28},
                                            {"host", 0},
                                            {"elsewhere", 0}}));
}

TEST(JsonLog, HasTheLossScaleInFp16AndReadsItBack) {
  const TestFolder folder;
  JsonLog log(folder.file("log.jsonl"));
  log.begin(sample_header());
  StepRow row = sample_step(1);
  log.step(row);
  row.step = 2;
  row.loss_scaling = LossScalingRow{32768, 3};
  log.step(row);
  const auto lines = lines_of(folder.file("log.jsonl"));
  EXPECT_FALSE(parsed(lines[0]).contains("loss_scale"));
  EXPECT_EQ(parsed(lines[1])["loss_scale"], 32768);
  EXPECT_EQ(parsed(lines[1])["skipped_steps"], 3);
  const History past = read_log(folder.file("log.jsonl"), 2);
  EXPECT_FALSE(past.steps[0].loss_scaling);
  EXPECT_EQ(past.steps[1].loss_scaling, row.loss_scaling);
}

TEST(JsonLog, NumbersKeepAllTheirDigits) {
  const TestFolder folder;
  JsonLog log(folder.file("log.jsonl"));
  log.begin(sample_header());
  StepRow row = sample_step(3);
  row.loss = std::nextafter(1.1, 2.0);
  row.learning_rate = 1.0 / 3 * 1e-5;
  row.grad_norm = INFINITY;
  log.step(row);
  const auto read = parsed(lines_of(folder.file("log.jsonl")).at(0));
  EXPECT_EQ(read["loss"].get<double>(), row.loss);
  EXPECT_EQ(read["learning_rate"].get<double>(), row.learning_rate);
  EXPECT_TRUE(read["grad_norm"].is_null());
}

TEST(JsonLog, EachRowIsOnDiskAtOnce) {
  const TestFolder folder;
  JsonLog log(folder.file("log.jsonl"));
  log.begin(sample_header());
  for (std::int64_t step = 1; step < 4; ++step) {
    log.step(sample_step(step));
    EXPECT_EQ(lines_of(folder.file("log.jsonl")).size(), static_cast<std::size_t>(step));
  }
}

// A run that is stopped after step 13 and resumed from step 10 writes the same rows as an unstopped one.
TEST(JsonLog, ResumedEqualsUninterrupted) {
  const TestFolder folder;
  const auto whole = folder.file("whole.jsonl"), parts = folder.file("parts.jsonl");
  JsonLog a(whole);
  a.begin(sample_header());
  play(a, 1, 20);
  a.end(sample_summary(20));

  {
    JsonLog b(parts);
    b.begin(sample_header());
    play(b, 1, 13);
    b.end(sample_summary(13));
  }
  std::ofstream(parts, std::ios::app) << R"({"step":14,"lo)";  // killed in the middle of a row
  RunHeader header = sample_header();
  header.resumed_step = 10;
  header.past = read_log(parts, 10);
  EXPECT_EQ(header.past.steps.size(), 10u);
  EXPECT_EQ(header.past.evaluations.size(), 2u);
  EXPECT_EQ(header.past.steps[6].loss, sample_step(7).loss);
  EXPECT_EQ(header.past.evaluations[1].eval_loss, 0.5);
  JsonLog c(parts);
  c.begin(header);
  EXPECT_EQ(lines_of(parts).size(), 12u);
  play(c, 11, 20);
  c.end(sample_summary(20));
  EXPECT_EQ(text_of(parts), text_of(whole));
}

TEST(JsonLog, AFreshRunBeginsEmptyAndAMissingLogIsNone) {
  const TestFolder folder;
  std::ofstream(folder.file("log.jsonl")) << "old\n";
  JsonLog log(folder.file("log.jsonl"));
  log.begin(sample_header());
  EXPECT_EQ(text_of(folder.file("log.jsonl")), "");
  EXPECT_TRUE(read_log(folder.file("none.jsonl"), 5).steps.empty());
  RunHeader header = sample_header();
  header.resumed_step = 5;  // resumed into another folder
  JsonLog other(folder.file("other.jsonl"));
  other.begin(header);
  other.step(sample_step(6));
  EXPECT_EQ(lines_of(folder.file("other.jsonl")).size(), 1u);
}

TEST(JsonLog, AFullDiskIsReported) {
  JsonLog log("/dev/full");
  log.begin(sample_header());
  try {
    log.step(sample_step(1));
    FAIL() << "no error";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::storage);
    EXPECT_STREQ(e.what(), "/dev/full: cannot be written: No space left on device");
  }
}

TEST(JsonLog, AFolderInItsPlaceIsReported) {
  const TestFolder folder;
  JsonLog log(folder.path());
  try {
    log.begin(sample_header());
    FAIL() << "no error";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::storage);
    EXPECT_EQ(std::string(e.what()), folder.path() + ": cannot be written: Is a directory");
  }
}

}  // namespace
}  // namespace ft
