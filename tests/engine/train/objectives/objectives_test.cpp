// Objectives that compare answers: slopes against differences of the loss, and refused settings. tests/life
// and the finished cases compare losses, columns and complete runs with TRL's.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "engine/core/error.h"
#include "engine/train/objectives/comparing.h"
#include "engine/train/objectives/judge.h"
#include "engine/train/objectives/list.h"
#include "engine/train/objectives/rollouts.h"
#include "engine/train/objectives/valuation.h"
#include "tests/engine/train/objectives/judged_sample.h"
#include "tests/engine/train/objectives/refusal.h"

namespace ft {
namespace {

using namespace objectives;

std::vector<ObjectiveConfig> all_objectives() {
  std::vector<ObjectiveConfig> all;
  for (const std::string& loss : kDpo.losses())
    for (const double tail : {1.0, 0.4}) {
      ObjectiveConfig c = settings(kDpo, {loss});
      c.beta = 0.4;
      c.ld_alpha = tail;
      if (loss == "robust" || loss == "exo_pair" || loss == "aot") c.label_smoothing = 0.15;
      all.push_back(c);
    }
  for (const FDivergence f :
       {FDivergence::forward_kl, FDivergence::js_divergence, FDivergence::alpha_divergence}) {
    ObjectiveConfig c = settings(kDpo, {"sigmoid", "ipo"});
    c.loss_weights = {0.7, 0.2};
    c.f_divergence_type = f;
    all.push_back(c);
  }
  for (const std::string& loss : kKto.losses()) {
    ObjectiveConfig c = settings(kKto, {loss});
    c.desirable_weight = 1.3;
    all.push_back(c);
  }
  all.push_back(settings(kOrpo));
  for (const std::string& loss : kCpo.losses())
    for (const double alpha : {0.0, 0.3}) {
      ObjectiveConfig c = settings(kCpo, {loss});
      c.alpha = alpha;
      all.push_back(c);
    }
  all.push_back(settings(kSimpo));
  for (const std::string& loss : kGrpo.losses())
    for (const SamplingLevel level : {SamplingLevel::token, SamplingLevel::sequence})
      for (const bool corrects : {true, false}) {
        ObjectiveConfig c = settings(kGrpo, {loss});
        c.beta = 0.2;
        c.delta = 1.3;
        if (loss == "cispo") c.epsilon_high = 1.05;
        c.use_bias_correction_kl = corrects;
        c.importance_sampling_level = level;
        all.push_back(c);
      }
  ObjectiveConfig reward = settings(kReward);
  reward.center_rewards_coefficient = 0.2;
  all.push_back(reward);
  return all;
}

TEST(Objectives, SlopesAreThoseOfTheLoss) {
  for (const ObjectiveConfig& c : all_objectives()) {
    const std::string name = str(name_of(c.type), " ", c.loss_type.empty() ? "" : c.loss_type[0]);
    if (name == "grpo cispo") continue;  // its ratio has no gradient, see losses_test.cpp
    Sample sample(c);
    const auto judge = make(c);
    const Verdict verdict = judge->judge(sample.answers());
    const double sign = c.type->scores ? 1 : -1;  // a value is -log p, or a score
    for (std::size_t t = 0; t < sample.values.size(); ++t) {
      constexpr double kStep = 1e-5;
      const double at = sample.values[t];
      sample.values[t] = at + kStep;
      const double above = judge->judge(sample.answers()).loss;
      sample.values[t] = at - kStep;
      const double below = judge->judge(sample.answers()).loss;
      sample.values[t] = at;
      EXPECT_NEAR(sign * verdict.slopes[t], (above - below) / (2 * kStep), 1e-7) << name << " target " << t;
    }
    EXPECT_EQ(verdict.columns.size(), judge->columns().size()) << name;
    if (judge->counts_columns()) {
      EXPECT_EQ(verdict.counts.size(), verdict.columns.size()) << name;
    }
  }
}

TEST(Objectives, APairsWeightHasNoSlope) {
  ObjectiveConfig c = settings(kDpo);
  c.use_weighting = true;
  Sample sample(c);
  const Verdict weighed = make(c)->judge(sample.answers());
  c.use_weighting = false;
  const Verdict plain = make(c)->judge(sample.answers());
  const Answers a = sample.answers();
  double want = 0;
  for (std::size_t i = 0; i < a.count(); ++i) {
    double w = 1;
    for (const std::size_t s : {2 * i, 2 * i + 1}) {
      const Answers::Range r = a.answer(s);
      double sum = 0;
      for (std::size_t t = r.begin; t < r.end; ++t) sum += a.logp(t) - a.statistic(t, 3);
      w *= std::exp(sum / r.count());
    }
    const std::size_t t = a.answer(2 * i).begin;
    EXPECT_NEAR(weighed.slopes[t], w * plain.slopes[t], 1e-12);
    const double d =
        a.sum(a.answer(2 * i)) - a.reference[2 * i] - a.sum(a.answer(2 * i + 1)) + a.reference[2 * i + 1];
    want -= w * log_sigmoid(0.1 * d);
  }
  EXPECT_NEAR(weighed.loss, want, 1e-12);
}

TEST(Objectives, TwoPartsHaveTheLossOfTheFullBatch) {
  ObjectiveConfig c = settings(kDpo);
  const Sample sample(c);
  Compared first = sample.rows;
  first.value.resize(2);
  first.first_answer.resize(4);
  first.first_target.resize(5);
  const std::size_t cut = std::size_t(first.first_target.back());
  Compared rest{.first_target = {0}, .first_answer = {}, .value = {0}, .sample = {}, .reference = {}};
  for (std::size_t s = 4; s < 6; ++s) {
    rest.first_answer.push_back(sample.rows.first_answer[s] - std::int32_t(cut));
    rest.first_target.push_back(sample.rows.first_target[s + 1] - std::int32_t(cut));
  }
  const auto part = [&](const Compared& rows, std::size_t from, std::size_t sequence) {
    return make(c)
        ->judge({rows, std::span(sample.values).subspan(from), std::span(sample.statistics).subspan(4 * from),
                 std::span(sample.reference).subspan(sequence)})
        .loss;
  };
  EXPECT_NEAR(part(first, 0, 0) + part(rest, cut, 4), make(c)->judge(sample.answers()).loss, 1e-12);
}

TEST(Objectives, NotANumberHasAPlaceWhenABatchIsSorted) {
  for (const char* loss : {"aot", "aot_unpaired"}) {
    const ObjectiveConfig c = settings(kDpo, {loss});
    Sample sample(c);
    for (double& v : sample.values) v = NAN;
    EXPECT_TRUE(std::isnan(make(c)->judge(sample.answers()).loss));
  }
}

TEST(Objectives, AColumnThatABatchDoesNotHaveIsLeftOutOfItsMean) {
  ColumnMeans means;
  means.add({1, NAN});
  means.add({3, 5});
  const Measures got = ColumnMeans::means({"a", "b", "c"}, means.take());
  EXPECT_EQ(got, (Measures{{"a", 2}, {"b", 5}}));
  EXPECT_TRUE(ColumnMeans::means({"a"}, means.take()).empty()) << "they were taken";
}

TEST(Objectives, AdvantagesAreTheLeadOverTheGroup) {
  const std::vector<double> rewards{1, 0, 3, 3};
  const double one = std::sqrt(0.5), all = std::sqrt(6.75 / 3);
  const auto expect = [](const std::vector<double>& got, const std::vector<double>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12);
  };
  expect(advantages(rewards, 2, ScaleRewards::none), {0.5, -0.5, 0, 0});
  expect(advantages(rewards, 2, ScaleRewards::group), {0.5 / (one + 1e-4), -0.5 / (one + 1e-4), 0, 0});
  expect(advantages(rewards, 2, ScaleRewards::batch), {0.5 / (all + 1e-4), -0.5 / (all + 1e-4), 0, 0});
  expect(reward_figures(rewards, 2, ScaleRewards::group), {1.75, all, 0.5});
  expect(reward_figures(rewards, 2, ScaleRewards::batch), {1.75, all, 0});
}

// Mean and deviation follow TRL's nanmean and nanstd.
TEST(Objectives, AnAnswerWithoutARewardDoesNotCount) {
  const std::vector<double> got = advantages({1, 3, NAN, NAN, 2, NAN}, 3, ScaleRewards::group);
  const double deviation = std::sqrt(2.0);
  EXPECT_NEAR(got[0], -1 / (deviation + 1e-4), 1e-12);
  EXPECT_NEAR(got[1], 1 / (deviation + 1e-4), 1e-12);
  for (std::size_t i = 2; i < 6; ++i) EXPECT_EQ(got[i], 0) << i;
  const auto figures = reward_figures({1, 3, NAN}, 3, ScaleRewards::group);
  EXPECT_EQ(figures[0], 2);
  EXPECT_NEAR(figures[1], deviation, 1e-12);
}

// Micro-batches of two rows; row r has the reward r * r.
class Rewards : public BatchSource {
 public:
  explicit Rewards(std::int64_t rows) : rows_(rows) {}
  std::int64_t batches_per_epoch() const override { return (rows_ + 1) / 2; }
  Batch batch(std::int64_t, std::int64_t i) const override {
    Batch b;
    for (std::int64_t r = 2 * i; r < std::min(rows_, 2 * i + 2); ++r)
      b.compared.value.push_back(float(r * r));
    return b;
  }
  BatchShape shape(std::int64_t epoch, std::int64_t i) const override {
    return {.compared = batch(epoch, i).compared.rows()};
  }

