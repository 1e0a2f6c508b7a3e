// Nodes of names, constants, attributes, items and calls.
#include "data/chat/jinja/expression.h"

#include <algorithm>

#include "data/chat/jinja/print.h"
#include "data/chat/jinja/text.h"
#include "engine/core/error.h"

namespace ft::jinja {
namespace {

class Constant : public Expression {
 public:
  Constant(int line, Value value) : Expression(line), value_(std::move(value)) {}
  Value evaluate(Machine&) const override { return value_; }

 private:
  Value value_;
};

class Variable : public Expression {
 public:
  Variable(int line, std::string name)
      : Expression(line), name_(std::move(name)), missing_(Value::undefined(name_)) {}
  Value evaluate(Machine& m) const override {
    if (const Value* v = m.variable(name_)) return *v;
    return global(name_).value_or(missing_);
  }

 private:
  std::string name_;
  Value missing_;
};

class ListOf : public Expression {
 public:
  ListOf(int line, std::vector<Ex> items, ListKind kind)
      : Expression(line), items_(std::move(items)), kind_(kind) {}
  Value evaluate(Machine& m) const override {
    std::vector<Value> values;
    for (const Ex& i : items_) values.push_back(i->value(m));
    return m.list(std::move(values), kind_);
  }

 private:
  std::vector<Ex> items_;
  ListKind kind_;
};

class DictOf : public Expression {
 public:
  DictOf(int line, std::vector<std::pair<Ex, Ex>> items) : Expression(line), items_(std::move(items)) {}
  Value evaluate(Machine& m) const override {
    Dict dict;
    for (const auto& [key, value] : items_) {
      const Value k = key->value(m);
      if (!dict.set(k, value->value(m))) m.fail(type_of(k) + " cannot be a key");
    }
    return m.dict(std::move(dict));
  }

 private:
  std::vector<std::pair<Ex, Ex>> items_;
};

class Attribute : public Expression {
 public:
  Attribute(int line, Ex of, std::string name)
      : Expression(line), of_(std::move(of)), name_(std::move(name)) {}
  Value evaluate(Machine& m) const override { return attribute_of(m, of_->value(m), name_); }

 private:
  Ex of_;
  std::string name_;
};

class Item : public Expression {
 public:
  Item(int line, Ex of, Ex at) : Expression(line), of_(std::move(of)), at_(std::move(at)) {}
  Value evaluate(Machine& m) const override {
    const Value of = of_->value(m);
    return item_of(m, of, at_->value(m));
  }

 private:
  Ex of_, at_;
};

class Slice : public Expression {
 public:
  Slice(int line, Ex of, Ex begin, Ex end, Ex step)
      : Expression(line),
        of_(std::move(of)),
        begin_(std::move(begin)),
        end_(std::move(end)),
        step_(std::move(step)) {}
  Value evaluate(Machine& m) const override {
    const auto part = [&](const Ex& e) { return e ? e->value(m) : Value(Value::Any(None{})); };
    const Value of = of_->value(m), begin = part(begin_), end = part(end_);
    return sliced(m, of, begin, end, part(step_));
  }

 private:
  Ex of_, begin_, end_, step_;
};

class Called : public Expression {
 public:
  Called(int line, Ex function, Call call)
      : Expression(line), function_(std::move(function)), call_(std::move(call)) {}
  Value evaluate(Machine& m) const override {
    const Value function = function_->value(m);
    return m.call(function, call_.evaluate(m));
  }

 private:
  Ex function_;
  Call call_;
};

class Filtered : public Expression {
 public:
  Filtered(int line, Ex subject, Filter filter, Call call)
      : Expression(line), subject_(std::move(subject)), filter_(filter), call_(std::move(call)) {}
  Value evaluate(Machine& m) const override {
    const Value subject = subject_->value(m);
    return filter_(m, subject, call_.evaluate(m));
  }

 private:
  Ex subject_;
  Filter filter_;
  Call call_;
};

class Tested : public Expression {
 public:
  Tested(int line, Ex subject, Test test, Call call, bool negated)
      : Expression(line),
        subject_(std::move(subject)),
        test_(test),
        call_(std::move(call)),
        negated_(negated) {}
  Value evaluate(Machine& m) const override {
    const Value subject = subject_->value(m);
    return Value::Any(test_(m, subject, call_.evaluate(m)) != negated_);
  }

 private:
  Ex subject_;
  Test test_;
  Call call_;
  bool negated_;
};

class Unknown : public Expression {
 public:
  Unknown(int line, std::string what) : Expression(line), what_(std::move(what)) {}
  Value evaluate(Machine& m) const override { m.fail(what_); }

 private:
  std::string what_;
};

}  // namespace

Arguments Call::evaluate(Machine& m) const {
  Arguments out;
  for (const Ex& v : values) out.values.push_back(v->value(m));
  for (const auto& [name, v] : named) out.named.emplace_back(name, v->value(m));
  if (more_values) {
    const Value::ListRef more = m.items_of(more_values->value(m));
    m.step(std::ssize(more->items) / 8);
    out.values.insert(out.values.end(), more->items.begin(), more->items.end());
  }
  if (more_named) {
    const Value more = more_named->value(m);
    if (!more.dict()) m.fail("** must be an object, is " + type_of(more));
    m.step(std::ssize(more.dict()->entries()) / 8);
    for (const auto& [key, value] : more.dict()->entries()) {
      if (!key.text()) m.fail("** with a key that is not a text");
      out.named.emplace_back(*key.text(), value);
    }
  }
  return out;
}

Ex constant(int line, Value value) { return std::make_unique<Constant>(line, std::move(value)); }
Ex variable(int line, std::string name) { return std::make_unique<Variable>(line, std::move(name)); }
Ex list_of(int line, std::vector<Ex> items, ListKind kind) {
  return std::make_unique<ListOf>(line, std::move(items), kind);
}
Ex dict_of(int line, std::vector<std::pair<Ex, Ex>> items) {
  return std::make_unique<DictOf>(line, std::move(items));
}
Ex attribute(int line, Ex of, std::string name) {
  return std::make_unique<Attribute>(line, std::move(of), std::move(name));
}
Ex item(int line, Ex of, Ex at) { return std::make_unique<Item>(line, std::move(of), std::move(at)); }
Ex slice(int line, Ex of, Ex begin, Ex end, Ex step) {
  return std::make_unique<Slice>(line, std::move(of), std::move(begin), std::move(end), std::move(step));
}
Ex call(int line, Ex function, Call arguments) {
  return std::make_unique<Called>(line, std::move(function), std::move(arguments));
}
Ex filtered(int line, Ex subject, Filter filter, Call arguments) {
  return std::make_unique<Filtered>(line, std::move(subject), filter, std::move(arguments));
}
Ex tested(int line, Ex subject, Test test, Call arguments, bool negated) {
  return std::make_unique<Tested>(line, std::move(subject), test, std::move(arguments), negated);
}
Ex unknown(int line, std::string what) { return std::make_unique<Unknown>(line, std::move(what)); }

}  // namespace ft::jinja
