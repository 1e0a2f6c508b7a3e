// docs/which_gpu.md is the page that ft plan makes. All rows take minutes, so a few are planned again. The
// disabled test makes the page.
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>

#include "engine/files/file.h"
#include "tests/recipes/which_gpu_page.h"
#include "tests/support/source.h"

namespace ft {
namespace {

std::string page() { return read_file(source_path("docs/which_gpu.md"), 1 << 20); }

TEST(WhichGpu, ThePageHasARowForEachModelAndMethod) {
  std::string names, rows;
  for (const std::string& id : models_of_page())
    for (const std::string& method : methods_of_page()) names += row_name(id, method) + "\n";
  const std::string text = page(), head = head_of_page();
  ASSERT_TRUE(text.starts_with(head)) << "docs/which_gpu.md is out of date";
  for (std::size_t at = head.size(); at < text.size(); at = text.find('\n', at) + 1) {
    const std::size_t method = text.find('|', text.find('|', at + 1) + 1);
    rows += text.substr(at, method + 1 - at) + "\n";
  }
  EXPECT_EQ(rows, names);
}

TEST(WhichGpu, RowsAreThoseOfThePlan) {
  const std::string text = page();
  for (const std::string& method : methods_of_page())
    for (const char* id : {"Qwen/Qwen3-0.6B", "google/flan-t5-base"}) {
      const std::string row = planned_row(id, method);
      EXPECT_NE(text.find("\n" + row), text.npos) << "docs/which_gpu.md is out of date: " << row;
    }
}

TEST(WhichGpu, DISABLED_MakesThePage) {
  const std::string fresh = testing::TempDir() + "/which_gpu.md";
  std::ofstream out(fresh);
  out << head_of_page();
  for (const std::string& id : models_of_page())
    for (const std::string& method : methods_of_page()) out << planned_row(id, method) << std::flush;
  std::cout << "copy " << fresh << " to docs/which_gpu.md\n";
}

}  // namespace
}  // namespace ft
