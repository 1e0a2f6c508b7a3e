// Built-in rewards of generated answers.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "app/rollouts/reward.h"
#include "engine/train/objectives/list.h"

namespace ft {
namespace {

Dataset prompts(const std::vector<Json>& rows) {
  auto store = std::make_shared<SampleStore>(false, RowKind::prompt);
  store->start_file("p.jsonl");
  std::vector<std::int64_t> places;
  for (const Json& row : rows) {
    Sample s{.input_ids = {1}, .labels = {kIgnored}};
    s.row = row.dump();
    store->add(s, std::ssize(places) + 1);
    places.push_back(std::ssize(places));
  }
  return {store, places};
}

double reward(const ObjectiveConfig& c, const std::string& completion, const Json& answer,
              const std::vector<std::int32_t>& ids = {1}) {
  const Json row = {{"answer", answer}};
  const auto checks = make_checks(c);
  const RewardedAnswer a{.completion = completion, .ids = ids, .row = row};
  return checks.at(0)->rewards({&a, 1}).at(0);
}

ObjectiveConfig with(RewardCheck check) {
  ObjectiveConfig c(&objectives::kGrpo);
  c.reward_funcs = {check};
  return c;
}

TEST(Rewards, WhiteSpaceAroundAnswersIsIgnored) {
  const ObjectiveConfig c = with(RewardCheck::exact_match);
  EXPECT_EQ(reward(c, " 42\n", "42"), 1);
  EXPECT_EQ(reward(c, "42", 42), 1) << "a number in the row";
  EXPECT_EQ(reward(c, "4 2", "42"), 0);
  EXPECT_EQ(reward(c, "", "42"), 0);
}

TEST(Rewards, TheLastNumberCounts) {
  const ObjectiveConfig c = with(RewardCheck::number);
  EXPECT_EQ(reward(c, "3 times 4 is 12.", "so\n#### 12"), 1);
  EXPECT_EQ(reward(c, "$1,234.50", 1234.5), 1);
  EXPECT_EQ(reward(c, "-7", "7"), 0);
  EXPECT_EQ(reward(c, "none", "7"), 0);
  EXPECT_EQ(last_number("1,23 and 4"), 4);
  EXPECT_EQ(last_number("007"), 7);
  EXPECT_TRUE(std::isnan(last_number("no number")));
}

TEST(Rewards, APatternMatchesSomewhere) {
  ObjectiveConfig c = with(RewardCheck::regex);
  c.reward_regex = "<answer>\\d+</answer>";
  EXPECT_EQ(reward(c, "well: <answer>12</answer>", {}), 1);
  EXPECT_EQ(reward(c, "<answer></answer>", {}), 0);
  c.reward_regex = "(";
  try {
    make_checks(c);
    ADD_FAILURE();
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::config);
    EXPECT_NE(std::string(e.what()).find("objective.reward_regex"), std::string::npos);
  }
}

// TRL's get_soft_overlong_punishment(max_completion_len=10, soft_punish_cache=4).
TEST(Rewards, LongAnswersLose) {
  ObjectiveConfig c = with(RewardCheck::length);
  c.max_completion_length = 10;
  c.soft_punish_cache = 4;
  for (const auto& [length, want] : {std::pair{1, 0.0}, {6, 0.0}, {7, -0.25}, {10, -1.0}, {11, -1.0}})
    EXPECT_EQ(reward(c, "", {}, std::vector<std::int32_t>(std::size_t(length))), want) << length;
}

TEST(Rewards, NamesRowsWithoutARightAnswer) {
  const auto refused = [](RewardCheck check, const Json& row) -> std::string {
    try {
      require_answers(with(check), prompts({{{"answer", "1"}}, row}));
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(refused(RewardCheck::exact_match, Json::object()).find("p.jsonl:2: no \"answer\""),
            std::string::npos);
  EXPECT_NE(refused(RewardCheck::exact_match, {{"answer", {1}}}).find("a text or a number"),
            std::string::npos);
  EXPECT_NE(refused(RewardCheck::number, {{"answer", "x"}}).find("no number in it"), std::string::npos);
  EXPECT_EQ(refused(RewardCheck::exact_match, {{"answer", "x"}}), "");
}

}  // namespace
}  // namespace ft
