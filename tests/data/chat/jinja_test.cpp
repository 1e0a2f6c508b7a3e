// Templates against the output of transformers' Jinja (tests/golden/make_templates.py), and hostile
// templates.
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "data/chat/jinja/template.h"
#include "data/chat/jinja/text.h"
#include "engine/core/error.h"
#include "engine/files/file.h"
#include "engine/files/json.h"
#include "tests/support/source.h"

namespace ft::jinja {
namespace {

constexpr std::time_t kNow = 1'700'000'000;

Json golden(const std::string& name) {
  return read_json(source_path("tests/golden/templates/" + name), {.max_bytes = std::size_t{1} << 24});
}
std::string source_of(const std::string& name) {
  return read_file(source_path("tests/golden/templates/" + name), 1 << 20);
}

const char* const kMessages =
    R"([{"role": "user", "content": "Hi you"}, {"role": "assistant", "content": "Yo"},
                                  {"role": "user", "content": "So: bye"}])";

Template::Variables variables(const Json& messages = Json::parse(kMessages), const Json& tools = {},
                              const Json& documents = {}, bool prompt = true) {
  return {{"messages", Value::of(messages)},   {"tools", Value::of(tools)},
          {"documents", Value::of(documents)}, {"add_generation_prompt", Value::Any(prompt)},
          {"bos_token", Value::text("<s>")},   {"eos_token", Value::text("</s>")}};
}

// Returns the rendered text, or "line N: what" of an error.
std::string rendered(const std::string& source, const Limits& limits = {}) {
  try {
    return Template(source).render(variables(), kNow, limits).text;
  } catch (const Error& wrong) {
    return "line " + std::to_string(wrong.line) + ": " + wrong.what();
  }
}
bool refused(const std::string& source) {
  try {
    (void)Template(source).render(variables(), kNow);
  } catch (const Error&) {
    return true;
  }
  return false;
}

TEST(Jinja, WritesTheSameAsTransformers) {
  for (const Json& pair : golden("expressions.json")) {
    const std::string source = pair[0];
    if (pair[1].is_null())
      EXPECT_TRUE(refused(source)) << source << "\n" << rendered(source);
    else
      EXPECT_EQ(rendered(source), pair[1].get<std::string>()) << source;
  }
}

TEST(Jinja, ConversationsAndGeneratedSpans) {
  for (const Json& group : golden("chats.json")) {
    const Template t(source_of(group["template"]));
    for (const Json& row : group["rows"]) {
      const auto given =
          variables(row["messages"], row["tools"], row["documents"], row["add_generation_prompt"]);
      if (row["text"].is_null()) {
        EXPECT_THROW((void)t.render(given, kNow), Error) << row.dump();
        continue;
      }
      const Rendering r = t.render(given, kNow);
      EXPECT_EQ(r.text, row["text"].get<std::string>()) << row.dump();
      Json spans = Json::array();  // in characters, as Python counts
      for (const auto& [begin, end] : r.generated)
        spans.push_back({length_of(std::string_view(r.text).substr(0, begin)),
                         length_of(std::string_view(r.text).substr(0, end))});
      EXPECT_EQ(spans, row["spans"]) << row.dump();
    }
  }
}

// Returns the hash that digits() of make_structures.py computes of a rendering and its generated spans.
std::string digits(const Rendering& r) {
  std::string all = r.text;
  const auto characters = [&](std::size_t end) { return length_of(std::string_view(r.text).substr(0, end)); };
  for (const auto& [begin, end] : r.generated) all += str(characters(begin), ":", characters(end), " ");
  std::uint32_t hash = 0x811C9DC5;
  for (const char c : all) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193;
  char out[8];
  std::snprintf(out, sizeof out, "%04x", hash & 0xFFFF);
  return out;
}

