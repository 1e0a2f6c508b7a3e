// The table of pairs that do not go together: settings lead to each pair, its message names settings, and the
// page docs/together.md agrees.
#include "app/config/together.h"

#include <fstream>
#include <set>

#include "engine/settings/fields.h"
#include "tests/app/config/config_text.h"
#include "tests/app/config/together_page.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using namespace test;

// Returns the configuration with these settings, without the reader's checks.
RunConfig unchecked(const Overrides& settings) {
  SettingsText tree = parse_settings(with(""), "run.json");
  for (const std::string& s : settings) override_setting(tree, s);
  return read_settings<RunConfig>(tree, "");
}

std::vector<Clash> all_pairs() {
  std::vector<Clash> all;
  for (const auto pairs : {clashes(), clashes_by_model()})
    for (const Clash& pair : pairs) all.push_back(pair);
  return all;
}

TEST(Together, SettingsOfAFeatureTurnItOn) {
  for (const Clash& pair : all_pairs())
    for (const Feature* f : {&pair.first, &pair.second})
      EXPECT_TRUE(f->on(unchecked(settings_of(f->set)), kRanks)) << f->name << ": " << f->set;
}

// Settings that a feature needs stand before its own, so that alone it breaks no rule.
TEST(Together, AFeatureAloneIsAccepted) {
  for (const Clash& pair : all_pairs())
    for (const Feature* f : {&pair.first, &pair.second})
      EXPECT_EQ(broken_rule(unchecked(settings_of(f->set))).value_or(""), "") << f->name;
}

// The last setting of each feature is its own; the ones before are needed beside it.
RunConfig with_both(const Clash& pair) {
  Overrides needed, own;
  for (const Feature* f : {&pair.first, &pair.second}) {
    Overrides all = settings_of(f->set);
    own.push_back(all.back());
    all.pop_back();
    needed.insert(needed.end(), all.begin(), all.end());
  }
  needed.insert(needed.end(), own.begin(), own.end());
  return unchecked(needed);
}

TEST(Together, EachPairIsBrokenByItsFeatures) {
  for (const Clash& pair : clashes()) {
    const RunConfig c = with_both(pair);
    EXPECT_TRUE(pair.first.on(c, kRanks) && pair.second.on(c, kRanks))
        << pair.first.name << " and " << pair.second.name;
    EXPECT_FALSE(goes_together(c, kRanks)) << pair.first.name << " and " << pair.second.name;
  }
}

TEST(Together, PairsAreListedOnce) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const Clash& pair : all_pairs()) {
    const std::string a = pair.first.name, b = pair.second.name;
    EXPECT_TRUE(seen.emplace(a, b).second) << a << " and " << b;
    EXPECT_FALSE(seen.contains({b, a})) << a << " and " << b;
  }
}

// A message begins with the name of a setting.
TEST(Together, MessagesNameSettings) {
  std::set<std::string> known;
  for (const Setting& s : describe<RunConfig>()) known.insert(s.path);
  for (const Clash& pair : all_pairs()) {
    const std::string text = message(pair, with_both(pair));
    EXPECT_TRUE(known.contains(text.substr(0, text.find_first_of(": =")))) << text;
    EXPECT_EQ(text.find('{'), std::string::npos) << text;
  }
}

TEST(Together, TheReaderRefuses) {
  EXPECT_EQ(refusal(with(""), {"distributed.pipeline_parallel_size=2", "objective.type=orpo"}),
            "run.json: objective.type: orpo is not computed with distributed.pipeline_parallel_size above 1, "
            "only sft is; leave one of them out");
  EXPECT_EQ(refusal(with(""), {"data.packing=true", "objective.type=dpo"}),
            "run.json: data.packing: batches of answers have no padding either way; leave it out "
            "(objective.type dpo)");
  EXPECT_EQ(
      refusal(with(""), {"data.truncation=keep_end", "objective.type=dpo"}),
      "run.json: data.truncation: keep_end would cut prompts; answers are cut at their end, or dropped; "
      "leave it out (objective.type dpo)");
  EXPECT_EQ(refusal(with(""), {"data.val_set_size=3", "data.streaming=true"}),
            "run.json: data.val_set_size: nothing can be held out of a stream; name data.eval_datasets, or "
            "set data.streaming to false");
  EXPECT_EQ(refusal(with(""), {"data.val_set_size=3", "data.eval_datasets=[{\"path\": \"e.jsonl\"}]"}),
            "run.json: data.val_set_size: data.eval_datasets is set too; leave one of them out");
  EXPECT_EQ(refusal(with(""), {"distributed.partition_activations=true"}),
            "run.json: distributed.partition_activations: ranks that share layers share out what they keep, "
            "and distributed.tensor_parallel_size is 1; set that, or leave partition_activations out");
}

// Pairs that depend on the number of ranks are no mistakes until it is known.
TEST(Together, RanksAreAskedWhenTheyAreKnown) {
  const RunConfig c = parsed("", {"zero_optimization.offload_param.device=cpu"});
  EXPECT_TRUE(goes_together(c));
  EXPECT_TRUE(goes_together(c, 1));
  EXPECT_EQ(broken_rule(c, 2).value_or(""),
            "zero_optimization.offload_param: several ranks need stage 3; the stage is 0");
  check_together_on(c, 1);
  EXPECT_THROW(check_together_on(c, 2), UserError);
  const RunConfig fixed = unchecked({"training.fp16=true", "training.bf16=true"});
  EXPECT_NO_THROW(check_together_on(fixed, 2)) << "not a matter of ranks";
}

TEST(Together, ThePageIsMadeFromTheTable) {
  std::ifstream in(source_path("docs/together.md"));
  std::stringstream page;
  page << in.rdbuf();
  const std::string made = together_page(), fresh = testing::TempDir() + "/together.md";
  if (page.str() != made) std::ofstream(fresh) << made;
  EXPECT_TRUE(page.str() == made) << "docs/together.md is out of date; copy " << fresh;
}

}  // namespace
}  // namespace ft
