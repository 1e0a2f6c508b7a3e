// Models in 8 bits, for generation: exactly the function of the model with dequantized weights.
#include <gtest/gtest.h>

#include <algorithm>

#include "app/models/probe.h"
#include "engine/train/planner.h"
#include "tests/support/source.h"

namespace ft {
namespace {

BuiltModel built_model_of(const std::string& golden, Int8Part int8, const std::string& adapter = "") {
  RunConfig c;
  c.model.model_name_or_path = source_path("tests/golden/models/" + golden + "/model");
  if (!adapter.empty())
    c.lora.adapter_name_or_path = source_path("tests/golden/models/" + adapter + "/adapter");
  return build_model(c, Weights::check, {}, {.work = Work::compute, .int8 = int8});
}

// Reads a model's files, with the weights of one linear or of all rounded to 8 bits and back.
class Rounded final : public WeightSource {
 public:
  explicit Rounded(std::unique_ptr<WeightSource> of, std::string only = "")
      : of_(std::move(of)), only_(std::move(only)) {}
  std::vector<std::string> names() const override { return of_->names(); }
  bool has(const std::string& name) const override { return of_->has(name); }
  WeightInfo info(const std::string& name) const override { return of_->info(name); }
  StoredBytes find_stored(const std::string&, DType, std::int64_t) const override { return {}; }
  void read(const std::string& name, const Tensor& to, std::int64_t first) const override {
    of_->read(name, to, first);
    const bool table =
        name.find("embed") != name.npos || name.find("wte") != name.npos || name.find("wpe") != name.npos;
    if (info(name).shape.size() != 2 || table || (!only_.empty() && name != only_)) return;
    ASSERT_TRUE(to.dtype == DType::f32 && first == 0);
    const Int8Data q = quantize_int8(to.numel(), DType::f32, [&](const Tensor& part, std::int64_t from) {
      std::copy_n(to.as<float>() + from, part.numel(), part.as<float>());
    });
    for (std::int64_t i = 0; i < to.numel(); ++i)
      to.as<float>()[i] = static_cast<float>(q.codes[static_cast<std::size_t>(i)]) *
                          q.scales[static_cast<std::size_t>(i / kInt8Block)];
  }

 private:
  std::unique_ptr<WeightSource> of_;
  std::string only_;
};

class Int8Model : public testing::TestWithParam<const char*> {};

TEST_P(Int8Model, EqualsTheModelWithDequantizedWeights) {
  BuiltModel dense = built_model_of(GetParam(), Int8Part::none);
  const auto unquantized = probe_logits(dense, 33);
  dense.base = std::make_unique<Rounded>(std::move(dense.base));
  const auto want = probe_logits(dense, 33);
  EXPECT_NE(want, unquantized);
  EXPECT_EQ(probe_logits(built_model_of(GetParam(), Int8Part::linears), 33), want);
}
INSTANTIATE_TEST_SUITE_P(All, Int8Model, testing::Values("llama", "qwen3", "gpt2"));

TEST(Int8Weights, OfTheHeadAlone) {
  BuiltModel dense = built_model_of("llama", Int8Part::none);
  dense.base = std::make_unique<Rounded>(std::move(dense.base), "lm_head.weight");
  EXPECT_EQ(probe_logits(built_model_of("llama", Int8Part::head), 33), probe_logits(dense, 33));
}

TEST(Int8Weights, RefusesATiedHead) {
  try {
    built_model_of("gpt2", Int8Part::head);
    FAIL() << "accepted";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::config);
    EXPECT_NE(std::string(e.what()).find("--quantize-head int8: the head of this model cannot"),
              std::string::npos)
        << e.what();
  }
}

TEST(Int8Weights, TakeAByteAnElementAndTheirScales) {
  PlanRequest request{.adapter = false};
  request.states = no_states;
  request.train = {{.tokens = 8, .targets = 7, .sequences = 1, .longest = 8}};
  const Plan int8 = plan_run(built_model_of("llama", Int8Part::linears).model(), request);
  const Plan dense = plan_run(built_model_of("llama", Int8Part::none).model(), request);
  EXPECT_EQ(int8.parameters, dense.parameters);
  EXPECT_LT(int8.memory.weights * 2, dense.memory.weights);
}

TEST(Int8Weights, AdaptersThatNeedTheWeightsAreRefused) {
  try {
    built_model_of("llama-biases-gelu", Int8Part::linears, "lora-dora");
    FAIL() << "accepted";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::config);
    EXPECT_NE(std::string(e.what()).find("--quantize int8: not with DoRA"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace ft
