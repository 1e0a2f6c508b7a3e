// The list of commands: names that differ, and a description that is complete.
#include "app/commands/list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace ft::commands {
namespace {

TEST(Commands, HaveDifferentNamesAndOptionsOrSubcommands) {
  std::set<std::string> names;
  for (const Command* command : kCommands) {
    EXPECT_TRUE(names.insert(command->name).second) << command->name;
    EXPECT_NE(command->add_options != nullptr, !command->below.empty()) << command->name;
  }
}

TEST(Commands, RankCommandsHaveALaunchFunction) {
  for (const Command* command : kCommands) {
    if (!command->add_options) continue;
    CLI::App app;
    const bool listed = std::find(kRankCommands.begin(), kRankCommands.end(), command) != kRankCommands.end();
    EXPECT_EQ(command->add_options(app).launch != nullptr, listed) << command->name;
  }
}

}  // namespace
}  // namespace ft::commands