TEST(Jinja, FiftyStructuresOfTemplatesByTwoHundredChats) {
  const Json all = golden("structures.json");
  std::vector<Template::Variables> chats;
  for (const Json& chat : all["chats"]) {
    Json tools;
    if (!chat["tools"].is_null()) {
      tools = Json::array();
      for (std::size_t k = 0; k < chat["tools"].get<std::size_t>(); ++k) tools.push_back(all["tools"][k]);
    }
    chats.push_back(variables(chat["messages"], tools, chat["documents"], chat["add_generation_prompt"]));
  }
  EXPECT_EQ(chats.size() * all["templates"].size(), 10'000u);
  for (std::size_t i = 0; i < all["templates"].size(); ++i) {
    const Template t(all["templates"][i].get<std::string>());
    const std::string want = all["hashes"][i];
    for (std::size_t j = 0; j < chats.size(); ++j) {
      std::string got = "----";
      try {
        got = digits(t.render(chats[j], kNow));
      } catch (const Error&) {
      }
      ASSERT_EQ(got, want.substr(4 * j, 4)) << "template " << i << ", chat " << all["chats"][j].dump();
    }
  }
}

TEST(Jinja, ErrorsSayTheLine) {
  EXPECT_EQ(rendered("a\n{{ x.y }}"), "line 2: 'x', which is undefined, is used");
  EXPECT_EQ(rendered("{% for m in messages %}\n\n{{ raise_exception('No ' ~ m.role) }}{% endfor %}"),
            "line 3: No user");
  EXPECT_EQ(rendered("\n{{ 1 | shout }}"), "line 2: there is no filter shout");
  EXPECT_EQ(rendered("\n{% include 'x' %}"), "line 2: include: a chat template cannot read other templates");
  EXPECT_EQ(rendered("{{ lipsum() }}"),
            "line 1: lipsum: its text is random; a rendering must be the same each time");
  EXPECT_EQ(rendered("{% for m in messages %}\n"),
            "line 1: a block is not closed: the template ends without {% endfor %}");
  EXPECT_EQ(rendered("{{ 9223372036854775807 + 1 }}"), "line 1: a number of more than 64 bits");
  EXPECT_EQ(rendered("\xFF"), "line 1: it is not UTF-8");
  EXPECT_EQ(rendered("{{ messages[0,, 1] }}"), "line 1: expected a value, but , stands");
  EXPECT_EQ(rendered("{{ messages[,] }}"), "line 1: expected a value, but , stands");
  EXPECT_EQ(rendered("{{ none | map('upper') | list }}{{ 2.5 is odd }}{{ 3.0 is odd }}"), "[]FalseTrue");
}

TEST(Jinja, ABlockInAMacroHasNoPlace) {
  const Template t("{% macro m() %}{% generation %}x{% endgeneration %}{% endmacro %}{{ m() }}");
  const Rendering r = t.render(variables(), kNow);
  EXPECT_EQ(r.text, "x");
  EXPECT_FALSE(r.marks);
}

TEST(Jinja, Limits) {
  const auto limited = [](const std::string& source, const char* why) {
    const std::string said = rendered(source, {.steps = 700'000});
    EXPECT_NE(said.find(why), std::string::npos) << source.substr(0, 100) << "\n" << said;
  };
  const std::string long_loop =
      "{% for a in range(99999) %}{% for b in range(99999) %}{% set x = a %}{% endfor %}{% endfor %}";
  limited(long_loop, "steps");
  limited("{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}", "too deep");
  limited("{{ 'abcdefgh' * (10 ** 12) }}", "memory");
  limited("{{ [1, 2] * (10 ** 12) }}", "memory");
  limited("{% set ns = namespace(s='xx') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
          "memory");
  limited("{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
          "memory");
  limited("{% set ns = namespace(s=[]) %}{% for i in range(9999) %}{% set ns.s = [ns.s] %}{% endfor %}",
          "deep");
  limited("{% set ns = namespace() %}{% set ns.s = ns %}{{ ns }}", "too deep");
  limited("{% set ns = namespace() %}{% set ns.s = [ns] %}{{ ns.s == [[ns]] }}{{ ns.s | tojson }}", "tojson");
  limited("{{ 'x'.center(10 ** 12) }}", "memory");
  limited("{{ '%099999999d' | format(1) }}", "memory");
  limited("{{ '{:>99999999}'.format(1) }}", "memory");
  limited("{{ 'aaaaaaaa'.replace('a', 'b' * 4000000) }}", "memory");
  limited("{{ ('a' * 100000) | join('b' * 100000) }}", "memory");
  limited("{{ [1] | batch(10 ** 15, 0) | list }}", "memory");
  limited("{{ [1] | slice(10 ** 15) | list }}", "memory");
  limited("{{ ('a ' * 4000000).split() | length }}", "memory");
  limited("{% for i in range(99999) %}{% macro m() %}{% endmacro %}{% endfor %}", "memory");
  limited("{% for i in range(99999) %}{% set n = namespace() %}{% endfor %}", "memory");
  // few steps on long texts: reading a text counts as work
  const auto long_work = [&](const std::string& once) {
    const std::string set = "{% set t = 'ab' * 15000 %}{% set u = t ~ '' %}";
    EXPECT_EQ(rendered(set, {.steps = 4'000}), "");
    const std::string said =
        rendered(set + "{% for i in range(20) %}{% set x = " + once + " %}{% endfor %}", {.steps = 4'000});
    EXPECT_NE(said.find("steps"), std::string::npos) << once << ": " << said;
  };
  for (const char* once : {"t | length",
                           "t == u",
                           "t < u",
                           "t in [u]",
                           "t.find('b' * 9000 ~ 'c')",
                           "t.count('c', 1)",
                           "'c' in t",
                           "t.isalpha()",
                           "t.strip('a' * 9000 ~ 'b') | length",
                           "t.splitlines() | length",
                           "t is lower",
                           "{'a': 1}[t]",
                           "{'a': 1}.get(t)",
                           "t[3]",
                           "t[1:2]",
                           "t.startswith('b', 1)",
                           "t | wordcount",
                           "t.split('c') | length",
                           "t.partition('c') | length",
                           "t.format(1) | length",
                           "t.replace('ca', 'b') | length"})
    long_work(once);
  limited("{{ " + std::string(100'000, '(') + "1" + std::string(100'000, ')') + " }}", "too deep");
  limited("{{ " + std::string(100'000, '[') + "1" + std::string(100'000, ']') + " }}", "too deep");
  limited("{{ " + std::string(100'000, '-') + "1 }}", "too deep");
  std::string chain = "{{ 1", nots = "{{ ", blocks, dots = "{{ x", filters = "{{ 1", elifs = "{% if 0 %}";
  for (int i = 0; i < 20'000; ++i) {
    chain += " + 1";
    nots += "not ";
    blocks += "{% if 1 %}";
    dots += ".x";
    filters += " | abs";
    elifs += "{% elif 0 %}";
  }
  limited(chain + " }}", "too many parts");
  limited(nots + "1 }}", "too deep");
  limited(blocks, "too deep");
  limited(dots + " }}", "too many parts");
  limited(filters + " }}", "too many parts");
  EXPECT_EQ(rendered(elifs + "{% endif %}x"), "x");
}

// Templates with bytes changed, removed, doubled or copied from other templates are rendered or refused.
TEST(Jinja, MutatedTemplates) {
  std::vector<std::string> seeds;
  for (const Json& group : golden("chats.json")) seeds.push_back(source_of(group["template"]));
  for (const Json& pair : golden("expressions.json")) seeds.push_back(pair[0]);
  std::uint64_t state = 1;
  const auto random = [&](std::size_t below) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return static_cast<std::size_t>(state >> 33) % std::max<std::size_t>(below, 1);
  };
  const Limits small{.steps = 20'000, .bytes = 1 << 20, .depth = 400};
  std::size_t written = 0;
  for (int i = 0; i < 10'000; ++i) {
    std::string text = seeds[random(seeds.size())];
    for (std::size_t change = 1 + random(4); change > 0 && !text.empty(); --change) {
      const std::size_t at = random(text.size()), length = random(20);
      const std::string& other = seeds[random(seeds.size())];
      switch (random(5)) {
        case 0:
          text[at] = "{}%()[]|.,:'\"~*-+ \n0az"[random(23)];
          break;
        case 1:
          text.erase(at, length);
          break;
        case 2:
          text.insert(at, text.substr(at, length));
          break;
        default:
          text.insert(at, other.substr(random(other.size() + 1), 2 * length));
      }
    }
    try {
      written += Template(text).render(variables(), kNow, small).text.size();
    } catch (const Error& wrong) {
      EXPECT_GE(wrong.line, 1);
    }
  }
  EXPECT_GT(written, 0u);
}

}  // namespace
}  // namespace ft::jinja
