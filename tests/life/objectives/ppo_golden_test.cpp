// PPO against DeepSpeed-Chat's formulas in PyTorch: answers, and every step's losses, norms and columns
// (tests/golden/make_ppo.py).
#include "tests/life/objectives/online_golden.h"

namespace ft::test {
namespace {

class PpoGolden : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Runs, PpoGolden, testing::Values("plain", "options"),
                         [](const auto& run) { return std::string(run.param); });

TEST_P(PpoGolden, IsDeepSpeedChatsTraining) {
  expect_golden_run("ppo/runs.json", GetParam(), {{"type", "ppo"}, {"steps_per_generation", 4}}, 16);
}

}  // namespace
}  // namespace ft::test
