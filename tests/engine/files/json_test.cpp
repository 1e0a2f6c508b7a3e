// JSON: refusals with their texts, and values that are the same after writing and reading.
#include "engine/files/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/engine/files/temp_folder.h"

namespace ft {
namespace {

using test::error_of;

std::string refusal(const std::string& text, const JsonRules& rules = {}) {
  return error_of([&] { parse_json(text, {"a.json"}, rules); });
}

TEST(Json, ReadsValues) {
  const Json v = parse_json(R"({"b": [1, -2, 0.5, true, null, "\u00e4\ud83d\ude00"], "a": {}})", {"a.json"});
  EXPECT_EQ(v.dump(), "{\"b\":[1,-2,0.5,true,null,\"\xC3\xA4\xF0\x9F\x98\x80\"],\"a\":{}}");
  EXPECT_EQ(parse_json("\xEF\xBB\xBF 7 ", {"a.json"}), 7);
}

TEST(Json, NamesThePlaceOfAnError) {
  EXPECT_EQ(error_of([] {
              parse_json(R"({"prompt": "2 + 2 =" "completion": "4"})", {"data/train.jsonl", 20});
            }),
            "3 data/train.jsonl:20: not JSON: expected ',' or '}' at column 22\n"
            "  {\"prompt\": \"2 + 2 =\" \"completion\": \"4\"}\n"
            "                       ^");
  EXPECT_EQ(refusal("{\n \"a\": 1,\n}"),
            "3 a.json:3: not JSON: expected a key in quotes at column 1\n  }\n  ^");
  EXPECT_EQ(refusal("[1, 2"), "3 a.json:1: not JSON: expected ',' or ']' at column 6\n  [1, 2\n       ^");
  EXPECT_EQ(refusal("{} {}"), "3 a.json:1: not JSON: more text after the value at column 4\n  {} {}\n     ^");
  EXPECT_EQ(refusal("[1 true]"), "3 a.json:1: not JSON: expected ',' or ']' at column 4\n  [1 true]\n     ^");
  EXPECT_EQ(refusal("[1 23]"), "3 a.json:1: not JSON: expected ',' or ']' at column 4\n  [1 23]\n     ^");
  EXPECT_EQ(refusal("[NaN]"), "3 a.json:1: not JSON: invalid literal at column 2\n  [NaN]\n   ^");
  EXPECT_EQ(refusal("[1e999]"), "3 a.json:1: not JSON: a number too large at column 2\n  [1e999]\n   ^");
  EXPECT_EQ(refusal(""), "3 a.json:1: not JSON: it ends too early at column 1\n  \n  ^");
  EXPECT_EQ(refusal("{\"a\": // no\n 1}").substr(0, 34), "3 a.json:1: not JSON: invalid lite");
  EXPECT_EQ(refusal("[\"\xff\"]"),
            "3 a.json:1: not JSON: invalid string: ill-formed UTF-8 byte at column 3\n  [\"\\xff\"]\n    ^");
  EXPECT_NE(refusal("[\"\\ud800\"]").find("surrogate"), std::string::npos);
  EXPECT_NE(refusal(std::string("[\"a\0b\"]", 7)).find("control character"), std::string::npos);
}

TEST(Json, ErrorsAreSafeToPrint) {
  EXPECT_EQ(refusal("[\x1b]").find('\x1b'), std::string::npos);
  EXPECT_LT(refusal("{\"" + std::string(100000, 'x') + "\"}").size(), 400u);
  EXPECT_LT(refusal("[1 " + std::string(100000, 'x')).size(), 400u);
}

TEST(Json, NanAndInfinityByTheRules) {
  const std::string text =
      R"({"a": NaN, "b": [-Infinity, 1.5, Infinity, 0E0, "NaN \" NaN"], "c": {"d":NaN}})";
  EXPECT_THROW(parse_json(text, {"f"}), UserError);
  const Json null = parse_json(text, {"f"}, {.non_finite = NonFinite::null});
  EXPECT_EQ(null.dump(), R"({"a":null,"b":[null,1.5,null,0.0,"NaN \" NaN"],"c":{"d":null}})");
  const Json kept = parse_json(text, {"f"}, {.non_finite = NonFinite::kept});
  EXPECT_TRUE(std::isnan(kept["a"].get<double>()));
  EXPECT_TRUE(std::isnan(kept["c"]["d"].get<double>()));
  EXPECT_EQ(kept["b"][0], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(kept["b"][1], 1.5);
  EXPECT_EQ(kept["b"][2], std::numeric_limits<double>::infinity());
  EXPECT_EQ(kept["b"][3], 0.0);
  EXPECT_EQ(json_excerpt(kept["b"][0]), "-Infinity");
  EXPECT_EQ(parse_json("NaN", {"f"}, {.non_finite = NonFinite::null}), nullptr);
  // The message shows NaN and x with the text's spelling.
  const std::string what = refusal("[NaN, x]", {.non_finite = NonFinite::kept});
  EXPECT_TRUE(what.ends_with(" at column 7\n  [NaN, x]\n        ^")) << what;
}

