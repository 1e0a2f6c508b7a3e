// Kinds of adapters, tested from outside: the plan equals the measurement; ranks, stages, recomputation and a
// resumed run give the same bits; resulting adapters can be merged and mixed.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/life/program.h"
#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

struct Kind {
  const char* name;
  const char* lora;
  const char* training = "{}";
  const char* model = "llama-gqa";
  bool merges = true;
};
const Kind kKinds[] = {
    {"Dora", R"({"r": 4, "use_dora": true, "lora_dropout": 0.1})", R"({"weight_decay": 0.1})"},
    {"DoraOfPissa", R"({"r": 2, "use_dora": true, "init_lora_weights": "pissa"})"},
    {"Pissa", R"({"r": 3, "init_lora_weights": "pissa_niter_4", "target_modules": ["q_proj", "up_proj"]})"},
    {"Olora", R"({"r": 3, "init_lora_weights": "olora"})"},
    {"Bias", R"({"r": 4, "lora_bias": true, "lora_dropout": 0.1})", R"({"weight_decay": 0.1})",
     "llama-biases-gelu"},
    {"Eva", R"({"r": 4, "init_lora_weights": "eva", "eva_config": {"rho": 1}})"},
    {"LoraGa", R"({"r": 3, "init_lora_weights": "lora_ga", "lora_ga_config": {"batches": 2}})"},
    {"DoraOfLoraGa",
     R"({"r": 2, "use_dora": true, "init_lora_weights": "lora_ga", "lora_ga_config": {"scale": "unit"}})"},
    {"Orthogonal", R"({"r": 4, "init_lora_weights": "orthogonal"})", R"({"loraplus_lr_ratio": 4})"},
    {"Tokens", R"({"r": 2, "trainable_token_indices": [7, 3, 20]})", R"({"neftune_noise_alpha": 5})"},
    {"TokensOfBothTables",
     R"({"r": 2, "trainable_token_indices": {"embed_tokens": [7, 3], "lm_head": [3, 20, 5]}})"},
    {"Embedding", R"({"r": 3, "use_rslora": true, "target_modules": ["embed_tokens", "q_proj", "lm_head"]})",
     R"({"weight_decay": 0.1})"},
    {"Hira", R"({"peft_type": "hira", "r": 4, "lora_dropout": 0.1})"},
    {"Shira", R"({"peft_type": "shira", "r": 2, "random_seed": 3})"},
    {"Oft", R"({"peft_type": "oft", "oft_block_size": 4})", R"({"weight_decay": 0.1})"},
    {"OftShared", R"({"peft_type": "oft", "oft_block_size": 8, "block_share": true, "bias": "lora_only"})",
     "{}", "llama-biases-gelu"},
    {"Activated", R"({"r": 4, "alora_invocation_tokens": [18], "lora_dropout": 0.1})", "{}", "llama-gqa",
     false},
    {"Miss", R"({"peft_type": "miss", "r": 6, "lora_dropout": 0.1})", R"({"weight_decay": 0.1})"},
};
void PrintTo(const Kind& k, std::ostream* out) { *out << k.name; }

Json config_of(const Kind& k) {
  return {{"lora", Json::parse(k.lora)}, {"training", Json::parse(k.training)}};
}

// Returns the sum over the first or the last epoch.
double sum_of(const std::vector<double>& losses, bool first) {
  const std::ptrdiff_t each = std::ptrdiff_t(losses.size()) / 4;
  const auto begin = first ? losses.begin() : losses.end() - each;
  return std::accumulate(begin, begin + each, 0.0);
}

