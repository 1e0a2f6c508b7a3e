// Learning rates and betas against transformers' and DeepSpeed's schedules (tests/golden/schedules.json), and
// refused arguments.
#include "engine/train/schedules/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/settings/fields.h"
#include "engine/train/optimizers/list.h"
#include "tests/support/source.h"

namespace ft {
namespace {

TrainingConfig config_of(const std::string& type, const std::string& arguments) {
  TrainingConfig t;
  t.lr_scheduler_type = value_of<LrScheduler>(type).value();
  t.lr_scheduler_kwargs.text = arguments;
  return t;
}

TEST(Schedule, EqualsTransformersAndDeepSpeeds) {
  const Json golden = read_json(source_path("tests/golden/schedules.json"));
  for (const Json& row : golden["schedules"]) {
    const std::string type = row["lr_scheduler_type"], arguments = row["lr_scheduler_kwargs"].dump();
    TrainingConfig t = config_of(type, arguments);
    t.warmup_steps = row["warmup_steps"];
    t.learning_rate = row["learning_rate"];
    SCOPED_TRACE(str(type, " ", arguments, " with warm-up ", t.warmup_steps));
    const auto rates = row["rates"].get<std::vector<double>>();
    const auto total = static_cast<std::int64_t>(rates.size());
    const auto schedule = make_schedule(t, total);
    for (std::int64_t step = 0; step < total; ++step) {
      const auto i = static_cast<std::size_t>(step);
      EXPECT_NEAR(schedule->rate(step), rates[i], 1e-12 * t.learning_rate) << "step " << step;
      const auto betas = schedule->betas(step);
      ASSERT_EQ(betas.has_value(), row.contains("betas")) << "step " << step;
      if (!betas) continue;
      EXPECT_NEAR(betas->beta1, row["betas"][i][0].get<double>(), 1e-14) << "step " << step;
      EXPECT_EQ(betas->beta2, row["betas"][i][1].get<double>()) << "step " << step;
    }
  }
}

// Restores each state into a new rate, as from a checkpoint.
void expect_evaluated(const std::string& type, const Json& rows) {
  ASSERT_FALSE(rows.empty());
  for (const Json& row : rows) {
    TrainConfig c;
    c.training = config_of(type, row["lr_scheduler_kwargs"].dump());
    c.training.learning_rate = row["learning_rate"];
    auto rate = make_evaluated_rate(c);
    ASSERT_TRUE(rate);
    EXPECT_EQ(rate->rate(), c.training.learning_rate);
    for (std::size_t i = 0; i < row["figures"].size(); ++i) {
      const Json& figure = row["figures"][i];
      rate->evaluated(figure.is_null() ? NAN : figure.get<double>());
      EXPECT_DOUBLE_EQ(rate->rate(), row["rates"][i].get<double>())
          << row["lr_scheduler_kwargs"].dump() << " " << i;
      auto fresh = make_evaluated_rate(c);
      fresh->restore(rate->state());
      rate = std::move(fresh);
    }
  }
}

TEST(Schedule, RatesByEvaluationsEqualTorchsAndTransformers) {
  const Json golden = read_json(source_path("tests/golden/schedules.json"));
  expect_evaluated("reduce_lr_on_plateau", golden["plateaus"]);
  expect_evaluated("greedy", golden["greedy"]);
}

// An "auto" in DeepSpeed's file becomes the value that transformers' Trainer fills in.
TEST(Schedule, AutoIsTheRunsValue) {
  const auto same = [](const std::string& type, const std::string& given, const std::string& filled) {
    TrainingConfig a = config_of(type, given), b = config_of(type, filled);
    a.learning_rate = b.learning_rate = 0.002;
    a.warmup_ratio = 0.2;
    const auto x = make_schedule(a, 30), y = make_schedule(b, 30);
    for (std::int64_t step = 0; step < 30; ++step) EXPECT_EQ(x->rate(step), y->rate(step)) << type << step;
  };
  const std::string all = R"("warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto")";
  const std::string filled = R"("warmup_min_lr": 0, "warmup_max_lr": 0.002, "warmup_num_steps": 6)";
  same("WarmupLR", "{" + all + "}", "{" + filled + "}");
  same("WarmupDecayLR", R"({"total_num_steps": "auto", )" + all + "}",
       R"({"total_num_steps": 30, )" + filled + "}");
  same("WarmupCosineLR", R"({"total_num_steps": "auto", "warmup_num_steps": "auto"})",
       R"({"total_num_steps": 30, "warmup_num_steps": 6})");
}

TEST(Schedule, MinLrRatioIsTheLowestRateOfACosineThatHasOne) {
  for (const char* type : {"cosine_with_min_lr", "cosine_warmup_with_min_lr"}) {
    TrainingConfig a = config_of(type, ""), b = config_of(type, R"({"min_lr_rate": 0.25})");
    a.min_lr_ratio = 0.25;
    for (const std::int64_t step : {0, 7, 19, 25})
      EXPECT_EQ(make_schedule(a, 20)->rate(step), make_schedule(b, 20)->rate(step)) << type;
  }
}

std::string mistake(const TrainingConfig& t) {
  try {
    check_schedule(t, {.value = Json::object(), .lines = {}, .name = "run.json"});
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::config);
    return e.what();
  }
  return "none";
}

TEST(Schedule, ArgumentsThatMakeNoSenseAreRefusedByName) {
  const auto refused = [](const std::string& type, const std::string& arguments, const std::string& want) {
    EXPECT_EQ(mistake(config_of(type, arguments)), "run.json: training.lr_scheduler_kwargs" + want);
  };
  refused("linear", R"({"power": 2})", ".power: linear takes no arguments");
  refused("polynomial", R"({"lr_and": 2})",
          ".lr_and: polynomial has no such argument; do you mean lr_end? It has lr_end, power");
  refused("polynomial", R"({"last_epoch": 2})",
          ".last_epoch: polynomial has no such argument; it has lr_end, power");
  refused("polynomial", R"({"power": "two"})", ".power: expected a number, not \"two\"");
  refused("polynomial", R"({"lr_end": 1})",
          ": polynomial: lr_end 1 is not below training.learning_rate 0.0002");
  refused("cosine", "[1]", ": expected an object {...}, not a list [...]");
  refused("cosine_with_min_lr", R"({"min_lr": 1e-5, "min_lr_rate": 0.1})",
          ": cosine_with_min_lr: min_lr and min_lr_rate are both given; give one of them");
  refused("warmup_stable_decay", "", ".num_decay_steps: missing: Steps of the decay.");
  refused("warmup_stable_decay", R"({"num_decay_steps": 2, "decay_type": "soft"})",
          ".decay_type: there is no \"soft\"; there are linear, cosine, 1-sqrt");
  refused("multi_step", "", ".milestones: missing: Steps after which the rate is multiplied by gamma.");
  refused("multi_step", R"({"milestones": []})", ".milestones: the list is empty");
  refused("multi_step", R"({"milestones": [3, 3]})", ": multi_step: milestones are not in ascending order");
  refused("WarmupLR", R"({"warmup_num_steps": 0})",
          ".warmup_num_steps: 0 is out of range: it has to be at least 1");
  refused("WarmupDecayLR", "", ".total_num_steps: missing: The last step; auto: the run's.");
  refused("OneCycle", R"({"cycle_min_lr": 1e-5})",
          ".cycle_max_lr: missing: The rate in the middle of the cycle.");
  refused("LRRangeTest", R"({"lr_range_test_step_size": 0})",
          ".lr_range_test_step_size: 0 is out of range: it has to be at least 1");
}

// Milestones are steps of the run, as in detectron2's WarmupMultiStepLR.
TEST(Schedule, MilestonesCountFromTheRunsFirstStep) {
  TrainingConfig t = config_of("multi_step", R"({"milestones": [6, 8], "gamma": 0.5})");
  t.warmup_steps = 4;
  t.learning_rate = 1;
  const auto schedule = make_schedule(t, 12);
  const double want[] = {0, 0.25, 0.5, 0.75, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25};
  for (std::int64_t step = 0; step < 12; ++step) EXPECT_EQ(schedule->rate(step), want[step]) << step;
  t.warmup_steps = 7;
  EXPECT_NE(mistake(t).find("the first milestone, 6, is in the warm-up of 7 steps"), std::string::npos);
}

TEST(Schedule, AnOptimizerWithoutBetasHasNoneToCycle) {
  const std::string cycle = R"("cycle_min_lr": 1e-5, "cycle_max_lr": 1e-4)";
  TrainingConfig t = config_of("OneCycle", "{" + cycle + "}");
  t.optim = &optimizers::kSgd;
  EXPECT_EQ(mistake(t), "none");
  t.lr_scheduler_kwargs.text = "{" + cycle + R"(, "cycle_momentum": true})";
  EXPECT_EQ(mistake(t),
            "run.json: training.lr_scheduler_kwargs: OneCycle: cycle_momentum: the optimizer has no betas");
}

TEST(Schedule, Beta1ThatGrowsTo1IsRefusedWhenTheRunsStepsAreKnown) {
  const TrainingConfig t = config_of(
      "OneCycle", R"({"cycle_min_lr": 0, "cycle_max_lr": 1, "cycle_first_step_size": 5, "decay_step_size": 1,
                      "decay_mom_rate": 0.01})");
  EXPECT_EQ(mistake(t), "none");
  EXPECT_NO_THROW(make_schedule(t, 20));
  EXPECT_THROW(make_schedule(t, 30), UserError);
}

}  // namespace
}  // namespace ft
