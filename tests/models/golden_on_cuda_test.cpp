// Complete models on the CUDA backend compiled for the host, against transformers and PEFT: every kernel in
// the order and with the sizes of a step.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/cuda/cuda_ops.h"
#include "engine/ops/ops.h"
#include "tests/models/golden_case.h"

namespace ft::test {

std::unique_ptr<Ops> golden_ops() {
  return make_cuda_ops(0, {.blas = 4096, .dense = 65536, .delta = 65536, .tiles = 65536, .staging = 65536});
}

namespace {

class GoldenOnCuda : public testing::TestWithParam<std::string> {
 protected:
  GoldenCase golden{GetParam()};
  std::vector<Batch> batch() const { return {GoldenCase::join(golden.batches[0])}; }
};

std::string test_name(const testing::TestParamInfo<std::string>& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Llama, GoldenOnCuda, testing::ValuesIn(golden_names()), test_name);

class LongerOnCuda : public GoldenOnCuda {};  // slower tests, for few models
INSTANTIATE_TEST_SUITE_P(Llama, LongerOnCuda, testing::Values("llama", "lora", "qwen2-layer-types", "t5"),
                         test_name);

TEST_P(GoldenOnCuda, LogitsAndGradientsF32) {
  GoldenRun run(golden, {});
  const Named by_sample = golden.expected("logits.");
  Values logits;
  for (std::size_t i = 0; i < by_sample.size(); ++i) {
    const Values& one = by_sample.at(std::to_string(i));
    logits.insert(logits.end(), one.begin(), one.end());
  }
  EXPECT_LT(nmse(run.logits(batch()[0]), logits), 1e-11);
  const auto got = run.pass(batch());
  const double loss = golden.json["expected"]["loss"];
  EXPECT_NEAR(got.loss, loss, 2e-6 * loss);
  const Named want = golden.expected("grad.");
  for (const auto& [name, values] : want) {
    ASSERT_TRUE(got.gradients.contains(name)) << name;
    if (is_rounding(values, want)) continue;
    // A small difference of large sums, as in llama_golden_test.cpp.
    const bool decay = name.ends_with(".A_log") || name.ends_with(".dt_bias");
    EXPECT_LT(nmse(got.gradients.at(name), values), decay ? 2e-9 : 1e-10) << name;
  }
}

TEST_P(LongerOnCuda, RecomputationChangesNoBit) {
  GoldenRun keeps(golden, {}), recomputes(golden, {.recompute = kAllBlocks});
  const auto a = keeps.pass(batch()), b = recomputes.pass(batch());
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.gradients, b.gradients);
}

TEST_P(LongerOnCuda, StepsOfAdamW) {
  golden.steps = 5;
  const auto got = GoldenRun(golden, {}).train();
  const Values losses = golden.losses(), norms = golden.grad_norms();
  for (std::size_t i = 0; i < got.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], losses[i], 1e-5 * losses[i]) << "step " << i;
    EXPECT_NEAR(got.grad_norms[i], norms[i], 1e-4 * norms[i]) << "step " << i;
  }
}

// Results in bf16 are no further from the f32 golden than PyTorch's own bf16 model, as on the CPU.
TEST_P(LongerOnCuda, Bf16IsAsGoodAsPyTorchs) {
  const Json& bound = golden.json["pytorch_bf16"]["weights"];
  const auto got = GoldenRun(golden, {.dtype = DType::bf16}).pass(batch());
  const double loss = golden.json["expected"]["loss"];
  EXPECT_NEAR(got.loss, loss, 2e-3 * loss);
  EXPECT_LE(nmse(got.gradients, golden.expected("grad.")),
            golden.json.value("bf16_factor", 1.0) * bound["gradients_nmse"].get<double>());
}

TEST_P(LongerOnCuda, F16IsFinerThanPyTorchsBf16) {
  const Json& bound = golden.json["pytorch_bf16"]["weights"];
  const auto got = GoldenRun(golden, {.dtype = DType::f16, .loss_scale = 1024}).pass(batch());
  const double loss = golden.json["expected"]["loss"];
  EXPECT_NEAR(got.loss, loss, 2e-4 * loss);
  EXPECT_LE(nmse(got.gradients, golden.expected("grad.")),
            golden.json.value("bf16_factor", 1.0) / 16 * bound["gradients_nmse"].get<double>());
}

}  // namespace
}  // namespace ft::test
