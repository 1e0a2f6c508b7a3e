#include "data/chat/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "data/chat/jinja/object.h"
#include "engine/core/error.h"

namespace ft::jinja {

Value Value::undefined(std::string_view name) {
  return Any(Undefined{std::make_shared<const std::string>(name)});
}

Value Value::text(std::string bytes) { return Any(std::make_shared<const Text>(Text{std::move(bytes)})); }

Value Value::of(const Json& json) {
  if (json.is_null()) return Any(None{});
  if (json.is_boolean()) return Any(json.get<bool>());
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX)
    throw UserError(Exit::input, str("the number ", json.get<std::uint64_t>(),
                                     " is too large for a chat template; it takes 64 bits with a sign"));
  if (json.is_number_integer()) return Any(json.get<std::int64_t>());
  if (json.is_number()) return Any(json.get<double>());
  if (json.is_string()) return text(json.get<std::string>());
  if (json.is_object()) {
    auto dict = std::make_shared<Dict>();
    for (const auto& [key, value] : json.items()) dict->set(text(key), of(value));
    return Any(DictRef(std::move(dict)));
  }
  List list;
  for (const Json& item : json) {
    list.items.push_back(of(item));
    list.depth = std::max(list.depth, 1 + list.items.back().depth());
  }
  return Any(std::make_shared<const List>(std::move(list)));
}

const std::string* Value::text() const {
  const auto* ref = as<TextRef>();
  return ref ? &(*ref)->bytes : nullptr;
}

bool Value::is_safe() const {
  const auto* ref = as<TextRef>();
  return ref && (*ref)->safe;
}

const List* Value::list() const {
  const auto* ref = as<ListRef>();
  return ref ? ref->get() : nullptr;
}

const Dict* Value::dict() const {
  const auto* ref = as<DictRef>();
  return ref ? ref->get() : nullptr;
}

Object* Value::object() const {
  const auto* ref = as<ObjectRef>();
  return ref ? ref->get() : nullptr;
}

std::optional<std::int64_t> Value::integer() const {
  if (const auto* v = as<bool>()) return *v ? 1 : 0;
  if (const auto* v = as<std::int64_t>()) return *v;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (const auto* v = as<double>()) return *v;
  if (const auto v = integer()) return static_cast<double>(*v);
  return std::nullopt;
}

int Value::depth() const {
  if (const List* l = list()) return l->depth;
  if (const Dict* d = dict()) return d->depth();
  if (const Object* o = object()) return o->depth();
  return 0;
}

std::optional<std::string> key_of(const Value& value) {
  if (const std::string* t = value.text()) return "s" + *t;
  if (const auto v = value.integer()) return str("i", *v);
  if (const auto* v = value.as<double>()) {
    const bool whole = std::floor(*v) == *v && std::fabs(*v) < 9e18;
    return whole ? str("i", static_cast<std::int64_t>(*v)) : "f" + std::to_string(std::hash<double>{}(*v));
  }
  if (value.is_none()) return "n";
  if (value.is_undefined()) return "u";
  const List* list = value.list();
  if (!list || (list->kind != ListKind::tuple && list->kind != ListKind::group)) return std::nullopt;
  std::string key = "t";
  for (const Value& item : list->items) {
    const auto part = key_of(item);
    if (!part) return std::nullopt;
    key += str(part->size(), ":", *part);
  }
  return key;
}

bool Dict::set(const Value& key, Value value) {
  const auto name = key_of(key);
  if (!name) return false;
  depth_ = std::max({depth_, 1 + value.depth(), 1 + key.depth()});
  const auto [at, fresh] = places_.try_emplace(*name, entries_.size());
  if (fresh)
    entries_.emplace_back(key, std::move(value));
  else
    entries_[at->second].second = std::move(value);
  return true;
}

std::optional<std::size_t> Dict::place(const std::string& key) const {
  const auto it = places_.find(key);
  return it == places_.end() ? std::nullopt : std::optional(it->second);
}

const Value* Dict::find(const Value& key) const {
  if (const std::string* t = key.text()) return find(*t);
  const auto name = key_of(key);
  const auto at = name ? place(*name) : std::nullopt;
  return at ? &entries_[*at].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  constexpr std::size_t kFew = 8;  // entries up to which keys are compared one by one
  if (entries_.size() <= kFew) {
    for (const auto& [name, value] : entries_)
      if (const std::string* t = name.text(); t && *t == key) return &value;
    return nullptr;
  }
  const auto at = place(str("s", key));
  return at ? &entries_[*at].second : nullptr;
}

}  // namespace ft::jinja
