#include "data/chat/jinja/arguments.h"

#include <algorithm>

#include "data/chat/jinja/compare.h"
#include "data/chat/jinja/print.h"
#include "engine/core/error.h"

namespace ft::jinja {

Bound::Bound(Machine& m, std::string_view function, const Arguments& arguments,
             std::initializer_list<std::string_view> names, std::size_t required)
    : m_(m), function_(function), names_(names), values_(names.size()) {
  if (arguments.values.size() > names.size())
    m.fail(str(function_, ": ", arguments.values.size(), " arguments; it takes ", names.size()));
  for (std::size_t i = 0; i < arguments.values.size(); ++i) values_[i] = arguments.values[i];
  for (const auto& [name, value] : arguments.named) {
    const auto it = std::find(names_.begin(), names_.end(), name);
    if (it == names_.end()) m.fail(str(function_, ": it has no argument ", printable(name, 40)));
    auto& place = values_[static_cast<std::size_t>(it - names_.begin())];
    if (place) m.fail(str(function_, ": the argument ", name, " is given twice"));
    place = value;
  }
  for (std::size_t i = 0; i < required; ++i)
    if (!values_[i]) m.fail(str(function_, ": the argument ", names_[i], " is missing"));
}

const Value& Bound::operator[](std::size_t i) const {
  static const Value nothing;
  return values_[i] ? *values_[i] : nothing;
}

void Bound::fail(std::size_t i, const char* must_be) const {
  m_.fail(str(function_, ": ", names_[i], " must be ", must_be, ", is ", type_of(*values_[i])));
}

std::int64_t Bound::integer(std::size_t i, std::int64_t otherwise) const {
  if (!values_[i]) return otherwise;
  const auto v = values_[i]->integer();
  if (!v) fail(i, "an integer");
  return *v;
}

bool Bound::flag(std::size_t i, bool otherwise) const { return values_[i] ? truth(*values_[i]) : otherwise; }

std::string Bound::text(std::size_t i, std::string_view otherwise) const {
  return values_[i] ? str_of(m_, *values_[i]) : std::string(otherwise);
}

}  // namespace ft::jinja
