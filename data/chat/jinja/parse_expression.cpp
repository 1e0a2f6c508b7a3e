// Parses expressions, from the loosest binding to the tightest.
#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "data/chat/jinja/parser.h"
#include "engine/core/error.h"

namespace ft::jinja {

using enum Operator;

std::string Parser::shown() const {
  const Token& t = now();
  switch (t.kind) {
    case Kind::end:
      return "the template ends";
    case Kind::end_block:
      return "%} stands";
    case Kind::end_print:
      return "}} stands";
    case Kind::text:
      return "a text stands";
    default:
      return printable(t.text, 40) + " stands";
  }
}

Token Parser::take() {
  Token t = now();
  if (at_ + 1 < tokens_.size()) ++at_;
  return t;
}

bool Parser::skip_sign(std::string_view s) {
  const bool there = is_sign(s);
  if (there) take();
  return there;
}

bool Parser::skip_name(std::string_view s) {
  const bool there = is_name(s);
  if (there) take();
  return there;
}

void Parser::expect_sign(std::string_view s) {
  if (!skip_sign(s)) fail(str("expected ", s, ", but ", shown()));
}

void Parser::expect_name(std::string_view s) {
  if (!skip_name(s)) fail(str("expected ", s, ", but ", shown()));
}

std::string Parser::expect_identifier(const char* of) {
  if (now().kind != Kind::name) fail(str("expected the name of ", of, ", but ", shown()));
  return take().text;
}

void Parser::link() {
  if (++links_ > 800) fail("an expression of too many parts");
}

Ex Parser::expression(bool with_choice) {
  const Nest nest(*this);
  if (!with_choice) return disjunction();
  const int at = line();
  const std::size_t before = missing_.size();
  Ex value = disjunction();
  while (skip_name("if")) {
    link();
    missing_.erase(missing_.begin() + static_cast<std::ptrdiff_t>(before), missing_.end());
    const bool soft = std::exchange(soft_, true);
    Ex condition = disjunction();
    Ex otherwise = skip_name("else") ? expression() : nullptr;
    soft_ = soft;
    value = choice(at, std::move(condition), std::move(value), std::move(otherwise));
  }
  return value;
}

Ex Parser::disjunction() {
  const int at = line();
  Ex left = conjunction();
  while (skip_name("or")) {
    link();
    left = any_of(at, std::move(left), conjunction());
  }
  return left;
}

Ex Parser::conjunction() {
  const int at = line();
  Ex left = inversion();
  while (skip_name("and")) {
    link();
    left = all_of(at, std::move(left), inversion());
  }
  return left;
}

Ex Parser::inversion() {
  const int at = line();
  if (!is_name("not")) return relation();
  const Nest nest(*this);
  take();
  return negation(at, inversion());
}

Ex Parser::relation() {
  static constexpr std::pair<std::string_view, Relation> kSigns[] = {
      {"==", Relation::equal},      {"!=", Relation::unequal}, {"<", Relation::less},
      {"<=", Relation::less_equal}, {">", Relation::greater},  {">=", Relation::greater_equal}};
  const int at = line();
  Ex first = sum();
  std::vector<std::pair<Relation, Ex>> others;
  for (;;) {
    const auto* const known =
        std::find_if(std::begin(kSigns), std::end(kSigns), [&](const auto& s) { return is_sign(s.first); });
    if (known != std::end(kSigns)) {
      take();
      others.emplace_back(known->second, sum());
    } else if (skip_name("in")) {
      others.emplace_back(Relation::in, sum());
    } else if (is_name("not") && next().kind == Kind::name && next().text == "in") {
      take();
      take();
      others.emplace_back(Relation::not_in, sum());
    } else {
      return others.empty() ? std::move(first) : comparison(at, std::move(first), std::move(others));
    }
  }
}

Ex Parser::sum() {
  const int at = line();
  Ex left = joined();
  while (is_sign("+") || is_sign("-")) {
    link();
    const Operator op = take().text == "+" ? add : subtract;
    left = operation(at, op, std::move(left), joined());
  }
  return left;
}

Ex Parser::joined() {
  const int at = line();
  std::vector<Ex> parts;
  parts.push_back(product());
  while (skip_sign("~")) parts.push_back(product());
  return parts.size() == 1 ? std::move(parts[0]) : concatenation(at, std::move(parts));
}

Ex Parser::product() {
  static constexpr std::pair<std::string_view, Operator> kSigns[] = {
      {"*", multiply}, {"/", divide}, {"//", floor_divide}, {"%", modulo}};
  const int at = line();
  Ex left = raised();
  for (;;) {
    const auto* const known =
        std::find_if(std::begin(kSigns), std::end(kSigns), [&](const auto& s) { return is_sign(s.first); });
    if (known == std::end(kSigns)) return left;
    link();
    take();
    left = operation(at, known->second, std::move(left), raised());
  }
}

Ex Parser::raised() {
  const int at = line();
  Ex left = signed_operand(true);
  while (skip_sign("**")) {
    link();
    left = operation(at, power, std::move(left), signed_operand(true));
  }
  return left;
}

Ex Parser::signed_operand(bool with_filters) {
  const Nest nest(*this);
  const int at = line();
  Ex value;
  if (skip_sign("-"))
    value = operation(at, minus, signed_operand(false), nullptr);
  else if (skip_sign("+"))
    value = operation(at, plus, signed_operand(false), nullptr);
  else
    value = postfix(primary());
  return with_filters ? filters_and_tests(std::move(value)) : std::move(value);
}

namespace {

Value number_of(const Token& t) {
  if (t.kind == Token::Kind::real) return Value::Any(std::strtod(t.text.c_str(), nullptr));
  const char prefix = t.text.size() > 1 && t.text[0] == '0' ? static_cast<char>(t.text[1] | 0x20) : ' ';
  const int base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
  const char *begin = t.text.data() + (base == 10 ? 0 : 2), *end = t.text.data() + t.text.size();
  std::int64_t v = 0;
  const auto [at, error] = std::from_chars(begin, end, v, base);
  if (error != std::errc() || at != end)
    throw Error(t.line, "a number that ft cannot read: " + printable(t.text));
  return Value::Any(v);
}

}  // namespace

Ex Parser::primary() {
  const int at = line();
  switch (now().kind) {
    case Kind::name: {
      const std::string name = take().text;
      if (name == "true" || name == "True") return constant(at, Value::Any(true));
      if (name == "false" || name == "False") return constant(at, Value::Any(false));
      if (name == "none" || name == "None") return constant(at, Value::Any(None{}));
      return variable(at, name);
    }
    case Kind::text: {
      std::string text = take().text;
      while (now().kind == Kind::text) text += take().text;
      return constant(at, Value::text(std::move(text)));
    }
    case Kind::integer:
    case Kind::real:
      return constant(at, number_of(take()));
    default:
      break;
  }
  if (skip_sign("(")) {
    const Nest nest(*this);
    Ex inner = tuple(true, {}, true);
    expect_sign(")");
    return inner;
  }
  if (is_sign("[")) return brackets();
  if (is_sign("{")) return braces();
  fail("expected a value, but " + shown());
}

Ex Parser::brackets() {
  const int at = take().line;
  std::vector<Ex> items;
  while (!is_sign("]")) {
    if (!items.empty()) expect_sign(",");
    if (is_sign("]")) break;
    items.push_back(expression());
  }
  expect_sign("]");
  return list_of(at, std::move(items), ListKind::list);
}

Ex Parser::braces() {
  const int at = take().line;
  std::vector<std::pair<Ex, Ex>> items;
  while (!is_sign("}")) {
    if (!items.empty()) expect_sign(",");
    if (is_sign("}")) break;
    Ex key = expression();
    expect_sign(":");
    items.emplace_back(std::move(key), expression());
  }
  expect_sign("}");
  return dict_of(at, std::move(items));
}

bool Parser::at_end_of_tuple(Words ends) const {
  const Kind k = now().kind;
  return k == Kind::end || k == Kind::end_block || k == Kind::end_print || is_sign(")") ||
         std::any_of(ends.begin(), ends.end(), [&](std::string_view e) { return is_name(e); });
}

// Parses one value, or several with commas between them.
Ex Parser::tuple(bool with_choice, Words ends, bool in_brackets) {
  const int at = line();
  std::vector<Ex> items;
  bool several = false;
  while (!at_end_of_tuple(ends)) {
    items.push_back(expression(with_choice));
    if (!skip_sign(",")) break;
    several = true;
  }
  if (!several && items.size() == 1) return std::move(items[0]);
  if (items.empty() && !in_brackets) fail("expected a value, but " + shown());
  return list_of(at, std::move(items), ListKind::tuple);
}

Ex Parser::postfix(Ex of) {
  for (;; link()) {
    const int at = line();
    if (skip_sign(".")) {
      if (now().kind == Kind::integer)
        of = item(at, std::move(of), constant(at, number_of(take())));
      else
        of = attribute(at, std::move(of), expect_identifier("an attribute"));
    } else if (is_sign("[")) {
      of = subscript(std::move(of));
    } else if (is_sign("(")) {
      of = call(at, std::move(of), arguments());
    } else {
      return of;
    }
  }
}

Ex Parser::subscript(Ex of) {
  const int at = take().line;
  Ex parts[3];
  int part = 0;
  bool is_slice = false;
  std::vector<Ex> several;
  while (!is_sign("]")) {
    if (skip_sign(":")) {
      is_slice = true;
      if (++part > 2) fail("a slice has at most two colons");
    } else if (!is_slice && is_sign(",") && parts[0]) {
      take();
      several.push_back(std::move(parts[0]));
    } else {
      if (parts[part]) fail("expected ], but " + shown());
      parts[part] = expression();
    }
  }
  expect_sign("]");
  if (is_slice)
    return slice(at, std::move(of), std::move(parts[0]), std::move(parts[1]), std::move(parts[2]));
  if (!several.empty()) {
    if (parts[0]) several.push_back(std::move(parts[0]));
    return item(at, std::move(of), list_of(at, std::move(several), ListKind::tuple));
  }
  if (!parts[0]) fail("expected a value in [ ]");
  return item(at, std::move(of), std::move(parts[0]));
}

Call Parser::arguments() {
  const Nest nest(*this);
  expect_sign("(");
  Call out;
  for (bool first = true; !is_sign(")"); first = false) {
    if (!first) expect_sign(",");
    if (is_sign(")")) break;
    if (skip_sign("**")) {
      if (out.more_named) fail("** twice in one call");
      out.more_named = expression();
    } else if (skip_sign("*")) {
      if (out.more_values || out.more_named) fail("* twice in one call, or behind **");
      out.more_values = expression();
    } else if (now().kind == Kind::name && next().kind == Kind::sign && next().text == "=") {
      if (out.more_named) fail("an argument behind **");
      std::string name = take().text;
      take();
      out.named.emplace_back(std::move(name), expression());
    } else {
      if (!out.named.empty() || out.more_values || out.more_named)
        fail("an argument without a name behind one with a name");
      out.values.push_back(expression());
    }
  }
  expect_sign(")");
  return out;
}

Ex Parser::filters_and_tests(Ex subject) {
  for (;; link()) {
    const int at = line();
    if (skip_sign("|"))
      subject = filter(std::move(subject));
    else if (skip_name("is"))
      subject = test(std::move(subject));
    else if (is_sign("("))
      subject = call(at, std::move(subject), arguments());
    else
      return subject;
  }
}

FilterCall Parser::filter_call() {
  const int at = line();
  std::string name = expect_identifier("a filter");
  while (skip_sign(".")) name += "." + expect_identifier("a filter");
  FilterCall out{at, filter_by_name(name), {}};
  if (is_sign("(")) out.arguments = arguments();
  if (!out.filter && !soft_) missing_.emplace_back(at, "there is no filter " + printable(name, 40));
  return out;
}

Ex Parser::filter(Ex subject) {
  const std::string name = now().text;
  FilterCall f = filter_call();
  if (!f.filter) return unknown(f.line, "there is no filter " + printable(name, 40));
  return filtered(f.line, std::move(subject), f.filter, std::move(f.arguments));
}

Ex Parser::test(Ex subject) {
  const bool negated = skip_name("not");
  const int at = line();
  std::string name = expect_identifier("a test");
  while (skip_sign(".")) name += "." + expect_identifier("a test");
  const Test known = test_by_name(name);
  if (!known && !soft_) missing_.emplace_back(at, "there is no test " + printable(name, 40));
  Call with;
  const Kind k = now().kind;
  const bool value = k == Kind::name || k == Kind::text || k == Kind::integer || k == Kind::real ||
                     is_sign("[") || is_sign("{");
  if (is_sign("(")) {
    with = arguments();
  } else if (value && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) fail("`is` twice: put the first test into brackets");
    const Nest nest(*this);
    with.values.push_back(postfix(primary()));
  }
  if (!known) return unknown(at, "there is no test " + printable(name, 40));
  return tested(at, std::move(subject), known, std::move(with), negated);
}

}  // namespace ft::jinja
