// Models on a base in FP8, quantized while they are loaded or read from the public forms, compute the
// function of the model with dequantized weights.
#include <gtest/gtest.h>

#include <filesystem>

#include "app/assembly/built_objective.h"
#include "app/models/probe.h"
#include "engine/files/convert.h"
#include "engine/train/planner.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft {
namespace {

const std::filesystem::path kFp8Forms = source_path("tests/golden/fp8");

RunConfig base_config(const std::string& folder, FrozenType type = FrozenType::automatic) {
  RunConfig c;
  c.model.model_name_or_path = folder;
  c.model.frozen_dtype = type;
  c.lora.init_lora_weights = lora::LoraInit::random_b;  // an adapter that changes the outputs
  return c;
}
std::string plain_model() { return source_path("tests/golden/four_bit/plain"); }

std::string fp8_refusal(const auto& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

// transformers' logits in f32 with the weights code * scale.
TEST(Fp8Model, PublicFoldersHaveTransformersLogits) {
  const SafetensorsFile golden((kFp8Forms / "logits.safetensors").string());
  for (const char* form : {"block", "channel", "tensor"}) {
    SCOPED_TRACE(form);
    RunConfig c = base_config((kFp8Forms / form).string());
    c.training.bf16 = false;
    const BuiltModel b = build_model(c, Weights::check, {}, {.work = Work::compute});
    EXPECT_EQ(b.fp8->count(), 7);
    const auto logits = probe_logits(b, 33);
    const StoredTensor* t = golden.find(form);
    ASSERT_EQ(std::ssize(logits), t->numel);
    std::vector<float> want(logits.size());
    golden.read(*t, Tensor(reinterpret_cast<std::byte*>(want.data()), DType::f32, {t->numel}));
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(logits[i], want[i], 2e-5) << i;
  }
}

// Reads a model's files with the quantized linears as the values that FP8 has for them.
class RoundedToFp8 final : public WeightSource {
 public:
  explicit RoundedToFp8(std::unique_ptr<WeightSource> of) : of_(std::move(of)) {}
  std::vector<std::string> names() const override { return of_->names(); }
  bool has(const std::string& name) const override { return of_->has(name); }
  WeightInfo info(const std::string& name) const override { return of_->info(name); }
  StoredBytes find_stored(const std::string&, DType, std::int64_t) const override { return {}; }
  void read(const std::string& name, const Tensor& to, std::int64_t first) const override {
    of_->read(name, to, first);
    if (name.find("_proj.") == name.npos) return;
    ASSERT_TRUE(to.dtype == DType::f32 && first == 0);
    const auto shape = info(name).shape;
    const Fp8Data q = quantize_fp8(shape[0], shape[1], DType::f32, kFp8Channels,
                                   [&](const Tensor& part, std::int64_t from) {
                                     std::copy_n(to.as<float>() + from, part.numel(), part.as<float>());
                                   });
    dequantize({to.as<float>(), static_cast<std::size_t>(to.numel())}, q);
  }

 private:
  std::unique_ptr<WeightSource> of_;
};

TEST(Fp8Model, EqualsTheModelWithDequantizedWeights) {
  BuiltModel dense = build_model(base_config(plain_model()), Weights::check);
  const auto unquantized = probe_logits(dense, 33);
  dense.base = std::make_unique<RoundedToFp8>(std::move(dense.base));
  const auto want = probe_logits(dense, 33);
  EXPECT_NE(want, unquantized);
  const BuiltModel coded = build_model(base_config(plain_model(), FrozenType::fp8), Weights::check);
  EXPECT_EQ(coded.fp8->count(), 7);
  EXPECT_EQ(probe_logits(coded, 33), want);
}

TEST(Fp8Model, TakesTheMemoryOfItsBytes) {
  PlanRequest request{.adapter = true};
  request.train = {{.tokens = 8, .targets = 7, .sequences = 1, .longest = 8}};
  const Plan fp8 =
      plan_run(build_model(base_config(plain_model(), FrozenType::fp8), Weights::check).model(), request);
  const Plan dense = plan_run(build_model(base_config(plain_model()), Weights::check).model(), request);
  EXPECT_EQ(fp8.parameters, dense.parameters);
  EXPECT_EQ(fp8.trained, dense.trained);
  EXPECT_EQ(fp8.flops, dense.flops);
  const auto part = [](std::int64_t bytes) { return (bytes + 255) / 256 * 256; };
  std::int64_t saved = 0;
  for (const auto& [out, in] : {std::pair<std::int64_t, std::int64_t>{36, 36},
                                {36, 36},
                                {36, 36},
                                {36, 36},
                                {70, 36},
                                {70, 36},
                                {36, 70}})
    saved += part(out * in * 4) - part(out * in) - part(out * 4);
  EXPECT_EQ(dense.memory.weights - fp8.memory.weights, saved);
}

// A plan without the weights knows from config.json which linears are in FP8.
TEST(Fp8Model, IsPlannedWithoutItsFiles) {
  for (const char* form : {"block", "channel", "tensor"}) {
    SCOPED_TRACE(form);
    test::TempFolder folder;
    folder.write("config.json", test::slurp((kFp8Forms / form / "config.json").string()));
    PlanRequest request{.adapter = true};
    request.train = {{.tokens = 8, .targets = 7, .sequences = 1, .longest = 8}};
    const Plan without = plan_run(build_model(base_config(folder.path()), Weights::ignore).model(), request);
    const Plan with =
        plan_run(build_model(base_config((kFp8Forms / form).string()), Weights::check).model(), request);
    EXPECT_EQ(without.memory.weights, with.memory.weights);
    EXPECT_EQ(without.memory.total, with.memory.total);
  }
}

// Files in FP8 whose config.json does not say so, used with model.frozen_dtype=fp8.
TEST(Fp8Model, WeightsInFp8KeepTheirScalesWithoutQuantizationConfig) {
  PlanRequest request{.adapter = true};
  request.train = {{.tokens = 8, .targets = 7, .sequences = 1, .longest = 8}};
  for (const char* form : {"block", "channel", "tensor"}) {
    SCOPED_TRACE(form);
    const std::string key = "\"quantization_config\"";
    std::string config = test::slurp((kFp8Forms / form / "config.json").string());
    config.replace(config.find(key), key.size(), "\"other_config\"");
    test::TempFolder folder;
    folder.write("config.json", config);
    folder.write("model.safetensors", test::slurp((kFp8Forms / form / "model.safetensors").string()));
    const BuiltModel said = build_model(base_config((kFp8Forms / form).string()), Weights::check);
    const RunConfig asked = base_config(folder.path(), FrozenType::fp8);
    const BuiltModel unsaid = build_model(asked, Weights::check);
    EXPECT_EQ(unsaid.fp8->count(), 7);
    EXPECT_EQ(unsaid.fp8->first().scheme, said.fp8->first().scheme);
    EXPECT_EQ(probe_logits(unsaid, 33), probe_logits(said, 33));
    const BuiltModel planned = build_model(asked, Weights::ignore),
                     known = build_model(base_config((kFp8Forms / form).string()), Weights::ignore);
    EXPECT_EQ(plan_run(planned.model(), request).memory.total, plan_run(known.model(), request).memory.total);
  }
}

TEST(Fp8Model, OfWeightsStoredInputsFirst) {
  RunConfig c = base_config(source_path("tests/golden/models/gpt2/model"), FrozenType::fp8);
  const BuiltModel b = build_model(c, Weights::check);
  EXPECT_TRUE(b.fp8->turns());
  RunConfig usual = base_config(c.model.model_name_or_path);
  const auto want = probe_logits(build_model(usual, Weights::check), 20);
  const LogitDifference d = compare_logits(probe_logits(b, 20), want);
  EXPECT_GT(d.largest, 0);
  EXPECT_LT(d.largest, 0.1 * d.magnitude);
}

TEST(Fp8Model, TheHeadAndTrainedWeightsStayDense) {
  RunConfig c = base_config(plain_model(), FrozenType::fp8);
  c.lora.modules_to_save = {"o_proj"};
  const BuiltModel b = build_model(c, Weights::check);
  EXPECT_EQ(b.fp8->count(), 6);
  EXPECT_EQ(b.fp8->find("lm_head.weight"), nullptr);
}

// Products in FP8 are the policy's: a teacher may have scales that they do not take.
TEST(Fp8Model, TeachersMultiplyWithoutProductsInFp8) {
  RunConfig c = base_config((kFp8Forms / "channel").string());
  c.training.bf16 = true;
  c.training.fp8 = true;
  const BuiltModel policy = build_model(c, Weights::check);
  const auto in_fp8 = [](const BuiltModel& b) {
    int rows = 0;
    EachLinear each([&](Linear& l) {
      if (const auto* w = dynamic_cast<const Fp8Weight*>(l.weight.get())) rows += w->rows_in_fp8 ? 1 : 0;
    });
    b.model().visit(each);
    return rows;
  };
  EXPECT_EQ(in_fp8(policy), 7);
  const auto teacher = build_teacher(c, (kFp8Forms / "block").string(), policy, false);
  EXPECT_EQ(teacher->fp8->count(), 7);
  EXPECT_EQ(in_fp8(*teacher), 0);
}

// A gate of one output decides over a complete expert and has nothing to save; GPUs have no product for it.
TEST(Fp8Model, GatesOfSharedExpertsStayDense) {
  for (const char* family : {"qwen2-moe", "qwen3-next-moe"}) {
    SCOPED_TRACE(family);
    const RunConfig c =
        base_config(source_path(str("tests/golden/models/", family, "/model")), FrozenType::fp8);
    const BuiltModel b = build_model(c, Weights::check);
    int gates = 0;
    for (const std::string& name : b.base->names())
      if (name.ends_with("mlp.shared_expert_gate.weight")) {
        ++gates;
        EXPECT_EQ(b.fp8->find(name), nullptr) << name;
      } else if (name.ends_with("mlp.shared_expert.up_proj.weight")) {
        EXPECT_NE(b.fp8->find(name), nullptr) << name;
      }
    EXPECT_GT(gates, 0);
  }
}

TEST(Fp8Model, ContradictionsAreRefused) {
  const std::string channel = (kFp8Forms / "channel").string();
  const auto refused = [&](const std::string& folder, auto change) {
    return fp8_refusal([&] {
      RunConfig c = base_config(folder);
      change(c);
      build_model(c, Weights::check);
    });
  };
  EXPECT_NE(refused(channel, [](RunConfig& c) { c.finetuning_type = FinetuningType::full; })
                .find("are in FP8 and cannot be trained; set it to lora"),
            std::string::npos);
  EXPECT_NE(refused(channel, [](RunConfig& c) { c.quantization.load_in_4bit = true; })
                .find("quantization.load_in_4bit: the weights of"),
            std::string::npos);
  EXPECT_NE(refused(channel, [](RunConfig& c) { c.lora.init_lora_weights = lora::LoraInit::pissa; })
                .find("before they were quantized; give that model, and set model.frozen_dtype=fp8"),
            std::string::npos);
  EXPECT_NE(refused(source_path("tests/golden/four_bit/packed"),
                    [](RunConfig& c) { c.model.frozen_dtype = FrozenType::fp8; })
                .find("model.frozen_dtype: the weights of"),
            std::string::npos);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = test::slurp((kFp8Forms / "channel" / "config.json").string());
    text.replace(text.find(from), from.size(), to);
    test::TempFolder folder;
    folder.write("config.json", text);
    folder.write("model.safetensors", test::slurp(plain_model() + "/model.safetensors"));
    return fp8_refusal([&] { build_model(base_config(folder.path()), Weights::check); });
  };
  EXPECT_NE(with("\"num_bits\": 8", "\"num_bits\": 4").find("num_bits must be 8, is 4"), std::string::npos);
  EXPECT_NE(with("\"type\": \"float\"", "\"type\": \"int\"").find("type must be float"), std::string::npos);
  EXPECT_NE(with("float-quantized", "pack-quantized").find("format must be float-quantized"),
            std::string::npos);
  EXPECT_NE(with("\"num_bits\": 8", "\"num_bits\": 8 ").find("the files have no weights in F8_E4M3"),
            std::string::npos);
}

}  // namespace
}  // namespace ft
