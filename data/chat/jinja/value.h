// Values of a chat template: Python's values, limited to those that Jinja's sandbox allows. Values do not
// change; types that change (namespaces, generators, cyclers) are Objects.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "engine/files/json.h"

namespace ft::jinja {

class Value;
class Dict;
class Object;

// A value's share of its rendering's memory, given back by the destructor.
class Charge {
 public:
  Charge() = default;
  Charge(std::int64_t& used, std::int64_t bytes) : used_(&used), bytes_(bytes) { used += bytes; }
  Charge(Charge&& other) noexcept : used_(std::exchange(other.used_, nullptr)), bytes_(other.bytes_) {}
  Charge& operator=(Charge&& other) noexcept {
    std::swap(used_, other.used_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Charge() {
    if (used_) *used_ -= bytes_;
  }
  void grow(std::int64_t bytes) {
    if (!used_) return;
    *used_ += bytes;
    bytes_ += bytes;
  }

 private:
  std::int64_t* used_ = nullptr;  // null: nothing is counted
  std::int64_t bytes_ = 0;
};

struct Text {
  std::string bytes;  // UTF-8
  Charge charge{};
  bool safe = false;  // see safe.h
};

// Python's sequences. A group is a tuple of groupby; keys, values and items are views of an object.
enum class ListKind : std::uint8_t { list, tuple, group, range, keys, values, items };
struct List {
  std::vector<Value> items;
  ListKind kind = ListKind::list;
  int depth = 1;  // nesting of its items
  Charge charge{};
};

struct None {
  bool operator==(const None&) const = default;
};
// A variable, attribute or item that does not exist. Using it may be an error that names it.
struct Undefined {
  std::shared_ptr<const std::string> name;
};

class Value {
 public:
  using TextRef = std::shared_ptr<const Text>;
  using ListRef = std::shared_ptr<const List>;
  using DictRef = std::shared_ptr<const Dict>;
  using ObjectRef = std::shared_ptr<Object>;
  using Any = std::variant<Undefined, None, bool, std::int64_t, double, TextRef, ListRef, DictRef, ObjectRef>;

  Value() = default;  // undefined, without a name
  Value(Any any) : any_(std::move(any)) {}
  static Value undefined(std::string_view name);
  static Value text(std::string bytes);  // not charged to a rendering: for constants and variables
  static Value of(const Json& json);     // not charged either

  template <class T>
  const T* as() const {
    return std::get_if<T>(&any_);
  }
  bool is_undefined() const { return as<Undefined>() != nullptr; }
  bool is_none() const { return as<None>() != nullptr; }
  bool is_number() const { return as<bool>() || as<std::int64_t>() || as<double>(); }
  // Returns the text, or null if the value is not a text. The next functions do so for other types.
  const std::string* text() const;
  bool is_safe() const;  // a text that is marked safe
  const List* list() const;
  const Dict* dict() const;
  Object* object() const;
  // Returns an integer; true and false count as integers.
  std::optional<std::int64_t> integer() const;
  std::optional<double> number() const;
  int depth() const;  // nesting of its items: 0 for a scalar

 private:
  Any any_;
};

// A mapping in insertion order. Keys are equal as in Python: 1, 1.0 and true are one key.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;
  Charge charge{};

  // Returns false if the value cannot be a key (a list, an object).
  bool set(const Value& key, Value value);
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  const std::vector<Entry>& entries() const { return entries_; }
  int depth() const { return depth_; }

 private:
  std::optional<std::size_t> place(const std::string& key) const;

  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t> places_;  // by key_of
  int depth_ = 1;
};

// Returns equal texts for equal keys; nullopt if the value cannot be a key.
std::optional<std::string> key_of(const Value& value);

}  // namespace ft::jinja
