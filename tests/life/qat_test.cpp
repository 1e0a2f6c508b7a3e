// training.qat, tested from outside: the exported GGUF file has the loss of training; the same bits for every
// stage, recomputed or not, resumed or not; memory as planned; refusals.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/formats/gguf/gguf.h"
#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

const Json kHeldOut = {{{"path", "train.jsonl"}, {"type", "tokenized"}}};
const std::string kResult = "out/adapter_model.safetensors", kFullResult = "out/model.safetensors";

Json with_qat(Json config, const std::string& format) {
  config["model"]["model_name_or_path"] = "wide";
  config["training"]["qat"] = format;
  return config;
}
const Json kLoraFor4 = with_qat({{"lora", {{"r", 4}}}}, "q4_0"),
           kFullFor4 = with_qat({{"finetuning_type", "full"}}, "q4_0"),
           kFullFor8 = with_qat({{"finetuning_type", "full"}}, "q8_0");

// Makes the golden model anew, with these changes of its config.json, in the folder `wide`.
void make_wide(const Workplace& w, const Json& changes) {
  Json config = Json::parse(contents(w / "model/config.json"));
  config.merge_patch(changes);
  std::ofstream(w / "wide.json") << config.dump();
  ASSERT_EQ(w.run({"init", "--config", "wide.json", "--output", "wide"}), 0) << w.says();
}

// A model with rows of whole blocks.
class Place : public Workplace {
 public:
  explicit Place(const Json& config, const Json& shape = Json::object(), const std::string& golden = "llama")
      : Workplace(golden, config) {
    Json changes = {{"hidden_size", 64}, {"intermediate_size", 96}};
    changes.merge_patch(shape);
    make_wide(*this, changes);
  }
  double last_evaluation() const {
    double loss = -1;
    for (const Json& row : rows(*this / "out/log.jsonl"))
      if (row.contains("eval_loss")) loss = row["eval_loss"];
    return loss;
  }
  double evaluated(const std::vector<std::string>& more) const {
    std::vector<std::string> all{"eval", "--config", "run.json", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_EQ(run(all), 0) << says();
    return Json::parse(contents(*this / "stdout")).value("eval_loss", -2.0);
  }
};

struct Case {
  const char* name;
  Json config;
  std::vector<std::string> settings;
  const char* golden = "llama";
  Json shape = Json::object();
  double bound = 0;  // share of the loss
};

// On CPUs the file holds the matrices of training bit for bit. Gemma's norms are stored larger by 1, which
// rounds them.
const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"FullInQ4", kFullFor4, {}},
      {"FullInQ8", kFullFor8, {}},
      {"LoraInQ4", kLoraFor4, {}},
      {"LoraInQ8", kLoraFor4, {"training.qat=q8_0", "lora.use_rslora=true"}},
      {"FullInQ4Bf16", kFullFor4, {"training.bf16=true"}},
      {"LoraInQ4Bf16", kLoraFor4, {"training.bf16=true"}},
      {"LoraInQ4F16", kLoraFor4, {"training.fp16=true"}},
      {"TiedInQ4", kFullFor4, {}, "qwen3", {{"head_dim", 32}}},
      {"FusedInQ4", kLoraFor4, {}, "phi3", {{"num_attention_heads", 4}, {"num_key_value_heads", 2}}},
      {"GemmaInQ4", kFullFor4, {}, "gemma2", {{"head_dim", 32}, {"query_pre_attn_scalar", 32}}, 1e-5},
  };
  return all;
}

class Deployed : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(All, Deployed, testing::Range(std::size_t{0}, cases().size()),
                         [](const auto& i) { return std::string(cases()[i.param].name); });

TEST_P(Deployed, HasTheLossOfTraining) {
  const Case& t = cases()[GetParam()];
  Json config = t.config;
  config["data"]["eval_datasets"] = kHeldOut;
  config["evaluation"] = {{"eval_strategy", "epoch"}};
  const Place w(config, t.shape, t.golden);
  std::vector<std::string> settings = t.settings;
  settings.push_back("training.num_train_epochs=2");
  ASSERT_EQ(w.train(settings), 0) << w.says();
  const double trained = w.last_evaluation();
  ASSERT_GT(trained, 0);
  ASSERT_EQ(w.run({"export", "--to", "gguf", "--from", "out", "--output", "out.gguf"}), 0) << w.says();
  const bool lora = t.config.contains("lora");
  std::vector<std::string> file = t.settings;
  for (const char* s : {"model.model_name_or_path=out.gguf", "finetuning_type=full", "training.qat=null"})
    file.push_back(s);
  EXPECT_NEAR(w.evaluated(file), trained, t.bound * trained);
  // The weights before they are quantized have another loss.
  std::vector<std::string> plain = t.settings;
  plain.push_back("training.qat=null");
  if (lora) plain.push_back("--adapter");
  plain.push_back(lora ? "out" : "model.model_name_or_path=out");
  EXPECT_GT(std::abs(w.evaluated(plain) - trained), 1e-6 * trained);
  plain.erase(std::find(plain.begin(), plain.end(), "training.qat=null"));
  EXPECT_EQ(w.evaluated(plain), trained);
}

