// ft metrics: its output, and the errors of wrong files.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/files/file.h"
#include "engine/files/json.h"
#include "tests/app/outcome.h"
#include "tests/engine/files/temp_folder.h"

namespace ft {
namespace {

class Metrics : public testing::Test {
 protected:
  test::TempFolder folder;
  std::string hypotheses = folder / "h.txt", references = folder / "r.txt";

  Outcome measure(const std::string& h, const std::string& r, bool json = false, bool stems = false) {
    write_file(hypotheses, h);
    write_file(references, r);
    std::vector<std::string> all{"metrics", "--hypotheses", hypotheses, "--references", references};
    if (json) all.emplace_back("--json");
    if (stems) all.emplace_back("--use-stemmer");
    return run(all);
  }
  void refused(const std::string& h, const std::string& r, const std::string& text) {
    const Outcome o = measure(h, r);
    EXPECT_EQ(o.code, 3);
    EXPECT_EQ(o.err, text + "\n");
    EXPECT_EQ(o.out, "");
  }
};

TEST_F(Metrics, StemsWhereAsked) {
  const auto rouge1 = [&](bool stems) {
    return Json::parse(measure("connected apples\n", "connections apple\n", true, stems).out)["rouge1"];
  };
  EXPECT_EQ(rouge1(false), 0);
  EXPECT_EQ(rouge1(true), 1);
}

TEST_F(Metrics, PrintsWhatItMeasured) {
  const std::string text = "one two three four five\nsix, seven.\n";
  const Outcome o = measure(text, text);
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(
      o.out.starts_with("BLEU   100.00   precisions 100.0 100.0 100.0 100.0, brevity penalty 1.000 "
                        "(9 tokens, reference 9)\nchrF2  100.00\nROUGE  1.0000   unigrams"))
      << o.out;
  const Json j = Json::parse(measure(text, text, true).out);
  EXPECT_NEAR(j["bleu"], 100, 1e-9);
  EXPECT_TRUE(j["bleu_signature"].get<std::string>().starts_with(
      "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:ft-"));
}

// Files may have a byte order mark, either kind of line end, and a last line without one.
TEST_F(Metrics, LinesAreThoseOfAnySystem) {
  EXPECT_EQ(measure("\xEF\xBB\xBFone two three four\r\nfive\r\n", "one two three four\nfive", true).out,
            measure("one two three four\nfive\n", "one two three four\nfive\n", true).out);
}

TEST_F(Metrics, FilesThatAreNotPairs) {
  refused("a\nb\n", "a\n",
          hypotheses + " has 2 lines and " + references +
              " has 1 line: line 1 of one is compared with line 1 of the other, and so on");
  refused("", "a\n", hypotheses + ": has no lines");
  refused("a\n", "", references + ": has no lines");
  refused("a\n\xff\n", "a\nb\n", hypotheses + ":2: not UTF-8");
  refused(std::string((1 << 20) + 1, 'a'), "a\n", hypotheses + ":1: a line of more than 1 MiB");
  const Outcome o = run({"metrics", "--hypotheses", folder / "none", "--references", references});
  EXPECT_EQ(o.code, 3);
  EXPECT_EQ(o.err, folder / "none" + ": No such file or directory\n");
}

}  // namespace
}  // namespace ft
