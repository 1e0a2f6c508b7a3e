// Mixtures of experts, tested from outside: the same training however a step is split, including the routers'
// loss; preference objectives use the experts without adapters as their reference.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/life/program.h"
#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

const Json kExperts = {{"lora", {{"r", 4}, {"lora_alpha", 16}}}}, kWhole = {{"finetuning_type", "full"}};
const std::vector<std::string> kTwelve = {"training.max_steps=12"};

// Gives the model its own config.json, with a loss of the routers.
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

// docs/zero.md: with one micro-step all stages have the same bits; with several, 0 and 1 do, and 2 and 3. One
// rank that accumulates more is equal except for rounding.
TEST(Mixtures, RanksStagesAndAccumulationTrainEqually) {
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

// Compares with the loss of a model whose config.json has no loss of the routers.
TEST(Mixtures, LogTheLossOfTheRouter) {
  const Result plain = result_of("mixtral", kExperts, 1, 0, 1, kTwelve);
  const Result with = balanced(kExperts, 1, 0, 1);
  // With the top 2 of 4 experts the routers' loss is 2 if all are used equally, and more otherwise.
  EXPECT_GT(with.losses[0], plain.losses[0] + 0.95);
  EXPECT_LT(with.losses[0], plain.losses[0] + 2);
}

// Writes rows that repeat one token, each row twice so that two ranks get the same. A micro-batch needs some
// of the four experts, and the next one needs others.
void write_short_rows(const Workplace& w, int kinds) {
  std::ofstream out(w / "train.jsonl");
  for (int i = 0; i < 48; ++i) {
    const int token = 7 + i / 2 % kinds;
    const Json ids = {token, token};
    out << Json{{"input_ids", ids}, {"labels", ids}}.dump() << "\n";
  }
}

// Ranks gather only the experts that their tokens need, and reduce only their gradients. Other bytes sent do
// not depend on the number of tokens.
TEST(Mixtures, UnusedExpertsAreNotSent) {
  const auto sent = [](const Json& config, int stage, bool few) {
    const Workplace w("mixtral", config);
    if (few) write_short_rows(w, 1);
    EXPECT_EQ(w.run(command(2, stage, 1, {"training.max_steps=3"})), 0) << w.says();
    return rows(w / "out/log.jsonl").back().at("sent_per_step").get<std::int64_t>();
  };
  const Json frozen = {{"lora", {{"r", 4}, {"target_modules", {"q_proj"}}}}};
  EXPECT_LT(sent(frozen, 3, true), sent(frozen, 3, false));
  for (const int stage : {2, 3}) EXPECT_LT(sent(kWhole, stage, true), sent(kWhole, stage, false)) << stage;
  for (const int stage : {0, 1}) EXPECT_EQ(sent(kWhole, stage, true), sent(kWhole, stage, false)) << stage;
}

struct Course {
  std::vector<Json> log;  // losses and norms
  std::string weights;
  bool operator==(const Course&) const = default;
};

Course on_short_rows(int ranks, int stage, const std::vector<std::string>& more) {
  const Workplace w("mixtral", kWhole);
  write_short_rows(w, 11);
  std::vector<std::string> settings = {"training.max_steps=5", "training.per_device_train_batch_size=1",
                                       "data.shuffle=false"};
  settings.insert(settings.end(), more.begin(), more.end());
  EXPECT_EQ(w.run(command(ranks, stage, 3, settings)), 0) << w.says();
  Course t{.log = {}, .weights = contents(w / "out/model.safetensors")};
  for (const Json& row : rows(w / "out/log.jsonl"))
    if (row.contains("grad_norm")) t.log.push_back({row["loss"], row["grad_norm"]});
  return t;
}

// The training is the same whichever experts a micro-step needs, and wherever values and states are. The last
// of a step's three micro-steps may not need an expert that has a gradient of the first.
TEST(Mixtures, TrainedExpertsThatSomeStepsNeedTrainEqually) {
  const auto in_files = [](std::vector<std::string> what) {
    std::vector<std::string> settings;
    for (const std::string& w : what)
      for (const char* place : {"device=nvme", "nvme_path=."})
        settings.push_back("zero_optimization.offload_" + w + "." + place);
    return settings;
  };
  for (const std::string overlap : {"true", "false"}) {
    SCOPED_TRACE(overlap);
    const auto trained = [&](int stage, std::vector<std::string> away = {}) {
      away = in_files(away);
      away.push_back("zero_optimization.overlap_comm=" + overlap);
      return on_short_rows(2, stage, away);
    };
    const Course first = trained(0), second = trained(2);
    ASSERT_EQ(first.log.size(), 5u);
    EXPECT_TRUE(trained(1) == first);
    EXPECT_TRUE(trained(1, {"optimizer"}) == first);
    EXPECT_TRUE(trained(3) == second);
    EXPECT_TRUE(trained(2, {"optimizer"}) == second);
    EXPECT_TRUE(trained(3, {"optimizer", "param"}) == second);
    for (std::size_t i = 0; i < 5; ++i)
      EXPECT_NEAR(second.log[i][0].get<double>(), first.log[i][0].get<double>(), 1e-5) << i;
  }
  // Groups of ranks that need different experts.
  const Course four = on_short_rows(4, 0, {});
  for (const int stage : {2, 3}) {
    const Course groups = on_short_rows(4, stage, {"zero_optimization.mics_shard_size=2"});
    ASSERT_EQ(groups.log.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i)
      for (const int k : {0, 1})
        EXPECT_NEAR(groups.log[i][k].get<double>(), four.log[i][k].get<double>(), 1e-5) << i << " " << k;
  }
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

// The base with its adapters turned off is the same reference as the base by itself.
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