// The linears of the blocks are in the format, and other matrices in the type of the computation.
TEST(Qat, TheFileHasTheTypesOfTraining) {
  const Place w(kFullFor4);
  ASSERT_EQ(w.train({"training.max_steps=1", "training.bf16=true"}), 0) << w.says();
  ASSERT_EQ(w.run({"export", "--to", "gguf", "--from", "out", "--output", "out.gguf"}), 0) << w.says();
  int coded = 0;
  const GgufFile file((w / "out.gguf").string());
  for (const GgufTensor& t : file.tensors()) {
    const bool linear = t.shape.size() == 2 && t.name.starts_with("blk.");
    coded += linear;
    EXPECT_EQ(t.type, linear                ? GgmlType::q4_0
                      : t.shape.size() == 2 ? GgmlType::bf16
                                            : GgmlType::f32)
        << t.name;
  }
  EXPECT_EQ(coded, 14);
  ASSERT_EQ(w.run({"export", "--to", "gguf", "--from", "out", "--output", "other.gguf", "--dtype", "q8_0"}),
            0)
      << w.says();
  EXPECT_NE(w.says().find("q4_0 was trained (training.qat), and --dtype asks for other types"),
            std::string::npos)
      << w.says();
}

// A checkpoint of a run in bfloat16 holds float32 masters; the file has the values that the run computes
// with.
TEST(Qat, ACheckpointIsExportedAsTrained) {
  Json config = kFullFor4;
  config["data"]["eval_datasets"] = kHeldOut;
  config["evaluation"] = {{"eval_strategy", "steps"}, {"eval_steps", 4}};
  const Place w(config);
  ASSERT_EQ(w.train({"training.bf16=true", "training.max_steps=4", "checkpointing.save_strategy=steps",
                     "checkpointing.save_steps=4"}),
            0)
      << w.says();
  ASSERT_EQ(w.run({"export", "--to", "gguf", "--from", "out/checkpoint-4", "--output", "out.gguf"}), 0)
      << w.says();
  EXPECT_EQ(w.evaluated({"training.bf16=true", "model.model_name_or_path=out.gguf", "training.qat=null"}),
            w.last_evaluation());
}

// The average of the weights is exported with the types of training too.
TEST(Qat, TheAverageIsExportedAsTrained) {
  const Place w(kFullFor8);
  ASSERT_EQ(w.train({"training.max_steps=2", "training.ema_decay=0.5"}), 0) << w.says();
  ASSERT_EQ(w.run({"export", "--to", "gguf", "--from", "out/ema", "--output", "ema.gguf"}), 0) << w.says();
  const GgufFile file((w / "ema.gguf").string());
  for (const GgufTensor& t : file.tensors())
    EXPECT_EQ(t.type == GgmlType::q8_0, t.shape.size() == 2 && t.name.starts_with("blk.")) << t.name;
}

TEST(Qat, TrainingLowersTheLossOfTheFile) {
  for (const Json& config : {kLoraFor4, kFullFor4}) {
    const Place w(config);
    ASSERT_EQ(w.train({"training.num_train_epochs=8"}), 0) << w.says();
    const std::vector<double> all = losses(w / "out");
    ASSERT_GT(all.size(), 8u);
    EXPECT_LT(all.back(), 0.97 * all.front());
  }
}

TEST(Qat, RecomputationChangesNoBit) {
  for (const auto& [config, result] : {std::pair{kLoraFor4, kResult}, {kFullFor4, kFullResult}}) {
    const Place w(config);
    ASSERT_EQ(w.train({"training.gradient_checkpointing=true"}), 0) << w.says();
    const std::string whole = contents(w / result);
    ASSERT_FALSE(whole.empty());
    for (const char* how : {"false", "auto", "offload"}) {
      ASSERT_EQ(w.train({std::string("training.gradient_checkpointing=") + how, "--overwrite"}), 0)
          << w.says();
      EXPECT_TRUE(contents(w / result) == whole) << how;
    }
  }
}

TEST(Qat, AResumedRunHasTheSameBits) {
  for (const auto& [config, result] : {std::pair{kLoraFor4, kResult}, {kFullFor4, kFullResult}}) {
    const Place w(config);
    ASSERT_EQ(w.train({"checkpointing.save_strategy=steps", "checkpointing.save_steps=3"}), 0) << w.says();
    const std::string whole = contents(w / result);
    ASSERT_FALSE(whole.empty());
    ASSERT_EQ(w.train({"training.resume_from_checkpoint=out/checkpoint-3"}), 0) << w.says();
    EXPECT_TRUE(contents(w / result) == whole);
    EXPECT_NE(w.train({"training.resume_from_checkpoint=out/checkpoint-3", "training.qat=q8_0"}), 0);
    EXPECT_NE(w.says().find("training.qat"), std::string::npos) << w.says();
  }
}

