// A JSON Schema (draft-07) of a config struct, from the list of fields that also reads it (fields.h). The
// schema allows the values that the reader accepts for each setting; it has no rules between settings.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/settings/fields.h"

namespace ft {

struct SchemaWriter : Members<SchemaWriter> {
  Json properties = Json::object(), required = Json::array();

  template <class T>
  void member(const char* name, T& value, const char* help, const Rules& rules) {
    const Json fallback = Reader::write(value, rules);
    Json schema = rules.only_default ? only(fallback) : of(value, rules);
    schema["description"] = help;
    if (rules.required || (Section<T> && schema.contains("required")))
      required.push_back(name);
    else if (!Section<T>)
      schema["default"] = fallback;
    properties[name] = std::move(schema);
  }

  // Returns {"type": "object", ...} of the members visited so far.
  Json object() const;

  static Json of(bool, const Rules& rules);
  static Json of(std::int64_t, const Rules& rules);
  static Json of(double, const Rules& rules);
  static Json of(const std::string&, const Rules& rules);
  static Json of(const JsonText&, const Rules&) { return Json::object(); }
  static Json of(HasWords auto, const Rules& rules) { return of(std::string(), rules); }
  template <HasWords E>
  static Json of(const std::variant<E, std::string>&, const Rules& rules) {
    return of(std::string(), rules);
  }
  template <Section T>
  static Json of(T value, const Rules&) {
    SchemaWriter members;
    value.fields(members);
    return members.object();
  }
  template <class T>
  static Json of(const std::optional<T>&, const Rules& rules) {
    return either(of(T{}, rules), only(rules.or_auto ? Json("auto") : Json()));
  }
  template <class T>
  static Json of(const std::vector<T>&, const Rules& rules) {
    if constexpr (MapEntry<T>)
      return map(of(typename T::second_type{}, rules));
    else
      return list(of(T{}, rules), rules);
  }
  template <class T>
  static Json of(const std::map<std::string, T>&, const Rules& rules) {
    return map(of(T{}, rules));
  }
  template <class T>
  static Json of(const std::variant<std::string, std::vector<T>>&, const Rules& rules) {
    return either(of(std::string(), rules), list(of(T{}, rules), rules));
  }

 private:
  static Json only(const Json& value);               // allows only this value
  static Json either(const Json& a, const Json& b);  // allows the values of both
  static Json list(const Json& element, const Rules& rules);
  static Json map(const Json& element);
};

// Returns the complete schema of a configuration file.
template <Section T>
Json schema_of(const std::string& title) {
  Json schema{{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", title}};
  schema.update(SchemaWriter::of(T{}, {}));
  return schema;
}

}  // namespace ft
