#include "data/chat/jinja/machine.h"

#include <algorithm>

#include "data/chat/jinja/print.h"
#include "data/files/utf8.h"
#include "engine/core/error.h"

namespace ft::jinja {

namespace {

constexpr std::int64_t kBox = 64;  // bytes of an allocated value, without its content
constexpr auto kItem = static_cast<std::int64_t>(sizeof(Value));

}  // namespace

Writer::Writer(Machine& m) : m_(m), charge_(m.charge(0)) {}

void Writer::add(std::string_view text) {
  const auto bytes = static_cast<std::int64_t>(text.size());
  m_.check_room(bytes);
  m_.step(bytes / 64);
  charge_.grow(bytes);
  text_ += text;
}

void Writer::add(std::size_t count, char c) {
  m_.check_room(count > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(count));
  m_.step(static_cast<std::int64_t>(count) / 64);
  charge_.grow(static_cast<std::int64_t>(count));
  text_.append(count, c);
}

Value Writer::take(bool safe) {
  return Value::Any(std::make_shared<const Text>(Text{std::move(text_), std::move(charge_), safe}));
}

Machine::Machine(const Limits& limits, std::time_t now, std::shared_ptr<Scope> variables)
    : scope(std::move(variables)), limits_(limits), now_(now) {}

// Breaks the cycles of macros and the scopes that hold them.
Machine::~Machine() {
  for (const auto& space : namespaces_) space->attributes = {};
  for (const auto& kept : kept_) kept->variables.clear();
  scope.reset();  // before the counters of its values end
}

void Machine::set(std::string_view name, Value value) {
  auto& all = scope->variables;
  step(std::ssize(all) / 64);
  const auto it = std::find_if(all.begin(), all.end(), [&](const auto& v) { return v.first == name; });
  if (it == all.end())
    all.emplace_back(name, std::move(value));
  else
    it->second = std::move(value);
}

const Value* Machine::variable(std::string_view name) {
  for (const Scope* s = scope.get(); s; s = s->parent.get()) {
    step(std::ssize(s->variables) / 64);
    for (const auto& [known, value] : s->variables)
      if (known == name) return &value;
  }
  return nullptr;
}

void Machine::step(std::int64_t count) {
  steps_ += count;
  if (steps_ > limits_.steps)
    fail(str("it takes more than ", limits_.steps, " steps: a loop without end, or nearly so?"));
}

void Machine::check_room(std::int64_t bytes) const {
  if (bytes > limits_.bytes - used_)
    fail(str("it takes more memory than the ", limits_.bytes >> 20, " MiB that it is given"));
}

Charge Machine::charge(std::int64_t bytes) {
  check_room(bytes);
  return {used_, bytes};
}

Value Machine::text(std::string bytes, bool safe) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  step(size / 64);
  return Value::Any(std::make_shared<const Text>(Text{std::move(bytes), charge(size + kBox), safe}));
}

Value Machine::list(std::vector<Value> items, ListKind kind) {
  const auto size = static_cast<std::int64_t>(items.size());
  step(size / 8);
  List list{std::move(items), kind, 1, charge(size * kItem + kBox)};
  for (const Value& item : list.items) list.depth = std::max(list.depth, 1 + item.depth());
  if (list.depth > kDeepestValue) fail("lists or objects too deep within one another");
  return Value::Any(std::make_shared<const List>(std::move(list)));
}

Value Machine::dict(Dict dict) {
  const auto size = static_cast<std::int64_t>(dict.entries().size());
  step(size / 4);
  if (dict.depth() > kDeepestValue) fail("lists or objects too deep within one another");
  std::int64_t keys = 0;  // the index copies the keys' texts
  for (const auto& [key, _] : dict.entries()) keys += key.text() ? std::ssize(*key.text()) : 16;
  dict.charge = charge(size * (2 * kItem + kBox) + keys + kBox);
  return Value::Any(std::make_shared<const Dict>(std::move(dict)));
}

Value Machine::generator(std::vector<Value> items) {
  const Value all = list(std::move(items));
  return object(std::make_shared<Generator>(*all.as<Value::ListRef>()));
}

namespace {

// An object and its charge, in one allocation.
struct Charged {
  std::shared_ptr<Object> object;
  Charge charge;
};

}  // namespace

Value Machine::object(std::shared_ptr<Object> object, std::int64_t bytes) {
  if (object->depth() > kDeepestValue) fail("values too deep within one another");
  const auto charged = std::make_shared<Charged>(Charged{std::move(object), charge(bytes + kBox)});
  return Value::Any(Value::ObjectRef(charged, charged->object.get()));
}

Value Machine::make_namespace(Dict attributes) {
  const auto size = static_cast<std::int64_t>(attributes.entries().size());
  check_room(4 * kBox + size * 4 * kItem);
  used_ += 4 * kBox + size * 4 * kItem;  // not given back before the rendering ends
  namespaces_.push_back(std::make_unique<Namespace>());
  namespaces_.back()->attributes = std::move(attributes);
  return Value::Any(Value::ObjectRef(Value::ObjectRef(), namespaces_.back().get()));
}

void Machine::keep(const std::shared_ptr<Scope>& scope_of_macro) {
  if (!kept_.empty() && kept_.back() == scope_of_macro) return;
  check_room(4 * kBox);
  used_ += 4 * kBox;
  kept_.push_back(scope_of_macro);
}

Value::ListRef Machine::items_of(const Value& value) {
  if (const auto* list = value.as<Value::ListRef>()) return *list;
  std::vector<Value> items;
  if (const Dict* d = value.dict()) {
    for (const auto& [key, _] : d->entries()) items.push_back(key);
  } else if (const std::string* t = value.text()) {
    check_room(static_cast<std::int64_t>(t->size()) * (kItem + 2 * kBox));
    for (std::size_t i = 0; i < t->size();) {
      const std::size_t n = std::max<std::size_t>(utf8_length(*t, i), 1);
      items.push_back(text(t->substr(i, n)));
      i += n;
    }
  } else if (Object* o = value.object()) {
    if (auto all = o->iterate(*this)) return all;
    fail("a loop over " + type_of(value));
  } else if (!value.is_undefined()) {
    fail("a loop over " + type_of(value));
  }
  return *list(std::move(items)).as<Value::ListRef>();
}

Value Machine::call(const Value& function, const Arguments& arguments) {
  if (const auto* gone = function.as<Undefined>())
    fail(str("'", gone->name ? *gone->name : "", "' is undefined, and is called"));
  Object* o = function.object();
  if (!o || !o->callable()) fail(type_of(function) + " is called, but is not a function");
  return o->call(*this, arguments);
}

Value Object::call(Machine& m, const Arguments&) { m.fail("it is not a function"); }

Value::ListRef Generator::iterate(Machine& m) {
  Value::ListRef all = std::move(items_);
  items_ = *m.list({}).as<Value::ListRef>();
  return all;
}

std::string Namespace::printed(Machine& m) const {
  Writer out(m);
  out.add("<Namespace {");
  const char* comma = "";
  for (const auto& [key, value] : attributes.entries()) {
    out.add(comma);
    write_repr(m, out, key);
    out.add(": ");
    write_repr(m, out, value);
    comma = ", ";
  }
  out.add("}>");
  return out.text();
}

std::optional<Value> Namespace::attribute(Machine&, std::string_view name) {
  const Value* value = attributes.find(name);
  return value ? std::optional(*value) : std::nullopt;
}

}  // namespace ft::jinja
