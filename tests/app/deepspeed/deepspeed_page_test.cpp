// The verdict on every key in the tables of docs/deepspeed.md is the verdict that the program gives.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "tests/app/deepspeed/deepspeed_file.h"
#include "tests/support/source.h"

namespace ft::deepspeed {
namespace {

using Table = std::map<std::string, std::string>;  // pattern of keys: verdict

// Returns the next text between backquotes from `at` on; empty at the end of the cell.
std::string next_code(const std::string& cell, std::size_t& at) {
  const std::size_t begin = cell.find('`', at), end = cell.find('`', begin + 1);
  if (begin == cell.npos || end == cell.npos) return "";
  at = end + 1;
  return cell.substr(begin + 1, end - begin - 1);
}

Table page() {
  std::ifstream in(source_path("docs/deepspeed.md"));
  Table table;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("## ")) inside = line == "## Verdicts";
    if (!inside || !line.starts_with("| `")) continue;
    const std::size_t first = line.find(" | "), second = line.find(" | ", first + 3);
    const std::string cell = line.substr(0, first), verdict = line.substr(first + 3, second - first - 3);
    std::string before;
    std::size_t at = 0;
    for (std::string code = next_code(cell, at); !code.empty(); code = next_code(cell, at)) {
      if (code.starts_with('.')) code = before.substr(0, before.rfind('.')) + code;
      EXPECT_TRUE(table.emplace(code, verdict).second) << code << " stands twice";
      before = code;
    }
  }
  return table;
}

bool fits(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] != '*')
    return !name.empty() && pattern[0] == name[0] && fits(pattern.substr(1), name.substr(1));
  for (std::size_t i = 0; i <= name.size(); ++i)
    if (fits(pattern.substr(1), name.substr(i))) return true;
  return false;
}

// Returns the most specific pattern that matches the key; empty if none does.
std::string pattern_of(const Table& table, const std::string& name) {
  const auto exactness = [](const std::string& p) {
    return std::ranges::count_if(p, [](char c) { return c != '*'; });
  };
  std::string best;
  for (const auto& [pattern, verdict] : table)
    if (fits(pattern, name) && (best.empty() || exactness(pattern) > exactness(best))) best = pattern;
  return best;
}

// A value that is not DeepSpeed's default.
Json unusual(const Key& key) {
  const Json usual = Json::parse(key.value.usual);
  if (usual.is_boolean()) return !usual.get<bool>();
  if (usual.is_number()) return usual.get<double>() + 1;
  for (const std::string& word : split(key.value.words))
    if (usual != Json(word)) return word;
  return usual;
}

// Returns the worst verdict on the key and on each key inside it. A key that is refused unless it has its
// default counts as refused.
std::map<std::string, Verdict> verdicts_of(const Key& key) {
  const std::string name = example_name(key);
  std::map<std::string, Verdict> all;
  std::vector<Json> values = examples(name == "bfloat16.enabled" ? *find_key("bf16.enabled") : key);
  if (key.fate == Fate::only_usual) values.push_back(unusual(key));
  for (const Json& value : values)
    for (const Row& row : applied(file_with(name, value, key).dump()).rows) {
      if (row.key != name && !row.key.starts_with(name + ".")) continue;
      const auto [at, is_new] = all.emplace(row.key, row.verdict);
      const auto weight = [](Verdict v) {
        return v == Verdict::rejected ? 2 : v == Verdict::no_effect ? 0 : 1;
      };
      if (weight(row.verdict) > weight(at->second)) at->second = row.verdict;
    }
  return all;
}

TEST(DeepSpeedPage, HasTheVerdictOnEveryKey) {
  const Table table = page();
  ASSERT_GT(table.size(), 60u);
  std::set<std::string> used;
  for (const Key* key : all_keys())
    for (const auto& [name, verdict] : verdicts_of(*key)) {
      const std::string pattern = pattern_of(table, name);
      ASSERT_FALSE(pattern.empty()) << name << " is in no row of docs/deepspeed.md";
      used.insert(pattern);
      std::string words = name_of(verdict);
      std::ranges::replace(words, '_', ' ');
      EXPECT_EQ(table.at(pattern), words) << name << ", by the row of " << pattern;
    }
  for (const auto& [pattern, verdict] : table)
    EXPECT_TRUE(used.contains(pattern)) << pattern << " is about no key";
}

}  // namespace
}  // namespace ft::deepspeed