class Adapters : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(All, Adapters, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST_P(Adapters, AreMeasuredAsPlannedResumeBitwiseAndMerge) {
  const Workplace w(GetParam().model, config_of(GetParam()));
  ASSERT_EQ(w.run({"plan", "--config", "run.json", "--json", "checkpointing.save_strategy=steps"}), 0)
      << w.says();
  const Json planned = Json::parse(contents(w / "stdout"));
  ASSERT_EQ(w.train({"checkpointing.save_strategy=steps", "checkpointing.save_steps=5"}), 0) << w.says();
  const Json measured = rows(w / "out/log.jsonl").back().at("memory");
  for (const auto& [name, bytes] : measured.items()) EXPECT_EQ(planned.at(name), bytes) << name;
  const std::string whole = contents(w / "out/adapter_model.safetensors");
  const std::vector<double> before = losses(w / "out");
  EXPECT_LT(sum_of(before, false), sum_of(before, true));
  EXPECT_EQ(w.run({"merge", "--model", "model", "--adapter", "out", "--output", "merged"}),
            GetParam().merges ? 0 : 3)
      << w.says();
  ASSERT_EQ(w.train({"training.resume_from_checkpoint=out/checkpoint-5"}), 0) << w.says();
  EXPECT_TRUE(contents(w / "out/adapter_model.safetensors") == whole);
  EXPECT_EQ(losses(w / "out"), before);
}

TEST_P(Adapters, RanksStagesAndRecomputationTrainEqually) {
  const Json config = config_of(GetParam());
  const Result plain =
      result_of(GetParam().model, config, 2, 0, 1, {"training.gradient_checkpointing=false"});
  const Result sharded =
      result_of(GetParam().model, config, 2, 3, 1, {"training.gradient_checkpointing=true"});
  EXPECT_EQ(sharded.losses, plain.losses);
  EXPECT_TRUE(sharded.weights == plain.weights);
}

TEST_P(Adapters, TrainOnWeightsIn4Bits) {
  const Workplace w(GetParam().model, config_of(GetParam()));
  const int code = w.train({"quantization.load_in_4bit=true", "training.bf16=true"});
  if (std::string_view(GetParam().lora).find("lora_ga") != std::string_view::npos) {
    EXPECT_EQ(code, 2) << w.says();  // refused, as in PEFT
    return;
  }
  ASSERT_EQ(code, 0) << w.says();
  EXPECT_LT(sum_of(losses(w / "out"), false), sum_of(losses(w / "out"), true));
}

TEST(ActivatedAdapters, SamplesWithoutTheTokensAreCounted) {
  const Workplace w("llama-gqa", {{"lora", {{"r", 2}, {"alora_invocation_tokens", {18}}}}});
  ASSERT_EQ(w.train({"training.max_steps=1"}), 0) << w.says();
  EXPECT_NE(w.says().find("lora.alora_invocation_tokens: 16 of 24 samples do not have these tokens"),
            std::string::npos)
      << w.says();
  EXPECT_EQ(w.run({"train", "--config", "run.json", "--overwrite", "lora.init_lora_weights=pissa"}), 2);
  EXPECT_NE(w.says().find("lora.alora_invocation_tokens: not with pissa and olora"), std::string::npos);
}

// PEFT cannot merge a bias of B into a linear without a bias either.
TEST(MergedAdapters, NeedALinearsBiasForTheirOwn) {
  const Workplace w("llama-gqa", {{"lora", {{"r", 2}, {"lora_bias", true}}}});
  ASSERT_EQ(w.train({"training.max_steps=1"}), 0) << w.says();
  EXPECT_EQ(w.run({"merge", "--model", "model", "--adapter", "out", "--output", "merged"}), 3);
  EXPECT_NE(w.says().find("adapter_config.json: lora_bias: model.layers.0.self_attn.q_proj has no bias"),
            std::string::npos)
      << w.says();
  EXPECT_EQ(w.run({"export", "--to", "gguf-lora", "--from", "out", "--output", "a.gguf"}), 3);
  EXPECT_NE(w.says().find("lora_bias: a GGUF adapter has A and B alone"), std::string::npos) << w.says();
}

// A merge that reports a difference from its inputs also explains it.
TEST(MergedAdapters, ReportedDifferencesAreExplained) {
  const Workplace w("llama-gqa", {{"lora", {{"r", 4}, {"init_lora_weights", false}, {"lora_alpha", 64}}}});
  ASSERT_EQ(w.train({"training.max_steps=1"}), 0) << w.says();
  ASSERT_EQ(w.run({"quantize", "--model", "model", "--output", "packed"}), 0) << w.says();
  for (const std::string model : {"model", "packed"}) {
    ASSERT_EQ(w.run({"merge", "--model", model, "--adapter", "out", "--output", "merged", "--overwrite",
                     "--dtype", "bfloat16"}),
              0)
        << w.says();
    const std::string says = w.says(), before = "base + adapter ", to = "explains up to ";
    const std::size_t a = says.find(before), b = says.find(to);
    ASSERT_TRUE(a != says.npos && b != says.npos) << says;
    EXPECT_LE(std::stod(says.substr(a + before.size())), std::stod(says.substr(b + to.size()))) << says;
    EXPECT_EQ(says.find("dequantized nf4") != says.npos, model == "packed") << says;
  }
}

// An adapter that is folded into weights evaluates as the model that ft merge makes of it, and cannot be
// trained or mixed.
TEST(FoldedAdapters, EvaluateAsTheirMergedModels) {
  const Workplace w("llama",
                    {{"data", {{"eval_datasets", {{{"path", "train.jsonl"}, {"type", "tokenized"}}}}}}});
  const std::string adapter = source_path("tests/golden/folded/loha");
  const auto loss = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{"eval", "--config", "run.json"};
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_EQ(w.run(all), 0) << w.says();
    const std::string said = contents(w / "stdout") + w.says();
    const std::size_t at = said.find("eval loss ");
    return at == said.npos ? said : said.substr(at, said.find(' ', at + 10) - at);
  };
  ASSERT_EQ(
      w.run({"merge", "--model", "model", "--adapter", adapter, "--output", "merged", "--dtype", "float32"}),
      0)
      << w.says();
  const std::string folded = loss({"--adapter", adapter});
  EXPECT_EQ(folded, loss({"model.model_name_or_path=merged"}));
  EXPECT_NE(folded, loss({}));
  for (const std::vector<std::string>& refused :
       {std::vector<std::string>{"train", "--config", "run.json", "lora.adapter_name_or_path=" + adapter},
        {"merge", "--model", "model", "--adapter", adapter + "=0.5", "--adapter", adapter + "=0.5",
         "--output", "mixed"}}) {
    EXPECT_EQ(w.run(refused), 3);
    EXPECT_NE(w.says().find("ft reads adapters of LoHa to generate, evaluate and merge"), std::string::npos)
        << w.says();
  }
}

