#include "engine/settings/schema.h"

#include <cmath>

namespace ft {
namespace {

void limit(Json& schema, const Rules& rules) {
  const auto number = [](double v) {
    return v == std::floor(v) && std::abs(v) < 9e15 ? Json(static_cast<std::int64_t>(v)) : Json(v);
  };
  if (std::isfinite(rules.low))
    schema[rules.low_excluded ? "exclusiveMinimum" : "minimum"] = number(rules.low);
  if (std::isfinite(rules.high))
    schema[rules.high_excluded ? "exclusiveMaximum" : "maximum"] = number(rules.high);
}

bool is_enum(const Json& schema) { return schema.size() == 1 && schema.contains("enum"); }

}  // namespace

Json SchemaWriter::object() const {
  Json schema{{"type", "object"}, {"additionalProperties", false}};
  if (!required.empty()) schema["required"] = required;
  schema["properties"] = properties;
  return schema;
}

Json SchemaWriter::of(bool, const Rules&) { return {{"enum", {true, false}}}; }

Json SchemaWriter::of(std::int64_t, const Rules& rules) {
  Json schema{{"type", "integer"}};
  limit(schema, rules);
  return schema;
}

Json SchemaWriter::of(double, const Rules& rules) {
  Json schema{{"type", "number"}};
  limit(schema, rules);
  if (rules.whole_from_one) schema["anyOf"] = Json::array({{{"exclusiveMaximum", 1}}, {{"type", "integer"}}});
  return schema;
}

// Words that are booleans in JSON are listed as booleans.
Json SchemaWriter::of(const std::string&, const Rules& rules) {
  Json text{{"type", "string"}};
  if (rules.not_empty) text["minLength"] = 1;
  if (rules.choices.empty()) return text;
  Json words = Json::array();
  for (const auto* list : {&rules.choices, &rules.synonyms})
    for (const std::string& word : *list)
      words.push_back(word == "true" || word == "false" ? Json(word == "true") : Json(word));
  Json choices{{"enum", std::move(words)}};
  return rules.or_text ? either(choices, text) : choices;
}

Json SchemaWriter::only(const Json& value) { return {{"enum", Json::array({value})}}; }

Json SchemaWriter::either(const Json& a, const Json& b) {
  if (!is_enum(a) || !is_enum(b)) return {{"anyOf", Json::array({a, b})}};
  Json both = a;
  both["enum"].insert(both["enum"].end(), b["enum"].begin(), b["enum"].end());
  return both;
}

Json SchemaWriter::list(const Json& element, const Rules& rules) {
  Json schema{{"type", "array"}, {"items", element}};
  if (rules.not_empty) schema["minItems"] = 1;
  if (rules.or_one) schema = either(schema, element);
  return rules.or_null ? either(schema, only(nullptr)) : schema;
}

Json SchemaWriter::map(const Json& element) {
  return {{"type", "object"}, {"additionalProperties", element}};
}

}  // namespace ft