TEST(Json, LimitsDepthAndSize) {
  const std::string deep(100000, '[');
  EXPECT_EQ(refusal(deep).substr(0, 54), "3 a.json:1: nested more than 64 deep at column 65\n  [[");
  EXPECT_EQ(refusal("[[1]]", {.max_depth = 1}).substr(0, 31), "3 a.json:1: nested more than 1 ");
  EXPECT_EQ(refusal("[1, 2]", {.max_bytes = 5}), "3 a.json: is 6 bytes of JSON; at most 5 are read");
}

TEST(Json, EqualKeys) {
  EXPECT_EQ(refusal("{\"a\": 1,\n \"b\": {\"a\": 2}, \"a\": 3}", {.exit = Exit::config}),
            "2 a.json:2: the key \"a\" appears twice, again at column 18\n   \"b\": {\"a\": 2}, \"a\": 3}\n"
            "                   ^");
  const Json last =
      parse_json(R"({"a": {"x": 1}, "b": 2, "a": {"y": 3}})", {"a.json"}, {.unique_keys = false});
  EXPECT_EQ(last.dump(), R"({"a":{"y":3},"b":2})");
}

TEST(Json, WritesAsHuggingFaceDoes) {
  EXPECT_EQ(json_text(Json{{"b", {1, 2}}, {"a", Json::object()}, {"e", 1e-05}, {"u", "\xC3\xA4"}}),
            "{\n  \"b\": [\n    1,\n    2\n  ],\n  \"a\": {},\n  \"e\": 1e-05,\n  \"u\": \"\\u00e4\"\n}");
  EXPECT_THROW(json_text(Json{{"a", {{"b", std::nan("")}}}}), InternalError);
  EXPECT_THROW(json_text(Json(INFINITY)), InternalError);
}

TEST(Json, NumbersRoundTrip) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const auto bits = random();
    const double v = std::bit_cast<double>(bits);
    if (!std::isfinite(v)) continue;
    const Json back = parse_json(json_text(Json{v}, -1), {"a.json"});
    ASSERT_EQ(std::bit_cast<std::uint64_t>(back[0].get<double>()), bits);
  }
  EXPECT_EQ(parse_json("[9223372036854775807, -9223372036854775808, 18446744073709551615]", {"a"}).dump(),
            "[9223372036854775807,-9223372036854775808,18446744073709551615]");
}

