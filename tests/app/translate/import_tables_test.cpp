// The tables of verdicts: each names settings that exist, and the page docs/import.md agrees with them.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "app/config/config.h"
#include "app/translate/list.h"
#include "app/translate/names.h"
#include "engine/settings/fields.h"
#include "tests/app/translate/import_page.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using namespace translate;

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = describe<RunConfig>();
  return all;
}

bool is_setting(const std::string& path) {
  return path == "deepspeed" || path == "zero_optimization" || path.starts_with("ft ") ||
         std::any_of(settings().begin(), settings().end(), [&](const Setting& s) { return s.path == path; });
}

TEST(ImportTables, EveryKeyHasOneVerdictWithAReason) {
  for (const Program* program : kPrograms) {
    std::set<std::string> names;
    for (const Flag* flag : program->keys()) {
      const std::string where = str(program->name, ": ", flag->name), to = flag->to;
      EXPECT_TRUE(names.insert(flag->name).second) << where << " stands twice";
      const bool sets = flag->fate == Fate::same || flag->fate == Fate::own;
      for (const std::string& setting : sets ? comma_separated(to) : std::vector<std::string>())
        EXPECT_TRUE(is_setting(setting)) << where << ": " << setting;
      const bool names_one = flag->fate == Fate::same || flag->fate == Fate::refused_but;
      EXPECT_TRUE(!names_one || !to.empty()) << where;
      EXPECT_TRUE(sets || names_one || to.empty()) << where;
      EXPECT_TRUE(sets || *flag->why != '\0') << where << " has no reason";
    }
    EXPECT_GT(names.size(), 30u) << program->name;
  }
}

// A default that is ft's too need not be written; rates and schedules depend on the objective.
TEST(ImportTables, DefaultsAreSettingsThatDiffer) {
  for (const Program* program : kPrograms)
    for (const Default& d : program->defaults) {
      const auto at = std::find_if(settings().begin(), settings().end(),
                                   [&](const Setting& s) { return s.path == d.to; });
      ASSERT_NE(at, settings().end()) << program->name << ": " << d.to;
      const std::string to = d.to;
      const bool of_objective = to == "training.learning_rate" || to == "training.lr_scheduler_type" ||
                                to == "training.num_train_epochs";
      EXPECT_TRUE(of_objective || at->fallback != Json::parse(d.value)) << program->name << ": " << to;
    }
}

TEST(ImportTables, NamesOfProgramsDiffer) {
  std::set<std::string> names;
  for (const Program* program : kPrograms) EXPECT_TRUE(names.insert(program->name).second) << program->name;
}

TEST(ImportTables, ThePageAgrees) {
  std::stringstream page;
  page << std::ifstream(source_path("docs/import.md")).rdbuf();
  const std::string made = import_page(), fresh = testing::TempDir() + "/import.md";
  if (page.str() != made) std::ofstream(fresh) << made;
  EXPECT_TRUE(page.str() == made) << "docs/import.md is out of date; copy " << fresh;
}

}  // namespace
}  // namespace ft
