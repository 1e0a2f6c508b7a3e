// DeepSpeed's csv files: their names, their first line, and no duplicate rows after a resumption.
#include "engine/train/reports/csv_files.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/train/sample_run.h"

namespace ft {
namespace {

using Lines = std::vector<std::string>;

StepRow row(std::int64_t step, double loss) {
  return {.step = step, .loss = loss, .columns = {{"wall_clock/forward", 0.25}}};
}

TEST(CsvFiles, EachNumberHasAFileWithTheSamplesSeen) {
  const TestFolder folder;
  CsvFiles csv(folder.file("out/csv"));
  RunHeader header = sample_header();
  header.sequences_per_step = 8;
  csv.begin(header);
  csv.step(row(1, 0.5));
  csv.step(row(2, 0.125));
  csv.step(row(3, NAN));  // no targets
  csv.evaluation(sample_evaluation(2, 0.75, true));
  const auto file = [&](const char* name) { return lines_of(folder.file("out/csv/") + name); };
  EXPECT_EQ(file("Train_Samples_train_loss.csv"), (Lines{"step,train_loss", "8,0.5", "16,0.125"}));
  EXPECT_EQ(file("Train_Samples_lr.csv"), (Lines{"step,lr", "8,0", "16,0", "24,0"}));
  EXPECT_EQ(file("Train_Samples_wall_clock_forward.csv"),
            (Lines{"step,forward", "8,0.25", "16,0.25", "24,0.25"}));
  EXPECT_EQ(file("Eval_Samples_eval_loss.csv"), (Lines{"step,eval_loss", "16,0.75"}));
}

TEST(CsvFiles, AResumedRunGoesOnFromItsRows) {
  const TestFolder folder;
  RunHeader header = sample_header();
  header.sequences_per_step = 1;
  {
    CsvFiles csv(folder.path());
    csv.begin(header);
    for (const std::int64_t step : {1, 2, 3}) csv.step(row(step, 1));
  }
  CsvFiles csv(folder.path());
  header.resumed_step = 2;
  header.past.steps = {row(1, 1), row(2, 1)};
  csv.begin(header);
  csv.step(row(3, 0.5));
  EXPECT_EQ(lines_of(folder.file("Train_Samples_train_loss.csv")),
            (Lines{"step,train_loss", "1,1", "2,1", "3,0.5"}));
}

}  // namespace
}  // namespace ft
