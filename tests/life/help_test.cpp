// ft's help on a terminal.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/life/terminal.h"

namespace ft::test {
namespace {

TEST(Help, FitsTheTerminal) {
  constexpr std::size_t kColumns = 72, kDescription = 30;
  Terminal terminal({"--help"}, kColumns);
  std::istringstream lines(terminal.until_it_ends());
  EXPECT_EQ(terminal.finish(), 0);
  int continued = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();  // added by the terminal
    if (line.starts_with("  ft ")) continue;    // examples are not wrapped
    EXPECT_LE(line.size(), kColumns) << line;
    continued += line.starts_with(std::string(kDescription, ' '));
  }
  EXPECT_GT(continued, 10);
}

}  // namespace
}  // namespace ft::test
