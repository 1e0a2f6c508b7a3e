// RLOO against TRL: answers, and every step's losses, norms and columns (tests/golden/make_rloo.py).
#include "tests/life/objectives/online_golden.h"

namespace ft::test {
namespace {

class RlooGolden : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Runs, RlooGolden, testing::Values("plain", "options"),
                         [](const auto& run) { return std::string(run.param); });

TEST_P(RlooGolden, IsTRLsTraining) { expect_golden_run("rloo/runs.json", GetParam(), {{"type", "rloo"}}, 8); }

}  // namespace
}  // namespace ft::test
