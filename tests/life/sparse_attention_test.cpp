// Sparse attention, tested from outside: the same training under ZeRO and after a resumption, the plan to the
// byte, answers, and refused settings.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/life/program.h"

namespace ft::test {
namespace {

Json sparse(Json config) {
  config["model"]["sparse_attention"] = {{"mode", "bigbird"},
                                         {"max_seq_length", 64},
                                         {"different_layout_per_head", true},
                                         {"num_sliding_window_blocks", 1},
                                         {"num_random_blocks", 1}};
  return config;
}
const Json kQlora = {{"lora", {{"r", 4}, {"target_modules", "all-linear"}}},
                     {"quantization", {{"load_in_4bit", true}}}};

// Rows of 60 tokens are four blocks of 16; with only two blocks, bigbird would mask nothing.
struct LongRows : Workplace {
  explicit LongRows(const Json& config) : Workplace("llama-gqa", config) {
    std::ofstream out(*this / "train.jsonl");
    for (int row = 0; row < 12; ++row) {
      Json ids;
      for (int i = 0; i < 60; ++i) ids.push_back(3 + (i * 7 + row * i % 5) % 50);
      out << Json{{"input_ids", ids}, {"labels", ids}} << "\n";
    }
  }
};

TEST(SparseAttentionLife, StagesTrainEqually) {
  const LongRows one(sparse(kFull)), dense(kFull);
  ASSERT_EQ(one.train({"training.gradient_accumulation_steps=2"}), 0) << one.says();
  ASSERT_EQ(dense.train({"training.gradient_accumulation_steps=2"}), 0) << dense.says();
  const std::vector<double> want = losses(one / "out");
  EXPECT_NE(want, losses(dense / "out"));
  for (const char* stage : {"zero_stage=0", "zero_stage=3"}) {
    const LongRows w(sparse(kFull));
    ASSERT_EQ(w.run({"launch", "-n", "2", "train", "--config", "run.json", stage}), 0) << w.says();
    const std::vector<double> got = losses(w / "out");
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_LT(std::abs(got[i] - want[i]), 2e-6 * want[i]) << stage << " step " << i;
  }
}

TEST(SparseAttentionLife, ResumesBitwiseAndRecomputesBitwise) {
  const LongRows whole(sparse(kQlora)), parts(sparse(kQlora));
  ASSERT_EQ(whole.train(), 0) << whole.says();
  ASSERT_EQ(parts.train({"checkpointing.save_strategy=steps", "checkpointing.save_steps=7"}), 0)
      << parts.says();
  ASSERT_EQ(parts.train({"training.resume_from_checkpoint=out/checkpoint-7",
                         "training.gradient_checkpointing=false"}),
            0)
      << parts.says();
  EXPECT_TRUE(contents(parts / "out/adapter_model.safetensors") ==
              contents(whole / "out/adapter_model.safetensors"));
}

TEST(SparseAttentionLife, ThePlanIsMeasuredToTheByte) {
  const LongRows w(sparse(kLora));
  ASSERT_EQ(w.run({"plan", "--config", "run.json", "--json", "data.val_set_size=5",
                   "evaluation.eval_strategy=epoch"}),
            0)
      << w.says();
  const Json planned = Json::parse(contents(w / "stdout"));
  ASSERT_EQ(w.train({"data.val_set_size=5", "evaluation.eval_strategy=epoch"}), 0) << w.says();
  const Json measured = rows(w / "out/log.jsonl").back().at("memory");
  for (const char* name : {"weights", "adapter", "gradients", "optimizer", "activations", "scratch", "total"})
    EXPECT_EQ(planned.at(name), measured.at(name)) << name;
}

TEST(SparseAttentionLife, AnswersNeedTheSettingsAgain) {
  const Workplace w("llama-gqa");
  std::string ids;
  for (int i = 0; i < 60; ++i) ids += (i ? "," : "") + std::to_string(3 + i * 7 % 50);
  std::ofstream(w / "in.jsonl") << "{\"input_ids\": [" << ids << "]}\n";
  const auto answer = [&](std::vector<std::string> more) {
    std::vector<std::string> command{"generate",  "--model",     "model",
                                     "--input",   "in.jsonl",    "--output",
                                     "out.jsonl", "--overwrite", "generation.max_new_tokens=20"};
    command.insert(command.end(), more.begin(), more.end());
    EXPECT_EQ(w.run(command), 0) << w.says();
    return rows(w / "out.jsonl")[0]["output_ids"];
  };
  const Json dense = answer({});
  EXPECT_NE(
      answer({"model.sparse_attention.mode=local", "model.sparse_attention.num_sliding_window_blocks=1"}),
      dense);
  EXPECT_EQ(
      answer({"model.sparse_attention.mode=local", "model.sparse_attention.num_sliding_window_blocks=11"}),
      dense);
}

TEST(SparseAttentionLife, UnsupportedSettingsAreRefused) {
  const Workplace w("llama-gqa", sparse(kLora));
  const auto refused = [&](const std::string& setting) {
    EXPECT_EQ(w.train({setting}), 2);
    return w.says();
  };
  EXPECT_NE(refused("model.sparse_attention.num_local_blocks=2").find("has no effect in mode bigbird"),
            std::string::npos);
  EXPECT_NE(refused("model.sparse_attention.max_seq_length=16").find("the layout is for 16 tokens"),
            std::string::npos);
  EXPECT_NE(refused("model.sparse_attention.attention=bidirectional").find("the model's is unidirectional"),
            std::string::npos);
  EXPECT_NE(refused("model.attn_implementation=cudnn").find("cudnn has no sparse attention"),
            std::string::npos);
}

}  // namespace
}  // namespace ft::test