TEST(Qat, StagesAndRanksTrainEqually) {
  const auto trained = [](const Json& config, int stage, const std::vector<std::string>& more = {}) {
    const Place w(config);
    std::vector<std::string> words = more;
    words.push_back("training.max_steps=5");
    EXPECT_EQ(w.run(command(2, stage, 1, words)), 0) << w.says();
    return Result{losses(w / "out"), contents(w / file_of(config))};
  };
  for (const Json& config : {kLoraFor4, kFullFor4}) {
    const Result want = trained(config, 0);
    ASSERT_EQ(want.losses.size(), 5u);
    for (const int stage : {1, 2, 3}) {
      const Result got = trained(config, stage);
      EXPECT_EQ(got.losses, want.losses) << stage;
      EXPECT_TRUE(got.weights == want.weights) << stage;
    }
  }
}

// Two ranks that share each layer have whole blocks, and the losses of one rank.
TEST(Qat, RanksThatShareLayersTrainAsOne) {
  const Json shape = {{"head_dim", 16}};  // o_proj has rows of 64 elements, and each rank 32 of them
  for (const Json& config : {kLoraFor4, kFullFor4}) {
    const auto trained = [&](const std::vector<std::string>& words) {
      Json wide = shape;
      wide["intermediate_size"] = 128;
      const Place w(config, wide);
      EXPECT_EQ(w.run(words), 0) << w.says();
      return losses(w / "out");
    };
    const std::vector<std::string> five = {"training.max_steps=5"};
    const auto one = trained(command(1, 0, 1, five)),
               two = trained(command(2, 0, 1, {five[0], "distributed.tensor_parallel_size=2"}));
    ASSERT_EQ(one.size(), 5u);
    ASSERT_EQ(two.size(), 5u);
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(two[i], one[i], 1e-3 * one[i]) << i;
    EXPECT_NEAR(two[0], one[0], 1e-6 * one[0]);  // before rounding can change a code
  }
}

TEST(Qat, MemoryIsAsPlanned) {
  for (const Json& config : {kLoraFor4, kFullFor4})
    for (const std::string recompute : {"true", "false"})
      for (const std::string bf16 : {"true", "false"}) {
        const Place w(config);
        const std::vector<std::string> how = {"training.gradient_checkpointing=" + recompute,
                                              "training.bf16=" + bf16};
        ASSERT_EQ(w.run({"plan", "--config", "run.json", "--json", how[0], how[1]}), 0) << w.says();
        const Json planned = Json::parse(contents(w / "stdout"));
        ASSERT_EQ(w.train(how), 0) << w.says();
        expect_planned(planned, rows(w / "out/log.jsonl").back().at("memory"));
      }
}

TEST(Qat, IsRefusedByName) {
  const Place w(kLoraFor4);
  const auto refused = [&](const std::vector<std::string>& settings, const std::string& text) {
    EXPECT_EQ(w.train(settings), 2) << w.says();
    EXPECT_NE(w.says().find(text), std::string::npos) << w.says();
  };
  refused({"quantization.load_in_4bit=true"},
          "training.qat: quantizes weights of 16 or 32 bits, not of 4; set quantization.load_in_4bit=false");
  refused({"model.frozen_dtype=fp8"}, "training.qat: quantizes weights of 16 or 32 bits, not of FP8");
  refused({"lora.use_dora=true"}, "without DoRA's magnitudes; set lora.use_dora=false");
  refused({"lora.lora_dropout=0.1"}, "lora.lora_dropout: with training.qat adapters are merged");
  refused({"lora.init_lora_weights=pissa"}, "the base keeps its weights, which pissa and olora change");
  refused({"lora.peft_type=hira"}, "not lora.peft_type hira");
  refused({"model.model_name_or_path=model"},
          "model.layers.0.mlp.down_proj.weight have 30 elements, and a block has 32; leave training.qat out");
  ASSERT_EQ(w.train({"training.max_steps=1"}), 0) << w.says();
  EXPECT_EQ(w.run({"export", "--to", "gguf-lora", "--from", "out", "--output", "lora.gguf"}), 2);
  EXPECT_NE(w.says().find("readers add a GGUF adapter to weights that are quantized already"),
            std::string::npos)
      << w.says();
}

TEST(Qat, ModelsThatCannotBeWrittenAreRefused) {
  const auto refused = [](const char* golden, const Json& changes, const std::string& text) {
    const Workplace w(golden, kFullFor4);
    make_wide(w, changes);
    EXPECT_EQ(w.train({"training.max_steps=1"}), 2) << golden << w.says();
    EXPECT_NE(w.says().find(text), std::string::npos) << w.says();
  };
  refused("mixtral", Json::object(), "training.qat: experts are not quantized in training yet");
  refused("gpt2", {{"scale_attn_by_inverse_layer_idx", false}},
          "is stored inputs first, so that its blocks lie across rows");
  refused("opt", Json::object(), "training.qat: the result could not be exported: ");
}

}  // namespace
}  // namespace ft::test
