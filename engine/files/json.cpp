// Reading settings from a JSON tree, and writing trees.
#include "engine/files/json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace ft {
namespace {

bool finite(const Json& v) {
  if (v.is_number_float()) return std::isfinite(v.get<double>());
  for (const auto& inner : v)
    if (inner.is_structured() || inner.is_number_float()) {
      if (!finite(inner)) return false;
    }
  return true;
}

// Python writes 1.0 as 5 or 5.0, so a number without a fraction is an integer.
bool to_integer(const Json& v, std::int64_t min, std::int64_t max, std::int64_t& out) {
  if (v.is_number_unsigned()) {
    const auto u = v.get<std::uint64_t>();
    if (u > static_cast<std::uint64_t>(JsonObject::kMaxInt)) return false;
    out = static_cast<std::int64_t>(u);
  } else if (v.is_number_integer()) {
    out = v.get<std::int64_t>();
  } else {
    return false;
  }
  return min <= out && out <= max;
}

std::string integer_kind(std::int64_t min, std::int64_t max) {
  const bool bounded = max != JsonObject::kMaxInt;
  if (min == 1 && !bounded) return "a positive integer";
  if (bounded) return str("an integer from ", min, " to ", max);
  return min == std::numeric_limits<std::int64_t>::min() ? "an integer" : str("an integer of at least ", min);
}

}  // namespace

Json finite_or_null(double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); }

std::string json_text(const Json& value, int indent) {
  require(finite(value), "NaN or Inf cannot be written as JSON");
  return value.dump(indent, ' ', true, Json::error_handler_t::replace);
}

std::string json_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return Json(value).dump();
}

std::string json_excerpt(const Json& value) {
  if (value.is_object()) return str("an object of ", value.size(), value.size() == 1 ? " key" : " keys");
  if (value.is_array() && value.size() > 8) return str("an array of ", value.size());
  if (value.is_array())
    for (const auto& item : value)
      if (item.is_structured()) return str("an array of ", value.size());
  if (value.is_number_float()) return json_number(value.get<double>());
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace), 80);
}

JsonObject::JsonObject(std::shared_ptr<const Json> root, const Json* node, std::string file, std::string path,
                       Exit exit)
    : root_(std::move(root)), node_(node), file_(std::move(file)), path_(std::move(path)), exit_(exit) {}

JsonObject JsonObject::read(const std::string& path, const JsonRules& rules) {
  auto root = std::make_shared<const Json>(read_json(path, rules));
  if (!root->is_object())
    throw UserError(rules.exit, str(printable(path), ": must be a JSON object, is ", json_excerpt(*root)));
  const Json* node = root.get();
  return {std::move(root), node, path, "", rules.exit};
}

JsonObject JsonObject::parse(std::string_view text, const JsonSource& source, const JsonRules& rules) {
  auto root = std::make_shared<const Json>(parse_json(text, source, rules));
  if (!root->is_object())
    throw UserError(rules.exit, str(printable(source.file), ":", source.first_line,
                                    ": must be a JSON object, is ", json_excerpt(*root)));
  const Json* node = root.get();
  return {std::move(root), node, source.file, "", rules.exit};
}

const Json* JsonObject::find(std::string_view key) const {
  const auto& members = *node_->get_ptr<const Json::object_t*>();
  for (const auto& [name, value] : members)
    if (name == key) return value.is_null() ? nullptr : &value;
  return nullptr;
}

const Json& JsonObject::at(std::string_view key, std::string_view must_be) const {
  const Json* v = find(key);
  if (v == nullptr) refuse(key, must_be);
  return *v;
}

void JsonObject::refuse(std::string_view key, std::string_view must_be) const {
  const Json* v = find(key);
  const std::string name = printable(path_ + std::string(key));
  if (v == nullptr)
    throw UserError(exit_, str(printable(file_), ": has no ", name, "; it must be ", must_be));
  throw UserError(exit_, str(printable(file_), ": ", name, " must be ", must_be, ", is ", json_excerpt(*v)));
}

