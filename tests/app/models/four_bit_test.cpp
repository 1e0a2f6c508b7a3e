// Models in 4 bits, quantized while they are loaded or read from a bitsandbytes folder, compute exactly the
// function of the model with dequantized weights.
#include <gtest/gtest.h>

#include <filesystem>

#include "app/models/probe.h"
#include "engine/train/planner.h"
#include "tests/support/source.h"

namespace ft {
namespace {

const std::filesystem::path kGolden = source_path("tests/golden/four_bit");

BuiltModel build(const std::string& folder, bool four_bit,
                 const std::vector<std::string>& skip = {"lm_head"}) {
  RunConfig c;
  c.model.model_name_or_path = (kGolden / folder).string();
  c.quantization.load_in_4bit = four_bit;
  c.quantization.skip_modules = skip;
  c.lora.init_lora_weights = lora::LoraInit::random_b;  // an adapter that changes the outputs
  return build_model(c, Weights::check);
}

std::string refusal(const auto& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

TEST(FourBitModel, EqualsTheModelWithDequantizedWeights) {
  BuiltModel dense = build("plain", false);
  const auto unquantized = probe_logits(dense, 33);
  dense.base = open_model_folder((kGolden / "packed").string());
  const auto want = probe_logits(dense, 33);
  EXPECT_NE(want, unquantized);
  EXPECT_EQ(probe_logits(build("packed", false), 33), want);
  EXPECT_EQ(probe_logits(build("packed", true), 33), want);
  const auto loaded = compare_logits(probe_logits(build("plain", true), 33), want);
  EXPECT_LT(loaded.largest, 1e-6 * loaded.magnitude);  // the mean of absmax differs in its last bit
}

TEST(FourBitModel, TakesTheMemoryOfItsBytes) {
  PlanRequest request{.adapter = true};
  request.train = {{.tokens = 8, .targets = 7, .sequences = 1, .longest = 8}};
  const Plan four_bit = plan_run(build("plain", true).model(), request);
  const Plan dense = plan_run(build("plain", false).model(), request);
  EXPECT_EQ(four_bit.parameters, dense.parameters);
  EXPECT_EQ(four_bit.trained, dense.trained);
  EXPECT_EQ(four_bit.flops, dense.flops);
  const auto part = [](std::int64_t bytes) { return (bytes + 255) / 256 * 256; };
  std::int64_t saved = 0;
  for (const std::int64_t n : {36 * 36, 36 * 36, 36 * 36, 36 * 36, 36 * 70, 36 * 70, 36 * 70})
    saved += part(n * 4) - part(n / 2) - part((n + 63) / 64) - 2 * part(4);
  EXPECT_EQ(dense.memory.weights - four_bit.memory.weights, saved);
}

// The head and T5's feed-forward outputs (wo) stay dense, as in transformers.
TEST(FourBitModel, DoesNotQuantizeT5sWo) {
  RunConfig c;
  c.model.model_name_or_path = source_path("tests/golden/models/t5-v11/model");
  c.quantization.load_in_4bit = true;
  const BuiltModel b = build_model(c, Weights::check);
  int dense = 0, packed = 0;
  EachLinear each([&](Linear& l) {
    const bool four_bit = dynamic_cast<const FourBitWeight*>(l.weight.get()) != nullptr;
    EXPECT_EQ(four_bit, !l.name.ends_with(".wo") && l.name != "lm_head") << l.name;
    ++(four_bit ? packed : dense);
  });
  b.model().visit(each);
  EXPECT_EQ(dense, 4 + 1);
  EXPECT_EQ(packed, 2 * (4 + 2) + 2 * (8 + 2));
}

TEST(FourBitModel, SkipsListedModules) {
  EXPECT_EQ(build("plain", true).four_bit->count(), 7);
  EXPECT_EQ(build("plain", true, {"lm_head", "mlp"}).four_bit->count(), 4);
  EXPECT_EQ(build("plain", true, {"lm_head", "0.self_attn"}).four_bit->count(), 3);
  EXPECT_EQ(build("plain", true, {}).four_bit->count(), 8);
  EXPECT_EQ(
      refusal([] {
        build("plain", true, {"lm_head", "q_pro"});
      }),
      "quantization.skip_modules: nothing is called \"q_pro\"; linears of this model: q_proj k_proj v_proj "
      "o_proj gate_proj up_proj down_proj lm_head");
  EXPECT_EQ(refusal([] {
              build("plain", true, {"lm_head", "model"});
            }),
            "quantization.load_in_4bit: quantization.skip_modules leaves no linear to keep in 4 bits");
  EXPECT_NE(refusal([] {
              build("packed", true, {"lm_head", "mlp"});
            }).find("already in another 4-bit format"),
            std::string::npos);
}

}  // namespace
}  // namespace ft
