// Nodes of all tags except loops and macros.
#include "data/chat/jinja/statement.h"

#include "data/chat/jinja/compare.h"
#include "data/chat/jinja/print.h"
#include "engine/core/error.h"

namespace ft::jinja {

Flow run(Machine& m, const Body& body) {
  for (const St& s : body)
    if (const Flow flow = s->run(m); flow != Flow::on) return flow;
  return Flow::on;
}

void Target::assign(Machine& m, const Value& value) const {
  if (parts.empty()) {
    if (attribute.empty()) return m.set(name, value);
    const Value* space = m.variable(name);
    auto* to = space ? dynamic_cast<Namespace*>(space->object()) : nullptr;
    if (!to) m.fail(str("set ", name, ".", attribute, ": ", name, " is not a namespace"));
    to->attributes.set(Value::text(attribute), value);
    return;
  }
  const Value::ListRef items = m.items_of(value);
  if (items->items.size() != parts.size())
    m.fail(str(items->items.size(), " values for ", parts.size(), " names"));
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].assign(m, items->items[i]);
}

namespace {

class TextNode : public Statement {
 public:
  TextNode(int line, std::string text) : Statement(line), text_(std::move(text)) {}
  Flow execute(Machine& m) const override {
    m.out->add(text_);
    return Flow::on;
  }

 private:
  std::string text_;
};

class Print : public Statement {
 public:
  Print(int line, Ex value) : Statement(line), value_(std::move(value)) {}
  Flow execute(Machine& m) const override {
    write_str(m, *m.out, value_->value(m));
    return Flow::on;
  }

 private:
  Ex value_;
};

class Branch : public Statement {
 public:
  Branch(int line, std::vector<std::pair<Ex, Body>> cases, Body otherwise)
      : Statement(line), cases_(std::move(cases)), otherwise_(std::move(otherwise)) {}
  Flow execute(Machine& m) const override {
    for (const auto& [condition, body] : cases_)
      if (truth(condition->value(m))) return jinja::run(m, body);
    return jinja::run(m, otherwise_);
  }

 private:
  std::vector<std::pair<Ex, Body>> cases_;
  Body otherwise_;
};

class Leave : public Statement {
 public:
  Leave(int line, Flow flow) : Statement(line), flow_(flow) {}
  Flow execute(Machine&) const override { return flow_; }

 private:
  Flow flow_;
};

class Assign : public Statement {
 public:
  Assign(int line, Target target, Ex value)
      : Statement(line), target_(std::move(target)), value_(std::move(value)) {}
  Flow execute(Machine& m) const override {
    target_.assign(m, value_->value(m));
    return Flow::on;
  }

 private:
  Target target_;
  Ex value_;
};

// Returns the text that a body writes, passed through filters.
Value written(Machine& m, const Body& body, const std::vector<FilterCall>& filters) {
  Value text;
  {
    const Machine::Inner inner(m);
    Machine::Aside aside(m);
    run(m, body);
    text = aside.take();
  }
  for (const FilterCall& f : filters) {
    const Machine::Level level(m, f.line);
    text = f.filter(m, text, f.arguments.evaluate(m));
  }
  return text;
}

class AssignBlock : public Statement {
 public:
  AssignBlock(int line, Target target, std::vector<FilterCall> filters, Body body)
      : Statement(line), target_(std::move(target)), filters_(std::move(filters)), body_(std::move(body)) {}
  Flow execute(Machine& m) const override {
    target_.assign(m, written(m, body_, filters_));
    return Flow::on;
  }

 private:
  Target target_;
  std::vector<FilterCall> filters_;
  Body body_;
};

class FilterBlock : public Statement {
 public:
  FilterBlock(int line, std::vector<FilterCall> filters, Body body)
      : Statement(line), filters_(std::move(filters)), body_(std::move(body)) {}
  Flow execute(Machine& m) const override {
    write_str(m, *m.out, written(m, body_, filters_));
    return Flow::on;
  }

 private:
  std::vector<FilterCall> filters_;
  Body body_;
};

class With : public Statement {
 public:
  With(int line, std::vector<std::pair<Target, Ex>> variables, Body body)
      : Statement(line), variables_(std::move(variables)), body_(std::move(body)) {}
  Flow execute(Machine& m) const override {
    std::vector<Value> values;  // evaluated before any is assigned
    for (const auto& [_, value] : variables_) values.push_back(value->value(m));
    const Machine::Inner inner(m);
    for (std::size_t i = 0; i < values.size(); ++i) variables_[i].first.assign(m, values[i]);
    return jinja::run(m, body_);
  }

 private:
  std::vector<std::pair<Target, Ex>> variables_;
  Body body_;
};

class Generation : public Statement {
 public:
  Generation(int line, Body body) : Statement(line), body_(std::move(body)) {}
  Flow execute(Machine& m) const override {
    const std::size_t begin = m.out->text().size();
    const bool placed = m.out == m.top;
    {
      const Machine::Inner inner(m);
      jinja::run(m, body_);
    }
    m.generated.placed = m.generated.placed && placed;
    if (placed) m.generated.blocks.emplace_back(begin, m.out->text().size());
    return Flow::on;
  }

 private:
  Body body_;
};

class Fails : public Statement {
 public:
  Fails(int line, std::string what) : Statement(line), what_(std::move(what)) {}
  Flow execute(Machine& m) const override { m.fail(what_); }

 private:
  std::string what_;
};

}  // namespace

St text(int line, std::string text) { return std::make_unique<TextNode>(line, std::move(text)); }
St print(int line, Ex value) { return std::make_unique<Print>(line, std::move(value)); }
St branch(int line, std::vector<std::pair<Ex, Body>> cases, Body otherwise) {
  return std::make_unique<Branch>(line, std::move(cases), std::move(otherwise));
}
St leave(int line, Flow flow) { return std::make_unique<Leave>(line, flow); }
St assign(int line, Target target, Ex value) {
  return std::make_unique<Assign>(line, std::move(target), std::move(value));
}
St assign_block(int line, Target target, std::vector<FilterCall> filters, Body body) {
  return std::make_unique<AssignBlock>(line, std::move(target), std::move(filters), std::move(body));
}
St filter_block(int line, std::vector<FilterCall> filters, Body body) {
  return std::make_unique<FilterBlock>(line, std::move(filters), std::move(body));
}
St with(int line, std::vector<std::pair<Target, Ex>> variables, Body body) {
  return std::make_unique<With>(line, std::move(variables), std::move(body));
}
St generation(int line, Body body) { return std::make_unique<Generation>(line, std::move(body)); }
St fails(int line, std::string what) { return std::make_unique<Fails>(line, std::move(what)); }

}  // namespace ft::jinja
