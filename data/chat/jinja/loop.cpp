// {% for %} and its variable `loop`.
#include "data/chat/jinja/compare.h"
#include "data/chat/jinja/statement.h"
#include "engine/core/error.h"

namespace ft::jinja {
namespace {

class LoopObject : public Object {
 public:
  LoopObject(const Loop& loop, Value::ListRef items, int depth)
      : loop_(loop), items_(std::move(items)), level_(depth) {}

  void start_pass(std::size_t i) { at_ = i; }
  void end() {
    ended_ = true;
    last_.reset();
  }

  std::string printed(Machine&) const override {
    return str("<LoopContext ", at_ + 1, "/", items_->items.size(), ">");
  }
  std::optional<Value> attribute(Machine& m, std::string_view name) override {
    const auto at = static_cast<std::int64_t>(at_), size = static_cast<std::int64_t>(items_->items.size());
    const auto number = [](std::int64_t v) { return Value(Value::Any(v)); };
    const auto flag = [](bool v) { return Value(Value::Any(v)); };
    if (name == "index") return number(at + 1);
    if (name == "index0") return number(at);
    if (name == "revindex") return number(size - at);
    if (name == "revindex0") return number(size - at - 1);
    if (name == "length") return number(size);
    if (name == "depth") return number(level_ + 1);
    if (name == "depth0") return number(level_);
    if (name == "first") return flag(at == 0);
    if (name == "last") return flag(at + 1 == size);
    if (name == "previtem") return neighbour("there is no previous item", at - 1);
    if (name == "nextitem") return neighbour("there is no next item", at + 1);
    if (name == "cycle") return method(m, "cycle", &LoopObject::cycle);
    if (name == "changed") return method(m, "changed", &LoopObject::changed);
    return std::nullopt;
  }
  bool callable() const override { return true; }
  // loop(items): runs the loop again over items nested in an item; returns the text.
  Value call(Machine& m, const Arguments& arguments) override {
    if (!loop_.recursive) m.fail("loop(...): the loop is not `recursive`");
    if (arguments.values.size() != 1 || !arguments.named.empty()) m.fail("loop(...) takes one list");
    const Machine::Level level(m, m.line());
    Machine::Aside aside(m);
    loop_.run(m, arguments.values[0], level_ + 1);
    return aside.take();
  }
  int depth() const override { return items_->depth; }

 private:
  // Makes a method that keeps its loop alive.
  static Value method(Machine& m, const char* name, Function::Body body) {
    const Value* self = m.variable("loop");
    return m.object(std::make_shared<Function>(name, body, self ? *self : Value()));
  }
  static LoopObject& loop_of(Machine& m, const Value& self) {
    auto* loop = dynamic_cast<LoopObject*>(self.object());
    if (!loop) m.fail("a method of a loop that is not there any more");
    return *loop;
  }
  static Value cycle(Machine& m, const Value& self, const Arguments& arguments) {
    if (arguments.values.empty()) m.fail("loop.cycle: no values to choose from");
    return arguments.values[loop_of(m, self).at_ % arguments.values.size()];
  }
  static Value changed(Machine& m, const Value& self, const Arguments& arguments) {
    LoopObject& loop = loop_of(m, self);
    if (loop.ended_) m.fail("loop.changed: the loop is over");
    const Value now = m.list(arguments.values, ListKind::tuple);
    const bool fresh = !loop.last_ || !equal(m, *loop.last_, now);
    loop.last_ = now;
    return Value::Any(fresh);
  }
  Value neighbour(const char* none, std::int64_t i) const {
    if (i < 0 || i >= static_cast<std::int64_t>(items_->items.size())) return Value::undefined(none);
    return items_->items[static_cast<std::size_t>(i)];
  }

  const Loop& loop_;
  Value::ListRef items_;
  int level_;
  std::size_t at_ = 0;
  bool ended_ = false;
  std::optional<Value> last_;  // the last argument of changed()
};

class LoopNode : public Statement {
 public:
  explicit LoopNode(std::shared_ptr<const Loop> loop) : Statement(loop->line), loop_(std::move(loop)) {}
  Flow execute(Machine& m) const override { return loop_->run(m, loop_->items->value(m), 0); }

 private:
  std::shared_ptr<const Loop> loop_;
};

Value::ListRef chosen(Machine& m, const Loop& loop, const Value::ListRef& all) {
  if (!loop.condition) return all;
  std::vector<Value> items;
  for (const Value& item : all->items) {
    const Machine::Inner inner(m);
    loop.target.assign(m, item);
    if (truth(loop.condition->value(m))) items.push_back(item);
  }
  return *m.list(std::move(items)).as<Value::ListRef>();
}

}  // namespace

Flow Loop::run(Machine& m, const Value& over, int depth) const {
  const Value::ListRef all = chosen(m, *this, m.items_of(over));
  if (all->items.empty()) {
    const Machine::Inner inner(m);
    return jinja::run(m, otherwise);
  }
  const auto state = std::make_shared<LoopObject>(*this, all, depth);
  const Value self = m.object(state);
  struct Ending {
    LoopObject& state;
    ~Ending() { state.end(); }
  } const ending{*state};
  for (std::size_t i = 0; i < all->items.size(); ++i) {
    m.step();
    state->start_pass(i);
    const Machine::Inner inner(m);
    m.set("loop", self);
    target.assign(m, all->items[i]);
    if (jinja::run(m, body) == Flow::to_end) break;
  }
  return Flow::on;
}

St loop(std::shared_ptr<const Loop> loop) { return std::make_unique<LoopNode>(std::move(loop)); }

}  // namespace ft::jinja