TEST(JsonObject, GettersSayFileAndKey) {
  const auto o = JsonObject::parse(
      R"({"hidden_size": "abc", "n": 4, "f": 1.5, "neg": -3, "big": 18446744073709551615, "no": null,
          "list": [1, 2], "words": ["a", "b"], "rope": {"factor": 0, "deep": [[1]]}, "on": true})",
      {"models/x/config.json"});
  const auto says = [&](const auto& f) { return error_of(f); };
  EXPECT_EQ(says([&] { o.positive("hidden_size"); }),
            "3 models/x/config.json: hidden_size must be a positive integer, is \"abc\"");
  EXPECT_EQ(says([&] { o.positive("no"); }),
            "3 models/x/config.json: has no no; it must be a positive integer");
  EXPECT_EQ(says([&] { o.positive("neg"); }),
            "3 models/x/config.json: neg must be a positive integer, is -3");
  EXPECT_EQ(says([&] { o.positive("f"); }), "3 models/x/config.json: f must be a positive integer, is 1.5");
  EXPECT_EQ(says([&] { o.integer("n", 0, 3); }),
            "3 models/x/config.json: n must be an integer from 0 to 3, is 4");
  EXPECT_EQ(says([&] { o.positive("big"); }),
            "3 models/x/config.json: big must be a positive integer, is 18446744073709551615");
  EXPECT_EQ(says([&] { o.boolean("n"); }), "3 models/x/config.json: n must be true or false, is 4");
  EXPECT_EQ(says([&] { o.text("list"); }), "3 models/x/config.json: list must be a string, is [1,2]");
  EXPECT_EQ(says([&] { o.texts("list"); }),
            "3 models/x/config.json: list must be an array of strings, is [1,2]");
  EXPECT_EQ(says([&] { o.object("rope").positive_number_or("factor", 1); }),
            "3 models/x/config.json: rope.factor must be a number above 0, is 0");
  EXPECT_EQ(says([&] { o.object("rope").integers("deep"); }),
            "3 models/x/config.json: rope.deep must be an array of integers, is an array of 1");
  EXPECT_EQ(says([&] { o.object("n"); }), "3 models/x/config.json: n must be an object, is 4");
  EXPECT_EQ(says([&] { o.text("rope"); }),
            "3 models/x/config.json: rope must be a string, is an object of 2 keys");

  EXPECT_EQ(o.positive("n"), 4);
  EXPECT_EQ(o.integer_or("none", 7, 0), 7);
  EXPECT_EQ(o.integer_or("no", 7, 0), 7);
  EXPECT_EQ(o.number("n"), 4.0);
  EXPECT_EQ(o.number_or("f", 2), 1.5);
  EXPECT_TRUE(o.boolean("on"));
  EXPECT_EQ(o.text_or("none", "x"), "x");
  EXPECT_EQ(o.texts("words"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(o.integers("n"), (std::vector<std::int64_t>{4}));
  EXPECT_EQ(o.integers("list"), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(o.object("rope").keys(), (std::vector<std::string>{"factor", "deep"}));
  EXPECT_FALSE(o.has("no"));
  EXPECT_TRUE(o.is_text("hidden_size") && o.is_array("list") && o.is_object("rope") && o.is_bool("on"));
}

TEST(JsonObject, ReadsFiles) {
  const test::TempFolder folder;
  EXPECT_EQ(JsonObject::read(folder.write("a.json", "{\"a\": 1}")).integer("a", 0), 1);
  EXPECT_EQ(error_of([&] { JsonObject::read(folder.write("b.json", "[1]")); }),
            "3 " + folder / "b.json" + ": must be a JSON object, is [1]");
  EXPECT_EQ(error_of([&] { JsonObject::read(folder / "c.json", {.exit = Exit::config}); }),
            "2 " + folder / "c.json" + ": cannot be read: No such file or directory");
}

// Any bytes give a value or a UserError.
TEST(Json, RandomDamageNeverCrashes) {
  const std::string good =
      R"({"a": [1, 2.5e3, -7, {"b": "text \u00e4 \n"}], "c": null, "d": {"e": true, "f": [[[]]]}, "a2": ""})";
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string text = good;
    for (unsigned n = random() % 4 + 1; n > 0; --n) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 8);
          break;
        default:
          text.insert(at, good.substr(random() % good.size(), random() % 8));
      }
      if (text.empty()) text = "x";
    }
    try {
      json_text(parse_json(text, {"a.json"}));
    } catch (const UserError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 2500);
}

}  // namespace
}  // namespace ft
