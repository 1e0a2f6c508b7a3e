// The schema of a configuration accepts the same values as the reader, for each setting, and every file in
// configs/.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "app/config/config.h"
#include "app/config/schema.h"
#include "engine/files/json.h"
#include "engine/settings/fields.h"
#include "tests/support/source.h"

namespace ft {
namespace {

bool has_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  EXPECT_EQ(type, "integer");
  return value.is_number() && value.get<double>() == std::floor(value.get<double>());
}

// Validates `value` against the subset of JSON Schema draft-07 that ft's schema uses. Fails the test for any
// other keyword.
bool valid(const Json& value, const Json& schema) {
  const auto any = [&](const Json& list, const auto& holds) {
    return std::any_of(list.begin(), list.end(), holds);
  };
  const auto bound = [&](const Json& limit, const auto& holds) {
    return !value.is_number() || holds(value.get<double>(), limit.get<double>());
  };
  for (const auto& [word, rule] : schema.items()) {
    bool ok = true;
    if (word == "type")
      ok = has_type(value, rule);
    else if (word == "enum")
      ok = any(rule, [&](const Json& one) { return one == value; });
    else if (word == "anyOf")
      ok = any(rule, [&](const Json& one) { return valid(value, one); });
    else if (word == "minimum")
      ok = bound(rule, std::greater_equal<>());
    else if (word == "maximum")
      ok = bound(rule, std::less_equal<>());
    else if (word == "exclusiveMinimum")
      ok = bound(rule, std::greater<>());
    else if (word == "exclusiveMaximum")
      ok = bound(rule, std::less<>());
    else if (word == "minLength")
      ok = !value.is_string() || value.get<std::string>().size() >= rule.get<std::size_t>();
    else if (word == "minItems")
      ok = !value.is_array() || value.size() >= rule.get<std::size_t>();
    else if (word == "items")
      ok = !value.is_array() || !any(value, [&](const Json& one) { return !valid(one, rule); });
    else if (word == "required")
      ok = !any(rule, [&](const Json& name) { return !value.contains(name.get<std::string>()); });
    else if (word == "additionalProperties") {
      for (const auto& [key, member] : value.items())
        if (!schema.contains("properties") || !schema["properties"].contains(key))
          ok = ok && (rule.is_object() ? valid(member, rule) : rule.get<bool>());
    } else if (word == "properties") {
      for (const auto& [key, member] : value.items())
        if (rule.contains(key)) ok = ok && valid(member, rule[key]);
    } else {
      EXPECT_TRUE(word == "$schema" || word == "title" || word == "description" || word == "default") << word;
    }
    if (!ok) return false;
  }
  return true;
}

Json schema() { return Json::parse(config_schema()); }

Json smallest() {
  return Json::parse(R"({"model": {"model_name_or_path": "m"}, "data": {"datasets": [{"path": "d"}]}})");
}

// Returns true if the reader accepts the configuration's settings.
bool is_read(const Json& config) {
  try {
    read_settings<RunConfig>(parse_settings(config.dump(), "run.json"), "");
    return true;
  } catch (const UserError&) {
    return false;
  }
}

// Returns the smallest configuration with one more setting; "data.datasets[].weight" sets the weight of the
// first dataset.
Json with_setting(std::string path, const Json& value) {
  if (const auto at = path.find("[]."); at != path.npos) path.replace(at, 3, ".0.");
  SettingsText tree{smallest(), {}, ""};
  if (path.starts_with("data.eval_datasets.0"))
    tree.value["data"]["eval_datasets"] = tree.value["data"]["datasets"];
  put_setting(tree, path, value, 0, path);
  return tree.value;
}

TEST(ConfigSchema, AcceptsTheFilesThatTheReaderAccepts) {
  const Json whole = schema();
  const std::vector<std::string> samples{"null",
                                         "true",
                                         "false",
                                         "-1",
                                         "0",
                                         "0.5",
                                         "1",
                                         "3",
                                         "3.5",
                                         "64",
                                         "100000",
                                         "1e-9",
                                         "\"\"",
                                         "\"auto\"",
                                         "\"none\"",
                                         "\"no such word\"",
                                         "[]",
                                         "[1]",
                                         "[-1]",
                                         "[\"a\"]",
                                         "{}",
                                         "{\"a\": 1}",
                                         "{\"a\": \"b\"}"};
  int settings = 0;
  for (const Setting& s : describe<RunConfig>()) {
    ++settings;
    std::vector<Json> values;
    for (const std::string& text : samples) values.push_back(Json::parse(text));
    for (const auto* words : {&s.rules.choices, &s.rules.synonyms, &s.rules.later})
      for (const std::string& word : *words)
        if (word != "true" && word != "false") values.emplace_back(word);
    if (!s.rules.required) values.push_back(s.fallback);
    for (const Json& value : values) {
      const Json config = with_setting(s.path, value);
      EXPECT_EQ(valid(config, whole), is_read(config)) << s.path << " = " << value;
    }
  }
  EXPECT_GT(settings, 150);
}

TEST(ConfigSchema, RefusesUnknownSettings) {
  const Json whole = schema();
  ASSERT_TRUE(valid(smallest(), whole));
  for (const Setting& s : describe<RunConfig>())
    EXPECT_FALSE(valid(with_setting(s.path + "x", s.fallback), whole)) << s.path;
  for (const char* section : {"model", "data"}) {
    Json config = smallest();
    config.erase(section);
    EXPECT_FALSE(valid(config, whole)) << section;
  }
}

// Every setting has a description and a default, which editors show.
TEST(ConfigSchema, EverySettingIsDescribed) {
  const Json whole = schema();
  for (const Setting& s : describe<RunConfig>()) {
    std::string pointer = "/properties/" + s.path;
    for (const auto& [from, to] : {std::pair{"[].", "/items/properties/"}, std::pair{".", "/properties/"}})
      for (std::size_t at; (at = pointer.find(from)) != pointer.npos;)
        pointer.replace(at, std::string(from).size(), to);
    if (s.path.starts_with("data.eval_datasets[]"))
      pointer.replace(pointer.find("/items"), 6, "/anyOf/0/items");
    const Json::json_pointer at(pointer);
    ASSERT_TRUE(whole.contains(at)) << pointer;
    EXPECT_EQ(whole[at]["description"], s.help);
    if (s.type != "section" && !s.rules.required) {
      EXPECT_EQ(whole[at]["default"], s.fallback) << s.path;
    }
  }
}

TEST(ConfigSchema, TakesEveryConfigurationHere) {
  const Json whole = schema();
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_path("configs"))) {
    if (entry.path().extension() != ".json") continue;
    const Json config = read_json(entry.path().string());
    if (!config.contains("data")) continue;  // a model's configuration, not a run's
    EXPECT_TRUE(valid(config, whole)) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 8);
}

}  // namespace
}  // namespace ft
