#include "app/serve/fields.h"

#include <algorithm>

#include "app/serve/api_error.h"

namespace ft {

const Json* Fields::find(const char* key) {
  known_.insert(key);
  const auto at = json_.find(key);
  return at == json_.end() || at->is_null() ? nullptr : &*at;
}

void Fields::refuse(const char* key, const std::string& why) {
  throw ApiError(400, str(key, ": ", why), key);
}

std::optional<double> Fields::number(const char* key, double least, double most) {
  const Json* v = find(key);
  if (!v) return std::nullopt;
  if (!v->is_number() || v->get<double>() < least || v->get<double>() > most)
    refuse(key, str("must be a number from ", least, " to ", most, ", is ", json_excerpt(*v)));
  return v->get<double>();
}

std::optional<std::int64_t> Fields::integer(const char* key, std::int64_t least, std::int64_t most) {
  const Json* v = find(key);
  if (!v) return std::nullopt;
  const bool whole = v->is_number_unsigned() ? v->get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                                             : v->is_number_integer() && v->get<std::int64_t>() <= most;
  if (!whole || v->get<std::int64_t>() < least)
    refuse(key, str("must be an integer from ", least, " to ", most, ", is ", json_excerpt(*v)));
  return v->get<std::int64_t>();
}

bool Fields::flag(const char* key, bool usual) {
  const Json* v = find(key);
  if (v && !v->is_boolean()) refuse(key, "must be true or false, is " + json_excerpt(*v));
  return v ? v->get<bool>() : usual;
}

void Fields::neutral(const char* key, const std::vector<Json>& values, const std::string& instead) {
  const Json* v = find(key);
  if (v && std::find(values.begin(), values.end(), *v) == values.end())
    refuse(key, "not available here" + instead);
}

void Fields::refuse_unknown() const {
  for (const auto& [key, value] : json_.items())
    if (!known_.contains(key))
      throw ApiError(400, "unrecognized request argument: " + printable(key, 60), printable(key, 60));
}

}  // namespace ft
