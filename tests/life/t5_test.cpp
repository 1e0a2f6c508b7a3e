// T5 with dropout, tested from outside: the same training in every ZeRO stage, after a resumption and with
// recomputation; the merged model equals the model with its adapter.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/life/program.h"

namespace ft::test {
namespace {

const Json kT5Lora = {{"lora", {{"r", 4}, {"lora_dropout", 0.1}, {"target_modules", {"q", "v", "wo"}}}}};
const Json kT5Qlora = {{"lora", {{"r", 4}, {"target_modules", "all-linear"}}},
                       {"quantization", {{"load_in_4bit", true}}}};

// A golden model with dropout.
class T5Place : public Workplace {
 public:
  T5Place(const std::string& golden, Json config) : Workplace(golden, with_lengths(std::move(config))) {
    const fs::path model = *this / "model", from = fs::read_symlink(model);
    fs::remove(model);
    fs::create_directory(model);
    fs::copy_file(from / "model.safetensors", model / "model.safetensors");
    Json settings = Json::parse(contents(from / "config.json"));
    settings["dropout_rate"] = 0.1;
    std::ofstream(model / "config.json") << settings.dump(1);
  }
  std::string weights() const {
    const bool adapter = fs::exists(*this / "out/adapter_model.safetensors");
    return contents(*this / (adapter ? "out/adapter_model.safetensors" : "out/model.safetensors"));
  }

 private:
  static Json with_lengths(Json config) {
    config["data"]["max_seq_length"] = nullptr;  // removes Workplace's setting
    config["data"]["max_source_length"] = 64;
    return config;
  }
};

TEST(T5Life, StagesTrainEqually) {
  for (const auto& [golden, config] : {std::pair{"t5", kFull}, std::pair{"t5-v11", kT5Lora}}) {
    const T5Place one(golden, config);
    ASSERT_EQ(one.train({"training.gradient_accumulation_steps=2"}), 0) << one.says();
    const std::vector<double> want = losses(one / "out");
    for (int stage = 0; stage < 4; ++stage) {
      const T5Place w(golden, config);
      ASSERT_EQ(w.run({"launch", "-n", "2", "train", "--config", "run.json",
                       "zero_stage=" + std::to_string(stage)}),
                0)
          << w.says();
      const std::vector<double> got = losses(w / "out");
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < want.size(); ++i)
        EXPECT_LT(std::abs(got[i] - want[i]), 2e-6 * want[i])
            << golden << " stage " << stage << " step " << i;
    }
  }
}

TEST(T5Life, ResumesBitwiseAndRecomputesBitwise) {
  for (const Json& config : {kFull, kT5Lora, kT5Qlora}) {
    const T5Place whole("t5-v11", config), parts("t5-v11", config);
    ASSERT_EQ(whole.train(), 0) << whole.says();
    ASSERT_EQ(parts.train({"checkpointing.save_strategy=steps", "checkpointing.save_steps=7"}), 0)
        << parts.says();
    ASSERT_EQ(parts.train({"training.resume_from_checkpoint=out/checkpoint-7",
                           "training.gradient_checkpointing=false"}),
              0)
        << parts.says();
    EXPECT_TRUE(parts.weights() == whole.weights());
  }
}

TEST(T5Life, ThePlanIsMeasuredToTheByte) {
  for (const Json& config : {kFull, kT5Lora, kT5Qlora})
    for (const char* kept :
         {"training.gradient_checkpointing=true", "training.gradient_checkpointing=false"}) {
      const T5Place w("t5-v11", config);
      ASSERT_EQ(w.run({"plan", "--config", "run.json", "--json", kept, "data.val_set_size=5",
                       "evaluation.eval_strategy=epoch"}),
                0)
          << w.says();
      const Json planned = Json::parse(contents(w / "stdout"));
      ASSERT_EQ(w.train({kept, "data.val_set_size=5", "evaluation.eval_strategy=epoch"}), 0) << w.says();
      const Json measured = rows(w / "out/log.jsonl").back().at("memory");
      for (const char* name :
           {"weights", "adapter", "gradients", "optimizer", "activations", "scratch", "total"})
        EXPECT_EQ(planned.at(name), measured.at(name)) << name << " " << kept;
    }
}

TEST(T5Life, TheMergedModelEqualsTheModelWithItsAdapter) {
  const T5Place w("t5", kT5Lora);
  ASSERT_EQ(w.train(), 0) << w.says();
  ASSERT_EQ(
      w.run({"merge", "--model", "model", "--adapter", "out", "--output", "merged", "--dtype", "float32"}), 0)
      << w.says();
  const auto eval = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command{"eval", "--config", "run.json", "--json",
                                     R"(data.eval_datasets=[{"path": "train.jsonl", "type": "tokenized"}])"};
    command.insert(command.end(), more.begin(), more.end());
    EXPECT_EQ(w.run(command), 0) << w.says();
    return Json::parse(contents(w / "stdout"))["eval_loss"].get<double>();
  };
  const double adapter = eval({"--adapter", "out"}), base = eval({});
  EXPECT_NEAR(eval({"model.model_name_or_path=merged"}), adapter, 1e-5 * adapter);
  EXPECT_GT(std::abs(base - adapter), 1e-3);
  const Json peft = Json::parse(contents(w / "out/adapter_config.json"));
  EXPECT_EQ(peft["task_type"], "SEQ_2_SEQ_LM");
}

