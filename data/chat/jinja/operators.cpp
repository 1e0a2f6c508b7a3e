// Nodes of arithmetic, comparison and logic.
#include <cmath>

#include "data/chat/jinja/compare.h"
#include "data/chat/jinja/expression.h"
#include "data/chat/jinja/print.h"
#include "data/chat/jinja/safe.h"
#include "engine/core/error.h"

namespace ft::jinja {
namespace {

using enum Operator;

Value number(double v) { return Value::Any(v); }
Value number(std::int64_t v) { return Value::Any(v); }

std::int64_t floor_of(std::int64_t a, std::int64_t b) {
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}

Value integers(Machine& m, Operator op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  bool over = false;
  switch (op) {
    case add:
      over = __builtin_add_overflow(a, b, &out);
      break;
    case subtract:
      over = __builtin_sub_overflow(a, b, &out);
      break;
    case multiply:
      over = __builtin_mul_overflow(a, b, &out);
      break;
    case divide:
      if (b == 0) m.fail("a division by zero");
      return number(static_cast<double>(a) / static_cast<double>(b));
    case floor_divide:
    case modulo:
      if (b == 0) m.fail("a division by zero");
      if (b == -1 && a == INT64_MIN) m.fail("a number of more than 64 bits");
      return number(op == modulo ? a - floor_of(a, b) * b : floor_of(a, b));
    default:
      if (b < 0) {
        if (a == 0) m.fail("a division by zero: 0 to a negative power");
        return number(std::pow(static_cast<double>(a), static_cast<double>(b)));
      }
      out = 1;
      if (a == 0 || a == 1) return number(b == 0 ? 1 : a);
      if (a == -1) return number(b % 2 == 0 ? std::int64_t{1} : std::int64_t{-1});
      for (std::int64_t i = 0; i < b && !over; ++i) over = __builtin_mul_overflow(out, a, &out);
  }
  if (over) m.fail("a number of more than 64 bits");
  return number(out);
}

Value reals(Machine& m, Operator op, double a, double b) {
  switch (op) {
    case add:
      return number(a + b);
    case subtract:
      return number(a - b);
    case multiply:
      return number(a * b);
    case power:
      if (a < 0 && std::floor(b) != b) m.fail("a root of a negative number");
      return number(std::pow(a, b));
    default:
      break;
  }
  if (b == 0) m.fail("a division by zero");
  if (op == divide) return number(a / b);
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (op == modulo) return number(rest);
  const double whole = (a - rest) / b;
  return number(std::round(whole));
}

Value repeated(Machine& m, const Value& what, std::int64_t times) {
  times = std::max<std::int64_t>(times, 0);
  if (const std::string* t = what.text()) {
    std::int64_t size = 0;
    if (__builtin_mul_overflow(times, static_cast<std::int64_t>(t->size()), &size)) size = INT64_MAX;
    m.check_room(size);
    std::string out;
    out.reserve(static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < times && !t->empty(); ++i) out += *t;
    return m.text(std::move(out), what.is_safe());
  }
  const auto& items = what.list()->items;
  std::int64_t size = 0;
  if (__builtin_mul_overflow(times, static_cast<std::int64_t>(items.size() * sizeof(Value)), &size))
    size = INT64_MAX;
  m.check_room(size);
  std::vector<Value> out;
  for (std::int64_t i = 0; i < times && !items.empty(); ++i)
    out.insert(out.end(), items.begin(), items.end());
  return m.list(std::move(out), what.list()->kind);
}

bool repeats(const Value& v) {
  return v.text() || (v.list() && (v.list()->kind == ListKind::list || v.list()->kind == ListKind::tuple));
}

const char* sign_of(Operator op) {
  static constexpr const char* kSigns[] = {"+", "-", "*", "/", "//", "%", "**", "-", "+"};
  return kSigns[static_cast<int>(op)];
}

}  // namespace

Value calculated(Machine& m, Operator op, const Value& a, const Value& b) {
  if (a.integer() && b.integer()) return integers(m, op, *a.integer(), *b.integer());
  if (a.number() && b.number()) return reals(m, op, *a.number(), *b.number());
  if (op == add && a.text() && b.text()) {
    const bool safe = a.is_safe() || b.is_safe();
    Writer out(m);
    out.add(*(safe ? escaped(m, a) : a).text());
    out.add(*(safe ? escaped(m, b) : b).text());
    return out.take(safe);
  }
  if (op == add && a.list() && b.list() && a.list()->kind == b.list()->kind && repeats(a)) {
    m.check_room(
        static_cast<std::int64_t>((a.list()->items.size() + b.list()->items.size()) * sizeof(Value)));
    std::vector<Value> out = a.list()->items;
    out.insert(out.end(), b.list()->items.begin(), b.list()->items.end());
    return m.list(std::move(out), a.list()->kind);
  }
  if (op == multiply && repeats(a) && b.integer()) return repeated(m, a, *b.integer());
  if (op == multiply && repeats(b) && a.integer()) return repeated(m, b, *a.integer());
  if (op == modulo && a.is_safe()) m.fail("% of a text that is marked safe is not supported");
  if (op == modulo && a.text()) return percent_format(m, *a.text(), b);
  m.fail(str(type_of(a), " ", sign_of(op), " ", type_of(b)));
}

namespace {

class Operation : public Expression {
 public:
  Operation(int line, Operator op, Ex left, Ex right)
      : Expression(line), op_(op), left_(std::move(left)), right_(std::move(right)) {}
  Value evaluate(Machine& m) const override {
    const Value left = left_->value(m);
    if (right_) return calculated(m, op_, left, right_->value(m));
    if (!left.is_number()) m.fail(str(sign_of(op_), " of ", type_of(left)));
    return calculated(m, multiply, left, number(std::int64_t{op_ == minus ? -1 : 1}));
  }