// A model that is in 4 bits is written dense without an adapter.
TEST(ExportedModels, OfFourBitsAreDense) {
  const Workplace w("llama-gqa");
  ASSERT_EQ(w.run({"quantize", "--model", "model", "--output", "packed"}), 0) << w.says();
  ASSERT_EQ(w.run({"export", "--to", "hf", "--from", "packed", "--output", "dense"}), 0) << w.says();
  EXPECT_EQ(contents(w / "dense/config.json").find("quantization_config"), std::string::npos);
  EXPECT_EQ(w.train({"model.model_name_or_path=dense", "finetuning_type=full", "training.max_steps=1"}), 0)
      << w.says();
}

TEST(MixedAdapters, AreTheirWeightedSum) {
  const Workplace w("llama-gqa", {{"lora", {{"r", 4}, {"target_modules", {"q_proj", "down_proj"}}}}});
  ASSERT_EQ(w.train({"training.output_dir=a"}), 0) << w.says();
  ASSERT_EQ(w.train({"training.output_dir=b", "training.seed=7", "lora.target_modules=[\"q_proj\"]"}), 0)
      << w.says();
  const auto merge = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"merge", "--model", "model", "--output", "merged", "--overwrite"});
    return w.run(more);
  };
  ASSERT_EQ(merge({"--adapter", "a"}), 0) << w.says();
  const std::string alone = contents(w / "merged/model.safetensors");
  ASSERT_EQ(merge({"--adapter", "a=1", "--adapter", "b=0"}), 0) << w.says();
  EXPECT_EQ(contents(w / "merged/model.safetensors").size(), alone.size());
  for (const std::string type : {"cat", "svd", "linear"})
    EXPECT_EQ(merge({"--adapter", "a=0.7", "--adapter", "b=-0.3", "--combination-type", type}), 0)
        << w.says();
  for (const std::string type : {"ties", "dare_linear", "dare_ties", "magnitude_prune"})
    EXPECT_EQ(merge({"--adapter", "a", "--adapter", "b", "--combination-type", type, "--density", "0.5"}), 0)
        << w.says();
  EXPECT_EQ(merge({"--adapter", "a=x", "--adapter", "b"}), 2);
  EXPECT_EQ(merge({"--adapter", "a", "--adapter", "b", "--density", "0.5"}), 2);
  EXPECT_EQ(merge({"--adapter", "a", "--adapter", "nowhere"}), 3);
}

}  // namespace
}  // namespace ft::test