 private:
  std::int64_t rows_;
};

TEST(Objectives, AStepsAnswersAreWeighedTogetherAndUsedAgain) {
  const Rewards source(11);
  const Rollouts rollouts(source,
                          {.group = 4, .rows = 2, .batches = 2, .uses = 2, .scale = ScaleRewards::none});
  EXPECT_EQ(rollouts.batches_per_epoch(), 8) << "two steps of four rows, twice each; the rest is left out";
  for (std::int64_t i = 0; i < 8; ++i) {
    const Compared c = rollouts.batch(0, i).compared;
    const std::int64_t first = 4 * (i / 4), row = first + 2 * (i % 2);
    double mean = 0;
    for (std::int64_t r = first; r < first + 4; ++r) mean += double(r * r) / 4;
    EXPECT_EQ(c.value, (std::vector<float>{float(double(row * row) - mean),
                                           float(double((row + 1) * (row + 1)) - mean)}));
    EXPECT_EQ(c.uses, i / 2 % 2);
    EXPECT_EQ(c.used_again, c.uses == 0);
    EXPECT_EQ(c.figures.empty(), c.uses == 1);
  }
  EXPECT_THROW(Rollouts(source, {.group = 3, .rows = 2, .batches = 2}), UserError) << "no whole groups";
  EXPECT_THROW(Rollouts(source, {.group = 2, .rows = 2, .batches = 7}), UserError) << "no whole step";
}

// Ratios are measured after delta has bounded them, as in TRL.
TEST(Objectives, RatiosThatDeltaBoundsAreNotClippedAbove) {
  ObjectiveConfig c = settings(kGrpo);
  c.epsilon = 0.01;
  const Sample sample(c);
  constexpr std::size_t kHigh = 3;
  EXPECT_GT(make(c)->judge(sample.answers()).columns[kHigh], 0);
  c.delta = 1.005;
  EXPECT_EQ(make(c)->judge(sample.answers()).columns[kHigh], 0);
}

// Prompts 1 2 | 3, answers 7 8 | 9.
TEST(Objectives, MismatchedRowsHaveTheAnswerBefore) {
  Batch b;
  b.input_ids = {1, 2, 7, 8, 3, 9};
  b.positions = {0, 1, 2, 3, 0, 1};
  b.starts = {0, 4, 6};
  b.target_rows = {1, 2, 4};
  b.targets = {7, 8, 9};
  b.compared = {
      .first_target = {0, 2, 3}, .first_answer = {0, 2}, .value = {1, 0}, .sample = {}, .reference = {}};
  const Batch m = mismatched(b, 100);
  EXPECT_EQ(m.input_ids, (std::vector<std::int32_t>{1, 2, 9, 3, 7, 8}));
  EXPECT_EQ(m.positions, (std::vector<std::int32_t>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(m.starts, (std::vector<std::int32_t>{0, 3, 6}));
  EXPECT_EQ(m.targets, (std::vector<std::int32_t>{9, 7, 8}));
  EXPECT_EQ(m.target_rows, (std::vector<std::int32_t>{1, 3, 4}));
  EXPECT_EQ(m.compared.first_target, (std::vector<std::int32_t>{0, 1, 3}));
  EXPECT_EQ(mismatched(b, 2).input_ids, (std::vector<std::int32_t>{1, 2, 3, 7})) << "cut to fit";
  b.compared.tails = {{5, 6}, {}};  // the part of the first answer for which its own prompt leaves no room
  EXPECT_EQ(mismatched(b, 4).input_ids, (std::vector<std::int32_t>{1, 2, 9, 3, 7, 8, 5})) << "whole, and cut";
}

TEST(Objectives, SettingsOfAnotherTypeAreRefused) {
  ObjectiveConfig c = settings(kDpo);
  EXPECT_EQ(refusal_of(c), "");
  c.simpo_gamma = 1;
  EXPECT_NE(refusal_of(c).find(
                "objective.simpo_gamma: objective.type dpo has no such setting; it is of cpo, simpo"),
            std::string::npos);
  c = settings(kSft);
  c.beta = 0.1;
  EXPECT_NE(refusal_of(c).find("objective.beta"), std::string::npos);
  c = settings(kKto, {"sigmoid"});
  EXPECT_NE(refusal_of(c).find("sigmoid is not of objective.type kto"), std::string::npos);
  c = settings(kCpo, {"sigmoid", "hinge"});
  EXPECT_NE(refusal_of(c).find("takes one, not a list"), std::string::npos);
}

// A descriptor decides how an objective is made, and who answers for a setting.
TEST(Objectives, EveryObjectiveIsMadeAsItsDescriptionSays) {
  for (const ObjectiveKind* kind : ObjectiveKind::all()) {
    const ObjectiveConfig c = settings(*kind);
    EXPECT_NE(kind->judge == nullptr, kind->make == nullptr) << kind->name << ": one of the two makes it";
    EXPECT_EQ(kind->judge != nullptr, c.compares() && !c.reads_texts()) << kind->name;
    EXPECT_EQ(kind->valuation != nullptr, kind->rows == ObjectiveRows::rollouts) << kind->name;
    EXPECT_NE(make_objective(c), nullptr) << kind->name;
    EXPECT_EQ(kind->name, std::string(name_of(c.type)));
    if (kind->judge) {
      EXPECT_EQ(kind->judge(c)->needs_kl(), c.needs().kl) << kind->name;
      if (kind->rows != ObjectiveRows::rollouts) {
        EXPECT_EQ(kind->judge(c)->needs_reference(), c.needs().reference) << kind->name;
      }
    }
  }
}

TEST(Objectives, EverySettingHasAnOwner) {
  std::set<std::string> all, owned;
  for (const GivenSetting& s : settings_of<ObjectiveSettings>({}))
    EXPECT_TRUE(all.insert(s.name).second) << s.name << " is there twice";
  for (const ObjectiveKind* kind : ObjectiveKind::all())
    for (const GivenSetting& s : kind->settings ? kind->settings({}) : std::vector<GivenSetting>{}) {
      EXPECT_FALSE(s.given) << s.name;
      owned.insert(s.name);
    }
  EXPECT_EQ(all, owned);
  for (const ObjectiveKind* kind : ObjectiveKind::all())
    if (kind->losses) {
      EXPECT_EQ(settings_of<LossSettings>({}).at(0).name, std::string("loss_type"));
      EXPECT_NE(kind->settings, nullptr);
    }
}

TEST(Objectives, NamedFilesAreThoseThatSettingsName) {
  ObjectiveConfig c = settings(kPpo);
  EXPECT_TRUE(files_of(c).empty());
  c.reward_model_name_or_path = "r";
  c.teacher_file = "t";
  c.reward_command = "cat";
  const std::vector<NamedFile> files = files_of(c);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].setting, std::string("teacher_file"));
  EXPECT_FALSE(files[0].is_model);
  EXPECT_EQ(files[1].name, "r");
  EXPECT_TRUE(files[1].is_model);
}

// Groups of two answers, one without a reward.
TEST(Objectives, AGroupsValuationIsTheLeadOverItsMean) {
  ObjectiveConfig c = settings(kGrpo);
  c.scale_rewards = ScaleRewards::none;
  c.mask_truncated_completions = true;
  const auto valuation = kGrpo.valuation(c);
  std::vector<Trajectory> all(4);
  const double scores[] = {1, 0, NAN, 3};
  for (std::size_t i = 0; i < 4; ++i) all[i].score = scores[i];
  valuation->value(all, 2);
  EXPECT_EQ(all[0].advantage, 0.5);
  EXPECT_EQ(all[1].advantage, -0.5);
  EXPECT_EQ(all[2].advantage, 0) << "no reward";
  EXPECT_FALSE(valuation->trains(1, false)) << "it was cut";
  EXPECT_TRUE(valuation->trains(1, true));
  EXPECT_FALSE(valuation->loss(all)) << "a pass computes it";
  EXPECT_EQ(valuation->figures(all, 2)[0], (std::pair<std::string, double>{"reward", 4.0 / 3}));
}

TEST(Objectives, DistillationAndGrpoRefuseSettingsThatTheyDoNotUse) {
  ObjectiveConfig c = settings(kDistill);
  EXPECT_NE(refusal_of(c).find("teacher_model_name_or_path"), std::string::npos);
  c.teacher_model_name_or_path = "teacher";
  EXPECT_EQ(refusal_of(c), "");
  c.alpha = 0.5;
  EXPECT_NE(refusal_of(c).find("objective.alpha"), std::string::npos);
  c.loss_type = {"kd"};
  EXPECT_EQ(refusal_of(c), "");
  c.beta = 0.5;
  EXPECT_NE(refusal_of(c).find("objective.beta"), std::string::npos);
  c = settings(kGrpo);
  EXPECT_EQ(refusal_of(c), "");
  c.ref_model_name_or_path = "other";
  EXPECT_NE(refusal_of(c).find("has no effect without objective.beta"), std::string::npos);
  c = settings(kGrpo);
  c.max_completion_length = 9;
  EXPECT_NE(refusal_of(c).find("dr_grpo"), std::string::npos);
  c.reward_funcs = {RewardCheck::length};
  EXPECT_NE(refusal_of(c).find("objective.soft_punish_cache"), std::string::npos);
  c.soft_punish_cache = 9;
  EXPECT_EQ(refusal_of(c), "");
  c.soft_punish_cache = 10;
  EXPECT_NE(refusal_of(c).find("at most objective.max_completion_length"), std::string::npos);
  c.reward_funcs = {RewardCheck::exact_match, RewardCheck::exact_match};
  c.soft_punish_cache.reset();
  EXPECT_NE(refusal_of(c).find("is there twice"), std::string::npos);
  c.reward_funcs = {};
  c.reward_timeout = 3;
  EXPECT_NE(refusal_of(c).find("objective.reward_timeout"), std::string::npos);
}

TEST(Objectives, MeaninglessCombinationsOfSettingsAreRefused) {
  const auto dpo = [](const std::vector<std::string>& losses) { return settings(kDpo, losses); };
  ObjectiveConfig c = dpo({"sigmoid", "sft"});
  c.loss_weights = {1};
  EXPECT_NE(refusal_of(c).find("objective.loss_weights: 1 of them for 2"), std::string::npos);
  EXPECT_NE(refusal_of(dpo({"exo_pair"})).find("label_smoothing"), std::string::npos);
  c = dpo({});
  c.label_smoothing = 0.1;
  EXPECT_NE(refusal_of(c).find("has no effect"), std::string::npos);
  c = dpo({"bco_pair"});
  c.f_divergence_type = FDivergence::forward_kl;
  EXPECT_NE(refusal_of(c).find("objective.f_divergence_type: forward_kl"), std::string::npos);
  c = dpo({"aot"});
  c.use_weighting = true;
  EXPECT_NE(refusal_of(c).find("use_weighting"), std::string::npos);
  c = dpo({"robust"});
  c.label_smoothing = 0.5;
  EXPECT_NE(refusal_of(c).find("below 0.5"), std::string::npos);
}

}  // namespace
}  // namespace ft
