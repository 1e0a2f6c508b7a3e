// Mixtures of experts from outside: however a step is split, the same training, the routers' loss included;
// preferences compare with the experts as they are without their adapters.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/life/program.h"
#include "tests/life/ranks.h"

namespace ft::test {
namespace {

const Json kExperts = {{"lora", {{"r", 4}, {"lora_alpha", 16}}}}, kWhole = {{"finetuning_type", "full"}};
const std::vector<std::string> kTwelve = {"training.max_steps=12"};

// Has the model's own config.json, in which routers have a loss.
void ask_for_router_loss(const Workplace& w) {
  const fs::path model = fs::canonical(w / "model");
  fs::remove(w / "model");
  fs::copy(model, w / "model");
  Json config = Json::parse(contents(model / "config.json"));
  config.update({{"output_router_logits", true}, {"router_aux_loss_coef", 0.5}});
  fs::permissions(w / "model/config.json", fs::perms::owner_write, fs::perm_options::add);
  std::ofstream(w / "model/config.json") << config.dump();
}

Result balanced(const Json& config, int ranks, int stage, int accumulation) {
  const Workplace w("mixtral", config);
  ask_for_router_loss(w);
  EXPECT_EQ(w.run(command(ranks, stage, accumulation, kTwelve)), 0) << w.says();
  return {losses(w / "out"), contents(w / file_of(config))};
}

// docs/zero.md: with one micro-step all stages have the same bits; with several, 0 and 1, and 2 and 3. One
// rank that accumulates more is equal to rounding.
TEST(Mixtures, RanksStagesAndAccumulationAreTheSameTraining) {
  for (const Json& config : {kExperts, kWhole})
    for (const int accumulation : {1, 2}) {
      const std::vector<double> one = balanced(config, 1, 0, 2 * accumulation).losses;
      ASSERT_EQ(one.size(), 12u);
      std::vector<Result> stages;
      for (int stage = 0; stage < 4; ++stage) stages.push_back(balanced(config, 2, stage, accumulation));
      for (const Result& s : stages) {
        ASSERT_EQ(s.losses.size(), one.size());
        for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(s.losses[i], one[i], 2e-6 * one[i]) << i;
      }
      EXPECT_TRUE(stages[1].weights == stages[0].weights);
      EXPECT_TRUE(stages[3].weights == stages[2].weights);
      EXPECT_TRUE(accumulation > 1 || stages[2].weights == stages[0].weights);
    }
}

// Not the loss of a model whose config.json does not ask for it.
TEST(Mixtures, TheRoutersLossIsThere) {
  const Result plain = result_of("mixtral", kExperts, 1, 0, 1, kTwelve);
  const Result with = balanced(kExperts, 1, 0, 1);
  // With the top 2 of 4 experts it is 2 where all are used alike, and more otherwise.
  EXPECT_GT(with.losses[0], plain.losses[0] + 0.95);
  EXPECT_LT(with.losses[0], plain.losses[0] + 2);
}

// Under stage 3 ranks gather the experts that their tokens need: of two tokens not all. Nothing else that is
// sent depends on how many tokens there are.
TEST(Mixtures, ExpertsThatNobodyNeedsAreNotGathered) {
  const auto sent = [](bool few) {
    const Workplace w("mixtral", {{"lora", {{"r", 4}, {"target_modules", {"q_proj"}}}}});
    if (few) {
      std::ofstream out(w / "train.jsonl");
      for (int i = 0; i < 24; ++i) out << Json{{"input_ids", {7, 9}}, {"labels", {7, 9}}}.dump() << "\n";
    }
    EXPECT_EQ(w.run(command(2, 3, 1, {"training.max_steps=3"})), 0) << w.says();
    return rows(w / "out/log.jsonl").back().at("sent_per_step").get<std::int64_t>();
  };
  EXPECT_LT(sent(true), sent(false));
}

const Json kDpo = {{"type", "dpo"}};

class Pairs : public Workplace {
 public:
  explicit Pairs(const Json& objective)
      : Workplace("mixtral", {{"lora", {{"r", 4}}},
                              {"objective", objective},
                              {"data", {{"datasets", {{{"path", "pairs.jsonl"}}}}, {"max_seq_length", 48}}},
                              {"training", {{"num_train_epochs", 2}}}}) {
    std::ofstream out(*this / "pairs.jsonl");
    for (int i = 0; i < 12; ++i)
      out << Json{{"prompt_ids", {3 + i, 7, 5}},
                  {"chosen_ids", {8 + i % 5, 11, 2}},
                  {"rejected_ids", {20 + i, 9, 31, 2}}}
                 .dump()
          << "\n";
  }
};

// The base without its adapters is the same reference as the base by itself.
TEST(Mixtures, AdaptersOfExpertsAreOffInTheReference) {
  const Json reference = {{"type", "dpo"}, {"ref_model_name_or_path", "model"}};
  const Pairs own(kDpo), named(reference);
  ASSERT_EQ(own.train(), 0) << own.says();
  ASSERT_EQ(named.train(), 0) << named.says();
  EXPECT_EQ(losses(own / "out"), losses(named / "out"));
  EXPECT_NEAR(losses(own / "out").front(), std::log(2.0), 1e-6);
  EXPECT_LT(losses(own / "out").back(), losses(own / "out").front());
  const char* file = "out/adapter_model.safetensors";
  EXPECT_TRUE(contents(own / file) == contents(named / file));
}

TEST(Mixtures, ARoutersLossThatAnObjectiveDoesNotAddIsRefused) {
  const Pairs w(kDpo);
  ask_for_router_loss(w);
  EXPECT_EQ(w.train(), 2);
  EXPECT_NE(w.says().find("objective.type: dpo does not add the routers' loss"), std::string::npos)
      << w.says();
}

}  // namespace
}  // namespace ft::test
