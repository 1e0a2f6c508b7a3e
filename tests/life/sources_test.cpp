// Losses by dataset in the log (report_as), tested from outside.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/life/program.h"
#include "tests/life/ranks/ranks.h"

namespace ft::test::sources {
namespace {

// A run on two datasets, a third of the samples in one of them; `named`: the log names both, in training and
// in evaluations.
class Sources : public Workplace {
 public:
  explicit Sources(const std::string& golden, bool named, Json config = {{"lora", {{"r", 4}}}})
      : Workplace(golden, with_data(golden, named, std::move(config))) {
    const std::vector<Json> all = rows(*this / "train.jsonl");
    std::ofstream a(*this / "a.jsonl"), b(*this / "b.jsonl");
    for (std::size_t i = 0; i < all.size(); ++i) (i % 3 == 0 ? a : b) << all[i].dump() << "\n";
  }
  // Returns the values of a column, in order.
  std::vector<double> column(const std::string& name, const std::string& out = "out") const {
    std::vector<double> values;
    for (const Json& row : rows(*this / (out + "/log.jsonl")))
      if (row.contains(name)) values.push_back(row[name]);
    return values;
  }
  double targets_of(const std::string& file, bool pairs) const {
    double count = 0;
    for (const Json& row : rows(*this / file))
      for (std::size_t t = pairs ? 0 : 1; t < row["labels"].size(); ++t) count += row["labels"][t] != -100;
    return count;
  }

