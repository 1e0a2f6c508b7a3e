// Field lists in general: reading, writing and errors of structs other than ft's settings.
#include "engine/settings/fields.h"

#include <optional>

#include <gtest/gtest.h>

#include "engine/core/suggest.h"

namespace ft {
namespace {

enum class Fruit : std::uint8_t { any, apple, pear };
constexpr auto words(Fruit) {
  using enum Fruit;
  return to_words<Fruit>({{any, "true"}, {apple, "apple"}, {pear, "pear"}, {pear, "poire"}});
}

struct Inner {
  std::int64_t count = 1;
  void fields(auto& f) { f("count", count, "How many.", at_least(1), at_most(9)); }
};
struct Outer {
  Inner inner;
  std::vector<Inner> list;
  std::optional<double> maybe;
  std::string mode = "a";
  Fruit fruit = Fruit::apple;
  std::vector<Fruit> basket;
  std::optional<Fruit> seldom;
  std::variant<Fruit, std::string> other = Fruit::pear;
  JsonText any;
  void fields(auto& f) {
    f("inner", inner, "A section.");
    f("list", list, "Sections.");
    f("maybe", maybe, "A number or null.");
    f("mode", mode, "One of two.", one_of({"a", "b"}), later({"c"}));
    f("fruit", fruit, "One.", later({"plum"}));
    f("basket", basket, "Several.");
    f("seldom", seldom, "One, or auto.", or_auto(), one_of({Fruit::apple, Fruit::pear}));
    f("other", other, "One, or a path.", is_path());
    f("any", any, "Any JSON.");
  }
};

Outer read(const std::string& text) { return read_settings<Outer>(parse_settings(text, "x"), ""); }

TEST(Fields, ReadWriteRead) {
  const Outer o = read(R"({"inner": {"count": 3}, "list": [{}, {"count": 2}], "maybe": 0.1, "mode": "b",
                           "any": {"k": [1, null]}})");
  EXPECT_EQ(o.inner.count, 3);
  EXPECT_EQ(o.list.size(), 2u);
  EXPECT_EQ(o.list[1].count, 2);
  EXPECT_EQ(o.maybe, 0.1);
  const Json written = write_settings(o);
  EXPECT_EQ(written.dump(),
            R"({"inner":{"count":3},"list":[{"count":1},{"count":2}],"maybe":0.1,"mode":"b",)"
            R"("fruit":"apple","basket":[],"seldom":"auto","other":"pear","any":{"k":[1,null]}})");
  EXPECT_EQ(write_settings(read(written.dump())), written);
}

// The first word of a value is written. The words "true" and "false" of an enum are written as JSON's true
// and false.
TEST(Fields, WordsAreReadAndWritten) {
  const Outer o = read(R"({"fruit": true, "basket": ["poire", "apple"], "seldom": "pear", "other": "a/b"})");
  EXPECT_EQ(o.fruit, Fruit::any);
  EXPECT_EQ(o.basket, (std::vector{Fruit::pear, Fruit::apple}));
  EXPECT_EQ(o.seldom, Fruit::pear);
  EXPECT_EQ(std::get<std::string>(o.other), "a/b");
  EXPECT_EQ(std::get<Fruit>(read(R"({"other": true})").other), Fruit::any);
  EXPECT_EQ(std::get<Fruit>(read(R"({"other": "poire"})").other), Fruit::pear);
  const Json written = write_settings(o);
  EXPECT_EQ(written["fruit"], true);
  EXPECT_EQ(written["basket"].dump(), R"(["pear","apple"])");
  EXPECT_EQ(written["other"], std::filesystem::absolute("a/b").string());
}

TEST(Fields, OtherWordsAreRefused) {
  try {
    read(R"({"fruit": "poirre",
"basket": ["plum", 3], "seldom": "true", "other": 3})");
    FAIL();
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(),
                 "x:1: fruit: there is no \"poirre\"; do you mean poire? There are true, apple, pear\n"
                 "x:2: basket.0: there is no \"plum\"; there are true, apple, pear\n"
                 "x:2: basket.1: expected true, apple, pear, not 3\n"
                 "x:2: seldom: there is no \"true\"; there are apple, pear, auto\n"
                 "x:2: other: expected true, apple, pear, a path, not 3");
  }
  try {
    read(R"({"fruit": "plum"})");
    FAIL();
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(), "x:1: fruit: plum is not available yet; available: true, apple, pear");
  }
}

TEST(Fields, EveryMistakeIsReportedAtOnce) {
  try {
    read("{\"inner\": {\"count\": 0,\n\"cuont\": 1}, \"list\": [{\"count\": 10}],\n\"mode\": \"c\"}");
    FAIL();
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(),
                 "x:1: inner.count: 0 is out of range: it has to be at least 1 and at most 9\n"
                 "x:2: inner.cuont: no such setting; do you mean count?\n"
                 "x:2: list.0.count: 10 is out of range: it has to be at least 1 and at most 9\n"
                 "x:3: mode: c is not available yet; available: a, b");
  }
}

TEST(Fields, ManyMistakesAreCut) {
  std::string text = "{";
  for (int i = 0; i < 15; ++i) text += (i ? ",\"zzzzzzz" : "\"zzzzzzz") + std::to_string(i) + "\":0";
  try {
    read(text + "}");
    FAIL();
  } catch (const UserError& e) {
    EXPECT_TRUE(std::string(e.what()).ends_with("\nand 5 more")) << e.what();
  }
}

TEST(Fields, Describe) {
  const auto all = describe<Outer>();
  ASSERT_EQ(all.size(), 11u);
  EXPECT_EQ(all[0].type, "section");
  EXPECT_EQ(all[1].path, "inner.count");
  EXPECT_EQ(all[1].fallback, 1);
  EXPECT_EQ(allowed(all[1].rules), "at least 1 and at most 9");
  EXPECT_EQ(all[3].path, "list[].count");
  EXPECT_EQ(all[4].fallback, Json());
  EXPECT_EQ(all[6].type, "text");
  EXPECT_EQ(all[6].fallback, "apple");
  EXPECT_EQ(all[6].rules.choices, (std::vector<std::string>{"true", "apple", "pear"}));
  EXPECT_EQ(all[6].rules.synonyms, std::vector<std::string>{"poire"});
  EXPECT_EQ(allowed(all[7].rules), "true, apple, pear");
  EXPECT_EQ(allowed(all[9].rules), "true, apple, pear, a path");
}

TEST(Suggest, TypingErrors) {
  EXPECT_EQ(typing_errors("learning", "learning"), 0);
  EXPECT_EQ(typing_errors("learing", "learning"), 1);
  EXPECT_EQ(typing_errors("trian", "train"), 1);  // a swap is one error
  EXPECT_EQ(typing_errors("abc", "xyz"), 3);
  EXPECT_EQ(nearest("trian", {"eval", "train", "plan"}), "train");
  EXPECT_EQ(nearest("frobnicate", {"eval", "train", "plan"}), "");
  EXPECT_EQ(nearest("", {"a"}), "");
}

TEST(JsonLines, KeysAndElements) {
  const JsonLines lines = json_lines("{\n\"a\":\n [1,\n  \"x\", {\"b\"\n: {\n}}],\n\"c\": 3\n}");
  const JsonLines want{{"a", 2}, {"a.0", 3}, {"a.1", 4}, {"a.2", 4}, {"a.2.b", 4}, {"c", 7}};
  EXPECT_EQ(lines, want);
}

}  // namespace
}  // namespace ft
