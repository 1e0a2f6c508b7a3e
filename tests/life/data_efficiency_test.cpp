// Data efficiency, tested from outside: a curriculum and random-LTD together are the same training however it
// is split, resumed and recomputed; the plan is measured to the byte, and mistakes are named.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

// Samples have 5 to 19 tokens and models have 2 layers; a pass has 8 steps of 4 samples.
Json both(const std::string& model_type) {
  const Json metric = {{"min_difficulty", 6},
                       {"max_difficulty", 18},
                       {"schedule_type", "fixed_linear"},
                       {"schedule_config", {{"total_curriculum_step", 12}, {"difficulty_step", 2}}}};
  const Json schedule = {{"min_value", 4},
                         {"max_value", 30},
                         {"schedule_type", "fixed_linear"},
                         {"schedule_config", {{"require_steps", 40}, {"seq_per_step", 2}}}};
  return {{"enabled", true},
          {"data_sampling",
           {{"enabled", true},
            {"curriculum_learning", {{"enabled", true}, {"curriculum_metrics", {{"seqlen", metric}}}}}}},
          {"data_routing",
           {{"enabled", true},
            {"random_ltd",
             {{"enabled", true},
              {"total_layer_num", 2},
              {"random_ltd_layer_num", 2},
              {"random_ltd_layer_id", {0, 1}},
              {"model_type", model_type},
              {"random_ltd_schedule", schedule}}}}}};
}

Json with(const Json& base, const std::string& model_type) {
  Json config = base;
  config["data_efficiency"] = both(model_type);
  if (base.value("finetuning_type", "") == "full") config["training"]["learning_rate"] = 0.001;
  return config;
}
Json t5_with(const std::string& model_type) {
  Json config = with(kFull, model_type);
  config["data"]["max_seq_length"] = nullptr;  // removes Workplace's setting
  config["data"]["max_source_length"] = 64;
  return config;
}

std::string weights(const Workplace& w) {
  const bool adapter = fs::exists(w / "out/adapter_model.safetensors");
  return contents(w / (adapter ? "out/adapter_model.safetensors" : "out/model.safetensors"));
}

TEST(DataEfficiencyLife, ResumesBitwiseAndRecomputesBitwise) {
  for (const auto& [golden, config] :
       {std::pair{"llama", with(kLora, "decoder")}, std::pair{"llama", with(kQlora, "decoder")},
        std::pair{"t5-v11", t5_with("encoder")}, std::pair{"t5-v11", t5_with("decoder")}}) {
    const Workplace whole(golden, config), parts(golden, config);
    ASSERT_EQ(whole.train(), 0) << whole.says();
    ASSERT_EQ(parts.train({"checkpointing.save_strategy=steps", "checkpointing.save_steps=7"}), 0)
        << parts.says();
    ASSERT_EQ(parts.train({"training.resume_from_checkpoint=out/checkpoint-7",
                           "training.gradient_checkpointing=false"}),
              0)
        << parts.says();
    EXPECT_TRUE(weights(parts) == weights(whole));
    const std::vector<Json> log = rows(whole / "out/log.jsonl");
    EXPECT_EQ(log[0].at("curriculum/difficulty"), 6);
    EXPECT_EQ(log[0].at("random_ltd/kept_tokens"), 4);
    EXPECT_EQ(log[6].at("curriculum/difficulty"), 12);
    EXPECT_EQ(log[6].at("random_ltd/kept_tokens"), 6);
  }
}

TEST(DataEfficiencyLife, RanksAndStagesTrainEqually) {
  const Json config = with(kLora, "decoder");
  const Workplace one("llama", config);
  ASSERT_EQ(one.run(command(1, 0, 2, {})), 0) << one.says();
  const std::vector<double> want = losses(one / "out");
  for (const int stage : {0, 3}) {
    const Workplace w("llama", config);
    ASSERT_EQ(w.run(command(2, stage, 1, {})), 0) << w.says();
    const std::vector<double> got = losses(w / "out");
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_LT(std::abs(got[i] - want[i]), 1e-6 * want[i]) << i;
  }
}

