// Functions that every template has.
#include <array>
#include <ctime>

#include "data/chat/jinja/arguments.h"
#include "data/chat/jinja/builtins/filters.h"
#include "data/chat/jinja/compare.h"
#include "data/chat/jinja/print.h"
#include "engine/core/error.h"

namespace ft::jinja {
namespace {

Value range(Machine& m, const Value&, const Arguments& given) {
  constexpr std::int64_t kMost = 100'000;  // the limit of Jinja's sandbox
  const Bound a(m, "range", given, {"start", "stop", "step"}, 1);
  const bool one = !a.has(1);
  const std::int64_t begin = one ? 0 : a.integer(0, 0), end = a.integer(one ? 0 : 1, 0),
                     step = a.integer(2, 1);
  if (step == 0) m.fail("range: the step must not be 0");
  const auto length = [&]() -> std::uint64_t {
    if (step > 0 ? begin >= end : begin <= end) return 0;
    const auto apart = step > 0 ? static_cast<std::uint64_t>(end) - static_cast<std::uint64_t>(begin)
                                : static_cast<std::uint64_t>(begin) - static_cast<std::uint64_t>(end);
    const auto by = step > 0 ? static_cast<std::uint64_t>(step) : ~static_cast<std::uint64_t>(step) + 1;
    return (apart - 1) / by + 1;
  }();
  if (length > kMost) m.fail(str("range: more than ", kMost, " numbers"));
  std::vector<Value> items;
  for (std::uint64_t i = 0; i < length; ++i)
    items.emplace_back(Value::Any(begin + static_cast<std::int64_t>(i) * step));
  return m.list(std::move(items), ListKind::range);
}

// Makes an object: dict(object or pairs, name=value).
Dict dict_from(Machine& m, const Arguments& given) {
  Dict out;
  if (given.values.size() > 1) m.fail("dict takes one object, or pairs");
  const auto set = [&](const Value& key, const Value& value) {
    if (!out.set(key, value)) m.fail(type_of(key) + " cannot be a key");
  };
  if (!given.values.empty()) {
    if (const Dict* d = given.values[0].dict()) {
      for (const auto& [key, value] : d->entries()) set(key, value);
    } else {
      const Value::ListRef all = m.items_of(given.values[0]);
      for (const Value& pair : all->items) {
        const Value::ListRef two = m.items_of(pair);
        if (two->items.size() != 2) m.fail("dict: an item is not a pair");
        set(two->items[0], two->items[1]);
      }
    }
  }
  for (const auto& [name, value] : given.named) set(m.text(name), value);
  return out;
}

Value dict(Machine& m, const Value&, const Arguments& given) { return m.dict(dict_from(m, given)); }

Value make_namespace(Machine& m, const Value&, const Arguments& given) {
  return m.make_namespace(dict_from(m, given));
}

Value raise_exception(Machine& m, const Value&, const Arguments& given) {
  const Bound a(m, "raise_exception", given, {"message"}, 1);
  m.fail(a.text(0, ""));
}

Value strftime_now(Machine& m, const Value&, const Arguments& given) {
  const Bound a(m, "strftime_now", given, {"format"}, 1);
  const std::string form = a.text(0, "");
  const std::time_t now = m.now();
  std::tm time{};
  localtime_r(&now, &time);
  std::array<char, 1024> out{};
  const std::size_t size = form.size() > 512 ? 0 : std::strftime(out.data(), out.size(), form.c_str(), &time);
  if (size == 0 && !form.empty()) m.fail("strftime_now: the date is too long");
  return m.text(std::string(out.data(), size));
}

// cycler(a, b): next() returns the items in turn, from the first again after the last.
class Cycler : public Object {
 public:
  explicit Cycler(Value::ListRef items) : items_(std::move(items)) {}
  std::string printed(Machine&) const override { return "<Cycler>"; }
  int depth() const override { return items_->depth; }
  std::optional<Value> attribute(Machine& m, std::string_view name) override {
    if (name == "current") return items_->items[at_];
    if (name == "next") return m.object(std::make_shared<Step>(*this, true));
    if (name == "reset") return m.object(std::make_shared<Step>(*this, false));
    return std::nullopt;
  }

 private:
  // Shares the cycler's state, because it may outlive the cycler.
  class Step : public Object {
   public:
    Step(const Cycler& of, bool next) : items_(of.items_), at_(of.place_), next_(next) {}
    std::string printed(Machine&) const override { return "<function>"; }
    bool callable() const override { return true; }
    Value call(Machine&, const Arguments&) override {
      const std::size_t now = next_ ? *at_ : 0;
      *at_ = next_ ? (now + 1) % items_->items.size() : 0;
      return next_ ? items_->items[now] : Value(Value::Any(None{}));
    }
    int depth() const override { return items_->depth; }

   private:
    Value::ListRef items_;
    std::shared_ptr<std::size_t> at_;
    bool next_;
  };

  Value::ListRef items_;
  std::shared_ptr<std::size_t> place_ = std::make_shared<std::size_t>(0);
  std::size_t& at_ = *place_;
};

Value cycler(Machine& m, const Value&, const Arguments& given) {
  if (given.values.empty()) m.fail("cycler: no values");
  const Value all = m.list(given.values);
  return m.object(std::make_shared<Cycler>(*all.as<Value::ListRef>()));
}

// joiner(sep): the first call returns an empty text, later calls the separator.
class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string printed(Machine&) const override { return "<Joiner>"; }
  bool callable() const override { return true; }
  Value call(Machine& m, const Arguments&) override {
    return std::exchange(used_, true) ? separator_ : m.text("");
  }
  int depth() const override { return separator_.depth(); }

 private:
  Value separator_;
  bool used_ = false;
};

Value joiner(Machine& m, const Value&, const Arguments& given) {
  const Bound a(m, "joiner", given, {"sep"});
  return m.object(std::make_shared<Joiner>(a.has(0) ? a[0] : m.text(", ")));
}

Value lipsum(Machine& m, const Value&, const Arguments&) {
  m.fail("lipsum: its text is random; a rendering must be the same each time");
}

}  // namespace

std::optional<Value> global(std::string_view name) {
  struct Named {
    std::string_view name;
    Function::Body body;
  };
  static constexpr Named kAll[] = {{"range", range},
                                   {"dict", dict},
                                   {"namespace", make_namespace},
                                   {"raise_exception", raise_exception},
                                   {"strftime_now", strftime_now},
                                   {"cycler", cycler},
                                   {"joiner", joiner},
                                   {"lipsum", lipsum}};
  for (const Named& g : kAll)
    if (g.name == name) {
      const Value::ObjectRef function = std::make_shared<Function>(std::string(name), g.body);
      return Value(Value::Any(function));
    }
  return std::nullopt;
}

}  // namespace ft::jinja
