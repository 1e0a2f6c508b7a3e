// ft data filter, tested from outside: kept rows, counts, mistakes.
#include <gtest/gtest.h>

#include "tests/life/program.h"

namespace ft::test::filtered {
namespace {

std::vector<std::string> filter(const std::vector<std::string>& more) {
  std::vector<std::string> words{"data", "filter", "--output", "kept.jsonl", "--data", "t.jsonl"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(FilterLife, KeepsRowsAndCountsTheOthers) {
  const Workplace w("llama");
  const std::string first = R"({"text": "one two three four five six seven", "n": 1.50})";
  std::ofstream(w / "t.jsonl") << first << "\n"
                               << R"({"n": 1.5,  "text": "one two three four five six seven"})"
                               << "\r\n"
                               << R"({"text": "One two three four five six, seven!", "n": 2})"
                               << "\n\n"
                               << R"({"text": "eight"})"
                               << "\n";
  std::ofstream(w / "more.json") << "[{\"text\": \"eight\"},\n {\"text\":\n\"nine\"}]";
  ASSERT_EQ(w.run(filter({"more.json", "--exact", "--near", "--json"})), 0) << w.says();
  EXPECT_EQ(contents(w / "kept.jsonl"), first + "\n{\"text\": \"eight\"}\n{\"text\": \"nine\"}\n");
  EXPECT_EQ(Json::parse(contents(w / "stdout")), Json({{"rows", 6},
                                                       {"kept", 3},
                                                       {"too_short", 0},
                                                       {"too_long", 0},
                                                       {"exact_duplicates", 2},
                                                       {"near_duplicates", 1}}));
  EXPECT_EQ(w.run(filter({"--exact"})), 2);
  EXPECT_NE(w.says().find("kept.jsonl already exists; --overwrite replaces it"), std::string::npos)
      << w.says();
  ASSERT_EQ(w.run(filter({"--exact", "--fields", "text", "--overwrite"})), 0) << w.says();
  EXPECT_NE(
      contents(w / "stdout").find("4 rows read\n           1  equal to an earlier row\n           3  kept "),
      std::string::npos)
      << contents(w / "stdout");
}

TEST(FilterLife, MistakesAreNamedAndNothingIsWritten) {
  const Workplace w("llama");
  std::ofstream(w / "t.jsonl") << "{\"text\": \"one\"}\n{\"text\": 3\n";
  const auto refused = [&](const std::vector<std::string>& words, int code, const std::string& why) {
    EXPECT_EQ(w.run(words), code) << why;
    EXPECT_NE(w.says().find(why), std::string::npos) << w.says();
    EXPECT_FALSE(fs::exists(w / "kept.jsonl"));
  };
  refused(filter({}), 2, "no rule; give --exact, --near, --min-tokens or --max-tokens");
  refused(filter({"--min-tokens", "3"}), 2,
          "--min-tokens and --max-tokens need the tokenizer of --model DIR");
  refused(filter({"--exact", "--model", "model"}), 2, "--model: has no effect without --min-tokens");
  refused(filter({"--near", "--bands", "7"}), 2, "--bands: 7 bands do not divide 128 permutations equally");
  refused(filter({"--bands", "8"}), 2, "--bands requires --near");
  refused(filter({"--exact"}), 3, "t.jsonl:2: not JSON");
  refused({"data", "filter", "--data", "t.jsonl", "--output", "kept.parquet", "--exact"}, 2,
          "--output: kept.parquet must end in .jsonl: ft writes JSON lines");
  refused({"data", "filter", "--data", "t.jsonl", "--output", "t.jsonl", "--exact", "--overwrite"}, 2,
          "--output: t.jsonl is one of the files to read");
  std::ofstream(w / "t.jsonl") << "{\"text\": \"one\"}\n";
  refused(filter({"--exact", "--fields", "txt"}), 3, "t.jsonl:1: no \"txt\" (--fields)");
  refused({"data", "filter", "--data", "none.jsonl", "--output", "kept.jsonl", "--exact"}, 3, "none.jsonl");
}

}  // namespace
}  // namespace ft::test::filtered
