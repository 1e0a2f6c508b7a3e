// Settings that take words, settings with only one allowed value, and settings that have to agree with an
// adapter's file.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/files/json.h"
#include "lora/kinds.h"
#include "tests/app/config/config_text.h"
#include "tests/engine/files/temp_folder.h"

namespace ft {
namespace {

using namespace test;
using From = decltype(TrainingConfig::resume_from_checkpoint);

// Words of enums whose messages and documentation are generated.
TEST(Config, WordsOfEnums) {
  EXPECT_EQ(refused_override("device=gpu"),
            "command line: device: there is no \"gpu\"; do you mean cpu? There are cpu, cuda");
  EXPECT_EQ(
      refused_override("model.torch_dtype=bf16"),
      "command line: model.torch_dtype: there is no \"bf16\"; there are float32, bfloat16, float16, auto");
  EXPECT_EQ(refused_override("finetuning_type=freeze"),
            "command line: finetuning_type: there is no \"freeze\"; there are lora, full");
  EXPECT_EQ(refused_override("logging.progress=false"),
            "command line: logging.progress: expected auto, bar, full, plain, none, not false");
  EXPECT_EQ(
      refused_override("generation.early_stopping=nevr"),
      "command line: generation.early_stopping: there is no \"nevr\"; do you mean never? There are false, "
      "true, never");
  EXPECT_EQ(refused_override("training.resume_from_checkpoint=3"),
            "command line: training.resume_from_checkpoint: expected false, true, auto, a path, not 3");
}

TEST(Config, TrueAndFalseMayBePythons) {
  EXPECT_EQ(parsed(R"("training": {"resume_from_checkpoint": "False"})").training.resume_from_checkpoint,
            From(Resume::none));
  EXPECT_EQ(parsed(R"("training": {"resume_from_checkpoint": "True"})").training.resume_from_checkpoint,
            From(Resume::newest));
  EXPECT_EQ(parsed(R"("training": {"bf16": "True"})").training.bf16, true);
  EXPECT_EQ(parsed(R"("training": {"gradient_checkpointing": "False"})").training.gradient_checkpointing,
            Checkpointing::off);
  EXPECT_EQ(parsed(R"("logging": {"run_name": "True"})").logging.run_name, "True");
}

// gloo is an older word for tcp.
TEST(Config, OlderWordsAreRead) {
  const RunConfig c = parsed("", {"distributed.backend=gloo"});
  EXPECT_EQ(c.distributed.backend, Backend::tcp);
  EXPECT_EQ(Json::parse(effective_config(c))["distributed"]["backend"], "tcp");
}

TEST(Config, SettingsWithOneAllowedValueRefuseOthers) {
  EXPECT_EQ(refused_override("zero_optimization.contiguous_gradients=false"),
            "command line: zero_optimization.contiguous_gradients: cannot be false: ft's gradients are "
            "contiguous; leave it out");
  EXPECT_EQ(
      refused_override("zero_optimization.stage3_gather_16bit_weights_on_model_save=false"),
      "command line: zero_optimization.stage3_gather_16bit_weights_on_model_save: cannot be false: ft saves "
      "complete models; leave it out");
  parsed("", {"zero_optimization.contiguous_gradients=true", "training.full_determinism=true",
              "zero_optimization.stage3_gather_16bit_weights_on_model_save=true"});
}

// The dtype is bf16 on GPUs and f32 on CPUs, unless the settings ask for another.
TEST(Config, TheTypeOfTheComputation) {
  const auto type = [](const Overrides& more) { return parsed("", more).dtype(); };
  EXPECT_EQ(type({}), DType::f32);
  EXPECT_EQ(type({"training.bf16=auto"}), DType::f32);
  EXPECT_EQ(type({"training.bf16=true"}), DType::bf16);
  EXPECT_EQ(type({"training.fp16=true"}), DType::f16);
  EXPECT_EQ(type({"device=cuda"}), DType::bf16);
  EXPECT_EQ(type({"device=cuda", "training.bf16=false"}), DType::f32);
  EXPECT_EQ(type({"device=cuda", "training.fp16=true"}), DType::f16);
  EXPECT_EQ(type({"device=cuda", "model.torch_dtype=bfloat16"}), DType::bf16);
  EXPECT_EQ(refusal(with(""), {"device=cuda", "training.fp16=true", "quantization.load_in_4bit=true",
                               "quantization.bnb_4bit_compute_dtype=float32"}),
            "run.json: quantization.bnb_4bit_compute_dtype float32 with training in float16 is not available "
            "yet; set training.fp16=false training.bf16=false or leave bnb_4bit_compute_dtype out");
}

// The default of lora.target_modules depends on the model's family.
TEST(Config, AModelThatCannotBeReadHasNoDefaultTargets) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "ft_config_model";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << R"({"model_type": "t5")";
  const std::string model = "model.model_name_or_path=" + folder.string();
  EXPECT_THROW(parse_config(with(""), "run.json", "", {model}), UserError);
  EXPECT_NO_THROW(parse_config(with(""), "run.json", "", {model, "lora.target_modules=[\"q\"]"}));
  std::ofstream(folder / "config.json") << R"({"model_type": "t5"})";
  EXPECT_EQ(std::get<1>(parse_config(with(""), "run.json", "", {model}).lora.target_modules),
            (std::vector<std::string>{"q", "v"}));
}

// Settings beside lora.adapter_name_or_path have to agree with the adapter's file; settings that are left out
// take the adapter's values.
TEST(Config, SettingsBesideAnAdapter) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "ft_config_adapter";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "adapter_config.json") << R"({"peft_type": "LORA", "r": 4, "lora_alpha": 32,
    "target_modules": ["v_proj", "q_proj"], "bias": "all", "lora_dropout": 0.1, "use_rslora": true,
    "rank_pattern": {"b": 2, "a": 3}, "init_lora_weights": "gaussian", "modules_to_save": null})";
  const std::string from = "lora.adapter_name_or_path=" + folder.string();
  const auto beside = [&](const std::string& setting) { return refusal(with(""), {from, setting}); };
  const auto contradicts = [&](const std::string& name, const std::string& ours, const std::string& theirs) {
    return "command line: lora." + name + ": is " + ours + ", and in " + folder.string() +
           "/adapter_config.json it is " + theirs + "; leave it out to go on with that adapter";
  };
  const RunConfig c = parsed("", {from, "lora.r=4", "lora.target_modules=[\"q_proj\", \"v_proj\"]",
                                  "lora.rank_pattern={\"a\": 3, \"b\": 2}", "lora.modules_to_save=[]"});
  EXPECT_EQ(c.lora.lora_alpha, 32);
  EXPECT_EQ(c.lora.bias, lora::LoraBias::all);
  EXPECT_TRUE(c.lora.use_rslora);
  EXPECT_EQ(beside("lora.r=8"), contradicts("r", "8", "4"));
  EXPECT_EQ(beside("lora.lora_alpha=16"), contradicts("lora_alpha", "16", "32"));
  EXPECT_EQ(beside("lora.lora_dropout=0"), contradicts("lora_dropout", "0", "0.1"));
  EXPECT_EQ(beside("lora.bias=none"), contradicts("bias", "\"none\"", "\"all\""));
  EXPECT_EQ(beside("lora.use_rslora=false"), contradicts("use_rslora", "false", "true"));
  EXPECT_EQ(beside("lora.target_modules=[\"q_proj\"]"),
            contradicts("target_modules", R"(["q_proj"])", R"(["v_proj","q_proj"])"));
  EXPECT_EQ(beside("lora.exclude_modules=[\"x\"]"), contradicts("exclude_modules", R"(["x"])", "null"));
  EXPECT_EQ(beside("lora.modules_to_save=[\"x\"]"), contradicts("modules_to_save", R"(["x"])", "null"));
  EXPECT_EQ(beside("lora.layers_to_transform=1"), contradicts("layers_to_transform", "[1]", "null"));
  EXPECT_EQ(beside("lora.rank_pattern={}"), contradicts("rank_pattern", "{}", R"({"b":2,"a":3})"));
  EXPECT_EQ(beside("lora.alpha_pattern={\"a\": 1}"), contradicts("alpha_pattern", R"({"a":1})", "{}"));
  EXPECT_EQ(beside("lora.init_lora_weights=true"), contradicts("init_lora_weights", "true", "\"gaussian\""));
  EXPECT_TRUE(parsed("", {from, "lora.target_modules=all-linear"}).lora.expects_all_linear);
  // A contradiction in a file is reported with its line. An effective configuration can be run again.
  EXPECT_EQ(refusal(with("\"lora\": {\"adapter_name_or_path\": \"" + folder.string() + "\",\n\"r\": 5}"))
                .substr(0, 25),
            "run.json:5: lora.r: is 5,");
  const std::string once = effective_config(c);
  EXPECT_EQ(effective_config(parse_config(once, "run.json", "", {})), once);
  std::filesystem::remove_all(folder);
}