bool JsonObject::has(std::string_view key) const { return find(key) != nullptr; }
bool JsonObject::is_text(std::string_view key) const {
  const Json* v = find(key);
  return v != nullptr && v->is_string();
}
bool JsonObject::is_array(std::string_view key) const {
  const Json* v = find(key);
  return v != nullptr && v->is_array();
}
bool JsonObject::is_object(std::string_view key) const {
  const Json* v = find(key);
  return v != nullptr && v->is_object();
}
bool JsonObject::is_bool(std::string_view key) const {
  const Json* v = find(key);
  return v != nullptr && v->is_boolean();
}
bool JsonObject::is_number(std::string_view key) const {
  const Json* v = find(key);
  return v != nullptr && v->is_number();
}

std::int64_t JsonObject::integer(std::string_view key, std::int64_t min, std::int64_t max) const {
  std::int64_t out = 0;
  const std::string kind = integer_kind(min, max);
  if (!to_integer(at(key, kind), min, max, out)) refuse(key, kind);
  return out;
}
std::int64_t JsonObject::integer_or(std::string_view key, std::int64_t fallback, std::int64_t min,
                                    std::int64_t max) const {
  return has(key) ? integer(key, min, max) : fallback;
}

double JsonObject::number(std::string_view key) const {
  const Json& v = at(key, "a number");
  if (!v.is_number()) refuse(key, "a number");
  return v.get<double>();
}
double JsonObject::number_or(std::string_view key, double fallback) const {
  return has(key) ? number(key) : fallback;
}
double JsonObject::positive_number_or(std::string_view key, double fallback) const {
  if (!has(key)) return fallback;
  if (!is_number(key) || number(key) <= 0) refuse(key, "a number above 0");
  return number(key);
}

bool JsonObject::boolean(std::string_view key) const {
  const Json& v = at(key, "true or false");
  if (!v.is_boolean()) refuse(key, "true or false");
  return v.get<bool>();
}
bool JsonObject::boolean_or(std::string_view key, bool fallback) const {
  return has(key) ? boolean(key) : fallback;
}

std::string JsonObject::text(std::string_view key) const {
  const Json& v = at(key, "a string");
  if (!v.is_string()) refuse(key, "a string");
  return v.get<std::string>();
}
std::string JsonObject::text_or(std::string_view key, const std::string& fallback) const {
  return has(key) ? text(key) : fallback;
}

std::vector<std::string> JsonObject::texts(std::string_view key) const {
  const Json& v = at(key, "an array of strings");
  std::vector<std::string> out;
  if (!v.is_array()) refuse(key, "an array of strings");
  for (const auto& item : v) {
    if (!item.is_string()) refuse(key, "an array of strings");
    out.push_back(item.get<std::string>());
  }
  return out;
}

std::vector<std::int64_t> JsonObject::integers(std::string_view key) const {
  static constexpr auto kMin = std::numeric_limits<std::int64_t>::min();
  const Json& v = at(key, "an array of integers");
  std::vector<std::int64_t> out(1);
  if (to_integer(v, kMin, kMaxInt, out[0])) return out;
  if (!v.is_array()) refuse(key, "an array of integers");
  out.resize(v.size());
  for (std::size_t i = 0; i < v.size(); ++i)
    if (!to_integer(v[i], kMin, kMaxInt, out[i])) refuse(key, "an array of integers");
  return out;
}

std::vector<double> JsonObject::numbers(std::string_view key) const {
  const Json& v = at(key, "an array of numbers");
  std::vector<double> out;
  if (!v.is_array()) refuse(key, "an array of numbers");
  for (const auto& item : v) {
    if (!item.is_number()) refuse(key, "an array of numbers");
    out.push_back(item.get<double>());
  }
  return out;
}

JsonObject JsonObject::object(std::string_view key) const {
  const Json& v = at(key, "an object");
  if (!v.is_object()) refuse(key, "an object");
  return {root_, &v, file_, path_ + std::string(key) + ".", exit_};
}

std::vector<JsonObject> JsonObject::objects(std::string_view key) const {
  const Json& v = at(key, "an array of objects");
  std::vector<JsonObject> out;
  if (!v.is_array()) refuse(key, "an array of objects");
  for (const auto& item : v) {
    if (!item.is_object()) refuse(key, "an array of objects");
    out.push_back({root_, &item, file_, str(path_, key, "[", out.size(), "]."), exit_});
  }
  return out;
}

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> out;
  for (const auto& [name, value] : *node_->get_ptr<const Json::object_t*>()) out.push_back(name);
  return out;
}

}  // namespace ft