TEST(DataEfficiencyLife, ThePlanIsMeasuredToTheByte) {
  for (const auto& [golden, config] :
       {std::pair{"llama", with(kLora, "decoder")}, std::pair{"t5-v11", t5_with("encoder")}})
    for (const std::string& more : {std::string("training.gradient_checkpointing=true"),
                                    std::string("training.gradient_checkpointing=false"),
                                    std::string("data_efficiency.data_sampling.enabled=false")}) {
      const Workplace w(golden, config);
      ASSERT_EQ(w.run({"plan", "--config", "run.json", "--json", more}), 0) << w.says();
      const Json planned = Json::parse(contents(w / "stdout"));
      ASSERT_EQ(w.train({more}), 0) << w.says();
      const Json measured = rows(w / "out/log.jsonl").back().at("memory");
      for (const char* name : {"activations", "scratch", "total"})
        EXPECT_EQ(planned.at(name), measured.at(name)) << golden << " " << name << " " << more;
    }
}

// A curriculum by length and by the rarity of tokens: an eighth of the 24 samples at first, all in the end.
Json choosing(Json config) {
  const Json rarity = {{"difficulty_type", "percentile"},
                       {"clustering_type", "schedule_based"},
                       {"min_difficulty", 1},
                       {"max_difficulty", 8},
                       {"schedule_type", "fixed_linear"},
                       {"schedule_config", {{"total_curriculum_step", 14}, {"difficulty_step", 1}}}};
  config["data_efficiency"]["seed"] = 1234;
  config["data_efficiency"]["data_sampling"]["curriculum_learning"]["curriculum_metrics"]
        ["vocabularyrarity"] = rarity;
  return config;
}

TEST(DataEfficiencyLife, ChosenSamplesAreTheSameResumedAndSplit) {
  for (const auto& [golden, cut] :
       {std::pair{"llama", with(kLora, "decoder")}, std::pair{"t5-v11", t5_with("encoder")}}) {
    const Json config = choosing(cut);
    const Workplace whole(golden, config), parts(golden, config);
    ASSERT_EQ(whole.run(command(1, 0, 2, {})), 0) << whole.says();
    ASSERT_EQ(
        parts.run(command(1, 0, 2, {"checkpointing.save_strategy=steps", "checkpointing.save_steps=5"})), 0)
        << parts.says();
    ASSERT_EQ(parts.run(command(1, 0, 2, {"training.resume_from_checkpoint=out/checkpoint-5"})), 0)
        << parts.says();
    EXPECT_TRUE(weights(parts) == weights(whole)) << golden;
    const std::vector<Json> log = rows(whole / "out/log.jsonl");
    EXPECT_EQ(log[0].at("curriculum/seqlen"), 6);
    EXPECT_EQ(log[0].at("curriculum/vocabularyrarity"), 1);
    const std::vector<double> want = losses(whole / "out");
    ASSERT_EQ(whole.run(command(2, 3, 1, {"training.output_dir=two"})), 0) << whole.says();
    const std::vector<double> got = losses(whole / "two");
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_LT(std::abs(got[i] - want[i]), 1e-5 * want[i]) << i;
    const Workplace every(golden, cut);
    ASSERT_EQ(every.run(command(1, 0, 2, {})), 0) << every.says();
    EXPECT_NE(losses(every / "out"), want) << "without choosing it is another run";
    const Json planned = rows(whole / "out/log.jsonl").back().at("memory");
    ASSERT_EQ(whole.run({"plan", "--config", "out/run.json", "--json"}), 0) << whole.says();
    EXPECT_EQ(Json::parse(contents(whole / "stdout")).at("total"), planned.at("total"));
  }
}