// The adapter's file decides the kind, so settings are checked against that kind.
TEST(Config, AnAdapterBringsItsKind) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "ft_config_kind";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "adapter_config.json") << R"({"peft_type": "HIRA", "r": 4,
    "target_modules": ["q_proj"]})";
  const std::string from = "lora.adapter_name_or_path=" + folder.string();
  const RunConfig c =
      parsed("", {from, "lora.r=4", "lora.lora_alpha=16"});  // as the file's settings are read
  EXPECT_EQ(c.lora.peft_type, &lora::kinds::kHira);
  const std::string once = effective_config(c);
  EXPECT_EQ(effective_config(parse_config(once, "run.json", "", {})), once);
  EXPECT_EQ(refusal(with(""), {from, "training.loraplus_lr_ratio=16"}),
            "run.json: training.loraplus_lr_ratio: is the ratio of the rates of LoRA's B and A, which hira "
            "lacks");
  std::ofstream(folder / "adapter_config.json") << R"({"peft_type": "SHIRA", "r": 4, "random_seed": 3,
    "target_modules": ["q_proj"]})";
  EXPECT_EQ(parsed("", {from, "lora.random_seed=3"}).lora.random_seed, 3);
  EXPECT_NE(refusal(with(""), {from, "lora.use_dora=true"}).find("lora.use_dora: is true, and in "),
            std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(Config, AWrongLossIsNamedBesideAMetric) {
  for (const auto& [type, loss] : {std::pair{"kto", "hinge"}, {"dpo", "kd"}, {"cpo", "robust"}}) {
    const std::string message =
        refusal(with(""), {str("objective.type=", type), str("objective.loss_type=", loss),
                           "evaluation.metric_for_best_model=rewards/margins"});
    EXPECT_TRUE(message.starts_with("run.json: objective.loss_type: ")) << message;
  }
}

TEST(Config, WeightsInFp8) {
  const std::string on = "model.frozen_dtype=fp8";
  EXPECT_EQ(parse_config(with(""), "run.json", "", {on}).model.frozen_dtype, FrozenType::fp8);
  EXPECT_EQ(parse_config(with(""), "run.json", "", {}).model.frozen_dtype, FrozenType::automatic);
  EXPECT_EQ(refusal(with(""), {on, "finetuning_type=full"}),
            "run.json: model.frozen_dtype: weights in FP8 cannot be trained; set finetuning_type to lora");
  EXPECT_EQ(refusal(with(""), {on, "quantization.load_in_4bit=true"}),
            "run.json: model.frozen_dtype: linears are in FP8 or in 4 bits, not in both; leave "
            "model.frozen_dtype or quantization.load_in_4bit out");
}

TEST(Config, OftHasNoRankNotEvenTheDefault) {
  const RunConfig c = parsed(R"("lora": {"peft_type": "oft", "oft_block_size": 16})");
  EXPECT_EQ(c.lora.oft_block_size, 16);
  const std::string once = effective_config(c);
  EXPECT_EQ(effective_config(parse_config(once, "run.json", "", {})), once);
  const auto says = [](const std::string& lora) {
    return test::error_of([&] { parsed(R"("lora": {"peft_type": "oft", )" + lora + "}"); });
  };
  for (const std::string given : {R"("r": 8)", R"("lora_dropout": 0.1)", R"("alora_invocation_tokens": [1])"})
    EXPECT_NE(says(given).find(": OFT (peft_type oft) has no such setting; leave it out"), std::string::npos)
        << says(given);
  EXPECT_NE(says(R"("oft_block_size": 1)").find("lora.oft_block_size"), std::string::npos);
}

TEST(Config, KindsOfAdaptersHaveTheirOwnSettings) {
  const RunConfig c = parsed(R"("lora": {"peft_type": "miss", "lora_dropout": 0.1, "bias": "all"})");
  EXPECT_EQ(c.lora.peft_type, &lora::kinds::kMiss);
  EXPECT_EQ(c.lora.r, 64);  // PEFT's default
  EXPECT_EQ(parsed(R"("lora": {"peft_type": "miss", "r": 4})").lora.r, 4);
  EXPECT_EQ(parsed("").lora.r, 8);
  const auto says = [](const std::string& lora) {
    return test::error_of([&] { parsed(R"("lora": {"peft_type": "miss", )" + lora + "}"); });
  };
  for (const std::string setting :
       {"use_dora", "use_rslora", "ensure_weight_tying", "lora_alpha", "rank_pattern"}) {
    const std::string value = setting == "lora_alpha"     ? "16"  // the default is refused too
                              : setting == "rank_pattern" ? R"({"a": 1})"
                                                          : "true";
    const std::string error = says("\"" + setting + "\": " + value);
    EXPECT_NE(error.find("lora." + setting + ": MiSS (peft_type miss) has no such setting; leave it out"),
              error.npos)
        << error;
  }
  const std::string once = effective_config(c);  // holds no alpha, and can be run again
  EXPECT_EQ(effective_config(parse_config(once, "run.json", "", {})), once);
  EXPECT_EQ(parsed(R"("lora": {"peft_type": "shira", "random_seed": 3})").lora.random_seed, 3);
  for (const std::string kind : {"lora", "hira"}) {
    const std::string refused =
        test::error_of([&] { parsed(str(R"("lora": {"peft_type": ")", kind, R"(", "random_seed": 3})")); });
    EXPECT_NE(refused.find("lora.random_seed: "), refused.npos) << refused;
  }
  const std::string error = says(R"("init_lora_weights": "pissa")");
  EXPECT_NE(error.find("lora.init_lora_weights: pissa is not a start of MiSS; there are true, false"),
            error.npos)
      << error;
}

TEST(Config, OwnAnswersAreSampledAsTheObjectiveSays) {
  for (const char* own : {"objective.lmbda=0.5", "objective.seq_kd=true"}) {
    std::vector<std::string> settings{"objective.type=distill", "objective.teacher_model_name_or_path=t", own,
                                      "generation.do_sample=true", "generation.batch_size=3"};
    EXPECT_EQ(
        refusal(with(""), settings),
        "run.json: generation.do_sample: a run's own answers are sampled as objective.temperature, top_k, "
        "top_p, min_p and repetition_penalty say; leave it out");
    settings.emplace_back("data.val_set_size=0.1");
    EXPECT_EQ(refusal(with("\"evaluation\": {\"predict_with_generate\": true}"), settings), "accepted")
        << "evaluations generate with it";
  }
}

}  // namespace
}  // namespace ft
