// Losses that jump: noticed once, and noise is not.
#include "engine/train/reports/spikes.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ft {
namespace {

class Warned final : public Report {
 public:
  void warning(const std::string& text) override { warnings.push_back(text); }
  std::vector<std::string> warnings;
};

// Reports 200 steps; `loss` gives the loss of each.
std::vector<std::string> warnings_of(const std::function<double(int)>& loss) {
  Warned heard;
  Spikes spikes(heard);
  for (int step = 1; step <= 200; ++step) spikes.progress({.step = step, .loss = loss(step)});
  return heard.warnings;
}

double noisy(int step) { return 1.5 + 0.3 * std::sin(7.0 * step); }

TEST(Spikes, AreNamedOnceForManySteps) {
  const auto warnings = warnings_of([](int step) { return step == 100 || step == 101 ? 9.25 : noisy(step); });
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].starts_with("step 100: the loss jumps to 9.25; it is usually 1.")) << warnings[0];
}

TEST(Spikes, AreNotNoiseNorTheFirstSteps) {
  EXPECT_TRUE(warnings_of(noisy).empty());
  EXPECT_TRUE(warnings_of([](int step) { return step == 20 ? 9 : noisy(step); }).empty());
  EXPECT_TRUE(warnings_of([](int step) { return step == 90 ? NAN : noisy(step); }).empty());
  // Losses around 0, such as GRPO's.
  EXPECT_TRUE(
      warnings_of([](int step) { return std::sin(7.0 * step) * (step % 50 == 0 ? 3 : 0.5); }).empty());
}

TEST(Spikes, TheFirstEvaluationThatIsNotFiniteIsNamed) {
  Warned heard;
  Spikes spikes(heard);
  for (const double loss : {1.0, double{NAN}, double{INFINITY}}) {
    EvalRow row;
    row.step = static_cast<std::int64_t>(heard.warnings.size()) + 7;
    row.eval_loss = loss;
    spikes.evaluation(row);
  }
  EXPECT_EQ(
      heard.warnings,
      (std::vector<std::string>{"step 7: the evaluation's loss is not finite; it is never the best one"}));
}

}  // namespace
}  // namespace ft