 private:
  static Json with_data(const std::string& golden, bool named, Json config) {
    Json sets = Json::array();
    for (const char* name : {"a", "b"}) {
      sets.push_back({{"path", name + std::string(".jsonl")}, {"type", "tokenized"}});
      if (named) sets.back()["report_as"] = name;
    }
    config["data"]["datasets"] = sets;
    config["data"]["eval_datasets"] = sets;
    config["evaluation"] = {{"eval_strategy", "steps"}, {"eval_steps", 3}};
    if (golden == "t5") {
      config["data"]["max_seq_length"] = nullptr;  // removes Workplace's setting
      config["data"]["max_source_length"] = 64;
    }
    return config;
  }
};

const std::vector<std::string> kSix{"training.max_steps=6"};

// Names change no bit of the training. The losses of an evaluation equal evaluations of each dataset alone,
// and their mean by targets is the loss of all.
TEST(SourcesLife, LossesOfDatasets) {
  for (const std::string golden : {"llama", "t5"}) {
    SCOPED_TRACE(golden);
    const Json config = golden == "t5" ? Json{{"finetuning_type", "full"}} : Json{{"lora", {{"r", 4}}}};
    const Sources plain(golden, false, config), named(golden, true, config);
    ASSERT_EQ(plain.train(kSix), 0) << plain.says();
    ASSERT_EQ(named.train(kSix), 0) << named.says();
    for (const char* column : {"loss", "eval_loss", "grad_norm"})
      EXPECT_EQ(plain.column(column), named.column(column)) << column;
    const std::string file = file_of(config);
    EXPECT_TRUE(contents(plain / file) == contents(named / file));
    EXPECT_TRUE(plain.column("loss/a").empty());

    const double a = named.targets_of("a.jsonl", golden == "t5"),
                 b = named.targets_of("b.jsonl", golden == "t5");
    const auto all = named.column("eval_loss"), of_a = named.column("eval_a_loss"),
               of_b = named.column("eval_b_loss");
    ASSERT_EQ(all.size(), 2u);
    ASSERT_EQ(of_a.size(), 2u);
    ASSERT_EQ(of_b.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_NEAR((of_a[i] * a + of_b[i] * b) / (a + b), all[i], 1e-12 * all[i]) << i;
    EXPECT_GT(std::abs(of_a[0] - of_b[0]), 1e-4);
    EXPECT_TRUE(named.column("eval_loss/a").empty());
    EXPECT_GE(named.column("loss/a").size() + named.column("loss/b").size(), 9u)
        << "some steps have one of them";
    EXPECT_TRUE(named.column("a_loss").empty());

    std::vector<std::string> eval{"eval", "--config", "run.json", "--json",
                                  R"(data.eval_datasets=[{"path":"a.jsonl","type":"tokenized"}])"};
    if (golden == "t5")
      eval.emplace_back("model.model_name_or_path=out");
    else
      eval.insert(eval.end(), {"--adapter", "out"});
    ASSERT_EQ(named.run(eval), 0) << named.says();
    EXPECT_NEAR(Json::parse(contents(named / "stdout"))["eval_loss"].get<double>(), of_a[1], 1e-6 * of_a[1]);
  }
}

// Steps with samples of one dataset have their loss as the dataset's.
TEST(SourcesLife, LossesOfSteps) {
  const Sources w("llama", true);
  const std::vector<std::string> in_order{"training.max_steps=8", "data.shuffle=false",
                                          "training.per_device_train_batch_size=2"};
  ASSERT_EQ(w.train(in_order), 0) << w.says();  // 8 samples of a, then 16 of b
  const auto loss = w.column("loss"), a = w.column("loss/a"), b = w.column("loss/b");
  ASSERT_EQ(loss.size(), 8u);
  EXPECT_EQ(a, std::vector<double>(loss.begin(), loss.begin() + 4));
  EXPECT_EQ(b, std::vector<double>(loss.begin() + 4, loss.end()));
}

// Packs hold samples of both datasets; ranks and stages add up the same sums, except for rounding.
TEST(SourcesLife, RanksAndPacks) {
  const std::vector<std::string> packed{"training.max_steps=4", "data.packing=true",
                                        "training.per_device_train_batch_size=1"};
  std::map<std::string, std::vector<double>> want;
  for (const auto& [ranks, stage] : {std::pair{1, 0}, std::pair{2, 0}, std::pair{2, 3}}) {
    const Sources w("llama", true);
    ASSERT_EQ(w.run(command(ranks, stage, ranks == 1 ? 2 : 1, packed)), 0) << w.says();
    for (const char* name : {"loss", "loss/a", "loss/b", "eval_loss", "eval_a_loss", "eval_b_loss"}) {
      const auto got = w.column(name);
      ASSERT_FALSE(got.empty()) << name;
      if (ranks == 1) want[name] = got;
      ASSERT_EQ(got.size(), want[name].size()) << name;
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], want[name][i], 2e-6 * want[name][i]) << name << " " << i;
    }
  }
}

TEST(SourcesLife, MemoryIsPlannedAndSumsAreResumed) {
  const Sources w("llama", true);
  const std::vector<std::string> more{"training.max_steps=6", "logging.logging_steps=4",
                                      "checkpointing.save_strategy=steps", "checkpointing.save_steps=2"};
  std::vector<std::string> plan{"plan", "--config", "run.json", "--json"};
  plan.insert(plan.end(), more.begin(), more.end());
  ASSERT_EQ(w.run(plan), 0) << w.says();
  const Json planned = Json::parse(contents(w / "stdout"));
  ASSERT_EQ(w.train(more), 0) << w.says();
  const Json measured = rows(w / "out/log.jsonl").back().at("memory");
  for (const auto& [name, bytes] : measured.items()) EXPECT_EQ(planned.at(name), bytes) << name;
  std::vector<std::string> resumed = more;
  resumed.insert(resumed.end(),
                 {"training.resume_from_checkpoint=out/checkpoint-2", "training.output_dir=out2"});
  ASSERT_EQ(w.train(resumed), 0) << w.says();
  for (const char* name : {"loss", "loss/a", "loss/b"}) {
    std::vector<double> whole = w.column(name);
    ASSERT_EQ(whole.size(), 3u) << name;  // of the first step, and of the steps up to 4 and 6
    EXPECT_EQ(w.column(name, "out2"), std::vector<double>(whole.begin() + 1, whole.end())) << name;
  }
  EXPECT_EQ(w.column("eval_a_loss", "out2"), w.column("eval_a_loss"));
}

TEST(SourcesLife, CurriculaKeepTheDatasetsOfSequences) {
  const Sources w("llama", true);
  ASSERT_EQ(w.train({"training.max_steps=4", "data.shuffle=false", "training.per_device_train_batch_size=2",
                     R"(data_efficiency={"enabled": true, "data_sampling": {"enabled": true,
                        "curriculum_learning": {"enabled": true, "curriculum_metrics": {"seqlen_reshape": {
                        "min_difficulty": 4, "max_difficulty": 8, "schedule_type": "fixed_linear",
                        "schedule_config": {"total_curriculum_step": 100, "difficulty_step": 4}}}}}})"}),
            0)
      << w.says();
  EXPECT_EQ(w.column("loss/a"), w.column("loss"));
}

TEST(SourcesLife, MistakesAreNamed) {
  const Sources w("llama", true);
  const auto refused = [&](const std::vector<std::string>& settings, const std::string& why) {
    EXPECT_EQ(w.train(settings), 2) << why;
    EXPECT_NE(w.says().find(why), std::string::npos) << w.says();
  };
  refused({R"(data.datasets=[{"path":"a.jsonl","report_as":"a b"}])"},
          "data.datasets[0].report_as: \"a b\" must be of ASCII letters, digits, \"_\", \"-\" and \".\"");
  refused({"data.streaming=true", "training.max_steps=2"},
          "data.datasets[].report_as: a stream does not tell its rows' datasets");
  refused({"distributed.pipeline_parallel_size=2"}, "data.datasets[].report_as: not with ");
  refused({"objective.type=dpo"}, "data.datasets[].report_as: losses by dataset are those of sft");
}

}  // namespace
}  // namespace ft::test::sources
