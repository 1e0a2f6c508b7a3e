// Nodes of {% macro %} and {% call %}.
#include <algorithm>

#include "data/chat/jinja/print.h"
#include "data/chat/jinja/statement.h"
#include "engine/core/error.h"

namespace ft::jinja {
namespace {

// A macro as a value, with the scope of its definition.
class MacroObject : public Object {
 public:
  MacroObject(std::shared_ptr<const Macro> macro, std::shared_ptr<Scope> home)
      : macro_(std::move(macro)), home_(std::move(home)) {}

  std::string printed(Machine&) const override { return "<Macro '" + macro_->name + "'>"; }
  bool callable() const override { return true; }
  std::optional<Value> attribute(Machine& m, std::string_view name) override {
    if (name == "name") return m.text(macro_->name);
    if (name == "caller") return Value(Value::Any(macro_->takes_caller));
    if (name == "catch_varargs") return Value(Value::Any(macro_->takes_values));
    if (name == "catch_kwargs") return Value(Value::Any(macro_->takes_named));
    if (name != "arguments") return std::nullopt;
    std::vector<Value> names;
    for (const auto& [parameter, _] : macro_->parameters) names.push_back(m.text(parameter));
    return m.list(std::move(names), ListKind::tuple);
  }

  Value call(Machine& m, const Arguments& arguments) override {
    const Machine::Level level(m, m.line());
    const Machine::Inner inner(m, home_);
    bind(m, arguments);
    Machine::Aside aside(m);
    run(m, macro_->body);
    return aside.take();
  }

 private:
  [[noreturn]] void fail(Machine& m, const std::string& what) const {
    m.fail(str("macro ", macro_->name, ": ", what));
  }

  void bind(Machine& m, const Arguments& arguments) const {
    const auto& parameters = macro_->parameters;
    const auto given = arguments.values.begin();
    const std::size_t placed = std::min(arguments.values.size(), parameters.size());
    if (arguments.values.size() > parameters.size() && !macro_->takes_values)
      fail(m, str("it takes ", parameters.size(), " arguments"));
    Dict more;
    for (const auto& [name, value] : arguments.named) {
      const auto it = std::find_if(parameters.begin(), parameters.end(),
                                   [&, n = name](const auto& p) { return p.first == n; });
      if (it == parameters.end() && name != "caller" && !macro_->takes_named)
        fail(m, "it has no argument " + printable(name, 40));
      if (it == parameters.end() && name == "caller" && !macro_->takes_caller && !macro_->takes_named)
        fail(m, "it is called with a block, but does not use `caller`");
      if (it != parameters.end() && it < parameters.begin() + static_cast<std::ptrdiff_t>(placed))
        fail(m, str("the argument ", name, " is given twice"));
      if (it != parameters.end() || (name == "caller" && macro_->takes_caller))
        m.set(name, value);
      else
        more.set(m.text(name), value);
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& [name, otherwise] = parameters[i];
      const bool named = std::any_of(arguments.named.begin(), arguments.named.end(),
                                     [&, n = name](const auto& a) { return a.first == n; });
      if (i < placed)
        m.set(name, given[static_cast<std::ptrdiff_t>(i)]);
      else if (!named)
        m.set(name, otherwise ? otherwise->value(m) : Value::undefined(name));
    }
    if (macro_->takes_values)
      m.set("varargs",
            m.list({given + static_cast<std::ptrdiff_t>(placed), arguments.values.end()}, ListKind::tuple));
    if (macro_->takes_named) m.set("kwargs", m.dict(std::move(more)));
    if (macro_->takes_caller && std::none_of(m.scope->variables.begin(), m.scope->variables.end(),
                                             [](const auto& v) { return v.first == "caller"; }))
      m.set("caller", Value::undefined("caller"));
  }

  std::shared_ptr<const Macro> macro_;
  std::shared_ptr<Scope> home_;
};

Value made(Machine& m, const std::shared_ptr<const Macro>& macro) {
  m.keep(m.scope);
  return m.object(std::make_shared<MacroObject>(macro, m.scope));
}

class Define : public Statement {
 public:
  Define(int line, std::shared_ptr<const Macro> macro) : Statement(line), macro_(std::move(macro)) {}
  Flow execute(Machine& m) const override {
    m.set(macro_->name, made(m, macro_));
    return Flow::on;
  }

 private:
  std::shared_ptr<const Macro> macro_;
};

class CallBlock : public Statement {
 public:
  CallBlock(int line, Ex function, Call call, std::shared_ptr<const Macro> caller)
      : Statement(line), function_(std::move(function)), call_(std::move(call)), caller_(std::move(caller)) {}
  Flow execute(Machine& m) const override {
    const Value function = function_->value(m);
    Arguments arguments = call_.evaluate(m);
    arguments.named.emplace_back("caller", made(m, caller_));
    write_str(m, *m.out, m.call(function, arguments));
    return Flow::on;
  }

 private:
  Ex function_;
  Call call_;
  std::shared_ptr<const Macro> caller_;
};

}  // namespace

St define(int line, std::shared_ptr<const Macro> macro) {
  return std::make_unique<Define>(line, std::move(macro));
}
St call_block(int line, Ex function, Call arguments, std::shared_ptr<const Macro> caller) {
  return std::make_unique<CallBlock>(line, std::move(function), std::move(arguments), std::move(caller));
}

}  // namespace ft::jinja