 private:
  Operator op_;
  Ex left_, right_;
};

class Concatenation : public Expression {
 public:
  Concatenation(int line, std::vector<Ex> parts) : Expression(line), parts_(std::move(parts)) {}
  Value evaluate(Machine& m) const override {
    Writer out(m);
    for (const Ex& part : parts_) write_str(m, out, part->value(m));
    return out.take();
  }

 private:
  std::vector<Ex> parts_;
};

enum class Logic : std::uint8_t { both, either, none };
class Logical : public Expression {
 public:
  Logical(int line, Logic logic, Ex left, Ex right)
      : Expression(line), logic_(logic), left_(std::move(left)), right_(std::move(right)) {}
  Value evaluate(Machine& m) const override {
    Value left = left_->value(m);
    if (logic_ == Logic::none) return Value::Any(!truth(left));
    return truth(left) == (logic_ == Logic::either) ? left : right_->value(m);
  }

 private:
  Logic logic_;
  Ex left_, right_;
};

class Choice : public Expression {
 public:
  Choice(int line, Ex condition, Ex then, Ex otherwise)
      : Expression(line),
        condition_(std::move(condition)),
        then_(std::move(then)),
        otherwise_(std::move(otherwise)) {}
  Value evaluate(Machine& m) const override {
    if (truth(condition_->value(m))) return then_->value(m);
    return otherwise_ ? otherwise_->value(m) : Value::undefined("the value of an `if` without `else`");
  }

 private:
  Ex condition_, then_, otherwise_;
};

bool holds(Machine& m, Relation relation, const Value& a, const Value& b) {
  using enum Relation;
  switch (relation) {
    case Relation::equal:
      return jinja::equal(m, a, b);
    case unequal:
      return !jinja::equal(m, a, b);
    case Relation::less:
      return jinja::less(m, a, b);
    case less_equal:
      return !jinja::less(m, b, a);
    case greater:
      return jinja::less(m, b, a);
    case greater_equal:
      return !jinja::less(m, a, b);
    case in:
      return contains(m, b, a);
    default:
      return !contains(m, b, a);
  }
}

class Comparison : public Expression {
 public:
  Comparison(int line, Ex first, std::vector<std::pair<Relation, Ex>> others)
      : Expression(line), first_(std::move(first)), others_(std::move(others)) {}
  Value evaluate(Machine& m) const override {
    Value left = first_->value(m);
    for (const auto& [relation, other] : others_) {
      Value right = other->value(m);
      if (!holds(m, relation, left, right)) return Value::Any(false);
      left = std::move(right);
    }
    return Value::Any(true);
  }

 private:
  Ex first_;
  std::vector<std::pair<Relation, Ex>> others_;
};

}  // namespace

Ex operation(int line, Operator op, Ex left, Ex right) {
  return std::make_unique<Operation>(line, op, std::move(left), std::move(right));
}
Ex concatenation(int line, std::vector<Ex> parts) {
  return std::make_unique<Concatenation>(line, std::move(parts));
}
Ex all_of(int line, Ex left, Ex right) {
  return std::make_unique<Logical>(line, Logic::both, std::move(left), std::move(right));
}
Ex any_of(int line, Ex left, Ex right) {
  return std::make_unique<Logical>(line, Logic::either, std::move(left), std::move(right));
}
Ex negation(int line, Ex operand) {
  return std::make_unique<Logical>(line, Logic::none, std::move(operand), nullptr);
}
Ex choice(int line, Ex condition, Ex then, Ex otherwise) {
  return std::make_unique<Choice>(line, std::move(condition), std::move(then), std::move(otherwise));
}
Ex comparison(int line, Ex first, std::vector<std::pair<Relation, Ex>> others) {
  return std::make_unique<Comparison>(line, std::move(first), std::move(others));
}

}  // namespace ft::jinja
