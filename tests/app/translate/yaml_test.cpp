// YAML as PyYAML reads it, and files that are broken or hostile.
#include "app/translate/yaml.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ft {
namespace {

using translate::parse_yaml;

Json value(const std::string& text) { return parse_yaml(text, "a.yml").text.value; }

std::string error(const std::string& text, const translate::YamlRules& rules = {}) {
  try {
    parse_yaml(text, "a.yml", rules);
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::config);
    return e.what();
  }
  return "no error";
}

TEST(Yaml, ScalarsHaveTheTypesOfYaml11) {
  EXPECT_EQ(value("a: yes\nb: Off\nc: ~\nd:\ne: null\nf: 'yes'\ng: \"1\""),
            Json::parse(R"({"a": true, "b": false, "c": null, "d": null, "e": null, "f": "yes", "g": "1"})"));
  EXPECT_EQ(value("a: 7\nb: -1_000\nc: 0x1f\nd: 010\ne: 99999999999999999999\nf: 0b11"),
            Json::parse(R"({"a": 7, "b": -1000, "c": 31, "d": 8, "e": "99999999999999999999", "f": 3})"));
  EXPECT_EQ(value("a: 2e-5\nb: 2.0e-5\nc: 1.5\nd: .5\ne: 1.2.3\nf: .inf\ng: 1.0e5"),
            Json::parse(R"({"a": "2e-5", "b": 2.0e-5, "c": 1.5, "d": 0.5, "e": "1.2.3", "f": ".inf",
                            "g": "1.0e5"})"));
  EXPECT_EQ(value("a: !!str 7\nb: !!int \"7\"\nc: ! yes"), Json::parse(R"({"a": "7", "b": 7, "c": "yes"})"));
}

TEST(Yaml, ListsMappingsTextsAndComments) {
  EXPECT_EQ(
      value("a:\n  - x  # one\n  - {b: [1, 2], c: }\nd: |\n  two\n  lines\ne: >-\n  folded\n  text\n1: one"),
      Json::parse(R"({"a": ["x", {"b": [1, 2], "c": null}], "d": "two\nlines\n", "e": "folded text",
                            "1": "one"})"));
  EXPECT_EQ(value("base: &b {x: 1, y: 2}\nown:\n  <<: *b\n  y: 3"),
            Json::parse(R"({"base": {"x": 1, "y": 2}, "own": {"y": 3, "x": 1}})"));
  EXPECT_EQ(value("a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b]}")["c"],
            Json::parse(R"({"x": 1, "y": 2})"));
}

TEST(Yaml, LinesOfKeysAndKeysThatStandTwice) {
  const translate::YamlFile file = parse_yaml("a: 1\nb:\n  - c: 2\n  - c: 3\na: 4\n", "a.yml");
  EXPECT_EQ(file.text.lines.at("b.1.c"), 4);
  EXPECT_EQ(file.text.value["a"], 4);
  EXPECT_EQ(file.notes, std::vector<std::string>{"a.yml:5: a is given twice; the last one counts"});
}

TEST(Yaml, MistakesNameTheLine) {
  EXPECT_EQ(error("a: 1\n  b: 2").find("a.yml:2: not YAML: "), 0u);
  EXPECT_EQ(error("a: [1, 2").find("a.yml:"), 0u);
  EXPECT_EQ(error("a: \"x"),
            "a.yml:1: not YAML: found unexpected end of stream, while scanning a quoted scalar");
  EXPECT_EQ(error("- a"), "a.yml:1: is no list of settings, key: value");
  EXPECT_EQ(error(""), "a.yml:1: has no settings");
  EXPECT_EQ(error("a: 1\n---\nb: 2"), "a.yml:2: a second document begins; a run has one");
  EXPECT_EQ(error("a: *b"), "a.yml:1: *b: there is no &b");
  EXPECT_EQ(error("? [a]\n: b"), "a.yml:1: a key must be a word");
  EXPECT_EQ(error("<<: 3"), "a.yml:1: <<: takes a mapping, or a list of mappings");
  EXPECT_EQ(error("a: \xff"), "a.yml:1: is not UTF-8");
  EXPECT_EQ(error("a: \"\\0\""), "a.yml:1: a text has a zero byte");
}

TEST(Yaml, TagsOfPythonAreRefused) {
  EXPECT_EQ(
      error("a:\n  b: !!python/object/apply:os.system [rm]"),
      "a.yml:2: the tag tag:yaml.org,2002:python/object/apply:os.system makes an object of another program; "
      "write a plain value");
  EXPECT_NE(error("a: !include b.yml").find("the tag !include"), std::string::npos);
}

TEST(Yaml, HostileTextsAreBounded) {
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) laughs += (k ? ", *a" : "*a") + std::to_string(i - 1);
    laughs += "]\n";
  }
  EXPECT_NE(error(laughs).find("more than 5000 values"), std::string::npos);
  EXPECT_EQ(error("a: &a [*a]"), "a.yml:1: *a contains itself");
  EXPECT_NE(error(std::string(100000, '[')).find("more than 32 levels deep"), std::string::npos);
  std::string nested;
  for (int i = 0; i < 20000; ++i) nested += "{a: ";
  EXPECT_NE(error(nested).find("more than 32 levels deep"), std::string::npos);
  EXPECT_NE(error(std::string(1 << 21, 'a')).find("bytes long; at most 1048576"), std::string::npos);
  std::string many;
  for (int i = 0; i < 9000; ++i) many += "k" + std::to_string(i) + ": 1\n";
  EXPECT_NE(error(many).find("more than 5000 values"), std::string::npos);
  std::string long_texts = "a: &a " + std::string(900'000, 'x') + "\nb:\n";
  for (int i = 0; i < 4000; ++i) long_texts += "  - *a\n";
  EXPECT_NE(error(long_texts).find("its aliases repeat too much text"), std::string::npos);
  EXPECT_NE(error("? " + std::string(900'000, 'k') + "\n: [1, 2]").find("a key is longer than 256 bytes"),
            std::string::npos);
}

}  // namespace
}  // namespace ft