TEST(DataEfficiencyLife, ImpossibleChoicesAreNamed) {
  const std::string rarity =
      "data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.vocabularyrarity.";
  const Workplace w("llama", choosing(with(kLora, "decoder")));
  for (const auto& [assignment, words] : std::initializer_list<std::pair<std::string, std::string>>{
           {"data.packing=true", "packs are not chosen"},
           {"data.shuffle=false", "set data.shuffle=true"},
           {rarity + "clustering_type=single_cluster", "set schedule_based"},
           {rarity + "max_difficulty=100", "step 1 allows 0 of 24 samples, 8 of 100 percentiles"},
           {rarity + "difficulty_type=value", "vocabularyrarity: step 1 allows 1, and samples have"}}) {
    EXPECT_EQ(w.train({assignment}), 2) << assignment;
    EXPECT_NE(w.says().find(words), std::string::npos) << assignment << "\n" << w.says();
  }
  ASSERT_EQ(w.train({rarity + "difficulty_type=value", rarity + "min_difficulty=30",
                     rarity + "max_difficulty=40", "logging.progress=plain"}),
            0)
      << w.says();
  EXPECT_NE(w.says().find("samples are never trained on: vocabularyrarity"), std::string::npos) << w.says();
}

TEST(DataEfficiencyLife, MistakesAreNamed) {
  const std::string ltd = "data_efficiency.data_routing.random_ltd.",
                    curriculum = "data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.";
  const Workplace w("llama", with(kLora, "decoder"));
  for (const auto& [assignment, words] : std::initializer_list<std::pair<std::string, std::string>>{
           {ltd + "total_layer_num=3", "total_layer_num: 3, and model.layers has 2 blocks"},
           {ltd + "random_ltd_layer_id=[0,2]", "random_ltd_layer_id: 2 is not below 2"},
           {ltd + "random_ltd_layer_id=[1,1]", "names a layer twice"},
           {ltd + "random_ltd_layer_num=1", "random_ltd_layer_num: 1, and random_ltd_layer_id names 2"},
           {ltd + "model_type=encoder", "this model has no encoder"},
           {ltd + "random_ltd_schedule.min_value=31", "is above max_value"},
           {ltd + "random_ltd_schedule.schedule_config.seq_per_step=8", "would keep no token"},
           {"model.sparse_attention.mode=fixed", "not with model.sparse_attention yet"},
           {"data.streaming=true", "data_efficiency.data_routing: not with data.streaming yet"},
           {curriculum + "seqlen.min_difficulty=19", "is above max_difficulty"},
           {curriculum + "seqlen.schedule_type=fixed_root", "root_degree: missing"},
           {curriculum + "seqlen.schedule_type=fixed_discrete", "difficulty: missing"},
           {curriculum + "seqlen.schedule_config.root_degree=2", "has no effect"},
           {curriculum + "seqlen_reshape.clustering_type=schedule_based",
            "seqlen_reshape.min_difficulty: missing"},
           {curriculum + "vocabularyrarity.min_difficulty=4", "vocabularyrarity.max_difficulty: missing"},
           {curriculum + "seqlen.difficulty_type=percentile", "set value"},
           {curriculum + "seqlen_reshape.min_difficulty=4", "seqlen_reshape.max_difficulty: missing"},
           {curriculum + "seqlen.max_difficulty=null", "max_difficulty: missing"}}) {
    EXPECT_EQ(w.train({assignment}), 2) << assignment;
    EXPECT_NE(w.says().find(words), std::string::npos) << assignment << "\n" << w.says();
    EXPECT_FALSE(fs::exists(w / "out")) << assignment;
  }
  EXPECT_EQ(w.train({"data.streaming=true", "data_efficiency.enabled=false"}), 2);
  EXPECT_NE(w.says().find("set training.max_steps"), std::string::npos) << w.says();
}

}  // namespace
}  // namespace ft::test