// A separate head needs no scale, because its weights include it.
TEST(T5Life, ASeparatelyTrainedHeadIsMerged) {
  Json config = kT5Lora;
  config["lora"]["modules_to_save"] = {"lm_head"};
  const T5Place w("t5", config);
  ASSERT_EQ(w.train(), 0) << w.says();
  ASSERT_EQ(
      w.run({"merge", "--model", "model", "--adapter", "out", "--output", "merged", "--dtype", "float32"}), 0)
      << w.says();
  const Json merged = Json::parse(contents(w / "merged/config.json"));
  EXPECT_EQ(merged["tie_word_embeddings"], false);
  EXPECT_EQ(merged["scale_decoder_outputs"], false);
}

// Scores of T5 are not scaled: if a large adapter saturates them, rounding alone changes the logits. The
// merge measures this and does not report an error.
TEST(T5Life, AModelThatRoundingChangesIsMerged) {
  Json config = kT5Lora;
  config["lora"] = {
      {"r", 4}, {"lora_alpha", 64}, {"target_modules", "all-linear"}, {"init_lora_weights", false}};
  const T5Place w("t5", config);
  ASSERT_EQ(w.train({"training.max_steps=1"}), 0) << w.says();
  ASSERT_EQ(
      w.run({"merge", "--model", "model", "--adapter", "out", "--output", "merged", "--dtype", "bfloat16"}),
      0)
      << w.says();
  EXPECT_NE(w.says().find("bfloat16 rounding explains up to"), std::string::npos) << w.says();
}

// config.json may contain a list of end tokens, as generation_config.json may.
TEST(T5Life, SeveralEndTokens) {
  const T5Place w("t5", kT5Lora);
  Json settings = Json::parse(contents(w / "model/config.json"));
  settings["eos_token_id"] = {1, 3};
  std::ofstream(w / "model/config.json") << settings;
  EXPECT_EQ(w.train({"training.max_steps=1"}), 0) << w.says();
  settings["eos_token_id"] = {1, 1 << 20};
  std::ofstream(w / "model/config.json") << settings;
  EXPECT_EQ(w.train({"training.max_steps=1", "training.output_dir=other"}), 3);
  EXPECT_NE(w.says().find("eos_token_id must be a token id or a list of them, from 0 to "), std::string::npos)
      << w.says();
}

TEST(T5Life, SourcesAndTargetsAreCounted) {
  const T5Place w("t5", kT5Lora);
  std::ofstream(w / "train.jsonl") << R"({"input_ids": [5, 6, 7, 8, 1], "labels": [9, 1]}
{"input_ids": [5, 1], "labels": [9, 9, 9, 1]}
{"input_ids": [5, 6, 1], "labels": [1]}
)";
  const auto stats = [&](const std::string& truncation) {
    EXPECT_EQ(w.run({"data", "stats", "--config", "run.json", "--json", "data.max_source_length=4",
                     "data.max_target_length=3", "data.truncation=" + truncation}),
              0)
        << w.says();
    return Json::parse(contents(w / "stdout"));
  };
  const Json cut = stats("keep_start"), dropped = stats("error");
  EXPECT_EQ(cut["samples"], 3);
  EXPECT_EQ(cut["tokens"], 17);
  EXPECT_EQ(cut["target_tokens"], 7);
  EXPECT_EQ(cut["source"]["longest"], 5);
  EXPECT_EQ(cut["source"]["limits"][0], Json({{"max_source_length", 4}, {"longer", 1}, {"lost_tokens", 1}}));
  EXPECT_EQ(cut["target"]["limits"][0], Json({{"max_target_length", 3}, {"longer", 1}, {"lost_tokens", 1}}));
  EXPECT_EQ(cut["longer"], 2);
  EXPECT_EQ(cut["lost_tokens"], 2);
  EXPECT_EQ(dropped["lost_tokens"], 13);  // two samples
  ASSERT_EQ(w.run({"data", "stats", "--config", "run.json", "data.max_source_length=4"}), 0) << w.says();
  const std::string table = contents(w / "stdout");
  for (const char* line : {"3 samples, 17 tokens (41 % in targets)", "tokens per target: 1 to 4",
                           "max_source_length   longer   cut off", "  configured",
                           "as configured: 1 sample longer on either side"})
    EXPECT_NE(table.find(line), std::string::npos) << line << "\n" << table;
}

}  // namespace
}  // namespace ft::test
