// Parses tags and the text between them.
#include <algorithm>
#include <span>

#include "data/chat/jinja/parser.h"
#include "engine/core/error.h"

namespace ft::jinja {

Body Parser::parse() {
  Body all = body({});
  if (now().kind != Kind::end) fail("expected the template's end, but " + shown());
  return all;
}

Body Parser::body(Words ends) {
  const Nest nest(*this);
  const int begin = line();
  Body out;
  for (;;) {
    const Token& t = now();
    if (t.kind == Kind::end) {
      if (ends.size() == 0) return out;
      throw Error(begin,
                  str("a block is not closed: the template ends without {% ", *(ends.end() - 1), " %}"));
    }
    links_ = 0;
    if (t.kind == Kind::data) {
      const Token data = take();
      out.push_back(text(data.line, data.text));
    } else if (t.kind == Kind::print) {
      const int at = take().line;
      out.push_back(print(at, tuple(true, {})));
      if (now().kind != Kind::end_print) fail("expected }}, but " + shown());
      take();
      check_missing();
    } else {
      take();
      if (std::any_of(ends.begin(), ends.end(), [&](std::string_view e) { return is_name(e); })) return out;
      statement(out);
      check_missing();
    }
  }
}

void Parser::check_missing() const {
  if (!missing_.empty()) throw missing_.front();
}

void Parser::end_block() {
  if (now().kind != Kind::end_block) fail("expected %}, but " + shown());
  take();
}

void Parser::end_tag(std::string_view name) {
  expect_name(name);
  end_block();
}

Body Parser::closed_body(std::string_view end) {
  end_block();
  Body inner = body({end});
  end_tag(end);
  return inner;
}

void Parser::statement(Body& to) {
  const int at = line();
  const std::string tag = expect_identifier("a tag");
  const bool soft = soft_;
  if (tag != "if") soft_ = false;
  if (tag == "for") {
    to.push_back(for_tag(at));
  } else if (tag == "if") {
    to.push_back(if_tag(at));
  } else if (tag == "set") {
    soft_ = soft;
    to.push_back(set_tag(at));
  } else if (tag == "macro") {
    to.push_back(macro_tag(at));
  } else if (tag == "call") {
    to.push_back(call_tag(at));
  } else if (tag == "with") {
    to.push_back(with_tag(at));
  } else if (tag == "autoescape") {
    to.push_back(autoescape_tag(at));
  } else if (tag == "filter") {
    std::vector<FilterCall> through;
    through.push_back(filter_call());
    if (!through[0].filter) throw Error(at, "there is no such filter");
    for (FilterCall& f : filters()) through.push_back(std::move(f));
    to.push_back(filter_block(at, std::move(through), closed_body("endfilter")));
  } else if (tag == "generation") {
    generates_ = true;
    to.push_back(generation(at, closed_body("endgeneration")));
  } else if (tag == "break" || tag == "continue") {
    if (loops_ == 0) throw Error(at, tag + " outside a loop");
    to.push_back(leave(at, tag == "break" ? Flow::to_end : Flow::to_next));
    end_block();
  } else if (tag == "print") {
    soft_ = soft;
    to.push_back(print(at, expression()));
    while (skip_sign(",")) to.push_back(print(at, expression()));
    end_block();
  } else if (tag == "include" || tag == "import" || tag == "from" || tag == "extends") {
    while (now().kind != Kind::end_block && now().kind != Kind::end) take();
    end_block();
    to.push_back(fails(at, tag + ": a chat template cannot read other templates"));
  } else {
    throw Error(at, "there is no tag " + printable(tag, 40));
  }
  soft_ = soft;
}

St Parser::for_tag(int at) {
  auto loop = std::make_shared<Loop>();
  loop->line = at;
  loop->target = target(false, true);
  expect_name("in");
  loop->items = tuple(false, {"recursive", "if"});
  if (skip_name("if")) loop->condition = expression();
  loop->recursive = skip_name("recursive");
  end_block();
  ++loops_;
  loop->body = body({"else", "endfor"});
  --loops_;
  if (skip_name("else")) {
    end_block();
    loop->otherwise = body({"endfor"});
  }
  end_tag("endfor");
  return jinja::loop(std::move(loop));
}

St Parser::if_tag(int at) {
  soft_ = true;
  std::vector<std::pair<Ex, Body>> cases;
  Body otherwise;
  do {
    Ex condition = tuple(false, {});
    end_block();
    cases.emplace_back(std::move(condition), body({"elif", "else", "endif"}));
  } while (skip_name("elif"));
  if (skip_name("else")) {
    end_block();
    otherwise = body({"endif"});
  }
  end_tag("endif");
  return branch(at, std::move(cases), std::move(otherwise));
}

Target Parser::one_target(bool with_attribute) {
  const Nest nest(*this);
  if (skip_sign("(")) {
    Target inner = target(with_attribute, true);
    expect_sign(")");
    return inner;
  }
  Target out;
  out.name = expect_identifier("a variable");
  for (const std::string_view word : {"true", "false", "none", "True", "False", "None"})
    if (out.name == word) fail(out.name + " cannot be assigned to");
  if (with_attribute && skip_sign(".")) out.attribute = expect_identifier("an attribute");
  return out;
}

Target Parser::target(bool with_attribute, bool with_tuple) {
  Target first = one_target(with_attribute);
  if (!with_tuple || !is_sign(",")) return first;
  Target all;
  all.parts.push_back(std::move(first));
  while (skip_sign(",")) {
    if (now().kind != Kind::name && !is_sign("(")) break;
    if (is_name("in")) break;
    all.parts.push_back(one_target(with_attribute));
  }
  return all;
}

std::vector<FilterCall> Parser::filters() {
  std::vector<FilterCall> out;
  while (skip_sign("|")) {
    out.push_back(filter_call());
    if (!out.back().filter) throw Error(out.back().line, "there is no such filter");
  }
  return out;
}

St Parser::set_tag(int at) {
  Target to = target(true, true);
  if (skip_sign("=")) {
    Ex value = tuple(true, {});
    end_block();
    return assign(at, std::move(to), std::move(value));
  }
  std::vector<FilterCall> through = filters();
  return assign_block(at, std::move(to), std::move(through), closed_body("endset"));
}

St Parser::with_tag(int at) {
  std::vector<std::pair<Target, Ex>> variables;
  while (now().kind != Kind::end_block) {
    if (!variables.empty()) expect_sign(",");
    Target to = one_target(false);
    expect_sign("=");
    variables.emplace_back(std::move(to), expression());
  }
  return with(at, std::move(variables), closed_body("endwith"));
}

St Parser::autoescape_tag(int at) {
  if (!skip_name("false") && !skip_name("False"))
    throw Error(at, "autoescape: chat templates are not HTML; only false is supported");
  return with(at, {}, closed_body("endautoescape"));
}

void Parser::parameters(Macro& macro) {
  expect_sign("(");
  while (!is_sign(")")) {
    if (!macro.parameters.empty()) expect_sign(",");
    std::string name = expect_identifier("an argument");
    const bool otherwise = skip_sign("=");
    if (!otherwise && !macro.parameters.empty() && macro.parameters.back().second)
      fail("an argument without a default behind one with a default");
    macro.parameters.emplace_back(std::move(name), otherwise ? expression() : nullptr);
  }
  expect_sign(")");
}

namespace {

bool occurs(std::span<const Token> tokens, std::string_view name) {
  return std::any_of(tokens.begin(), tokens.end(),
                     [&](const Token& t) { return t.kind == Token::Kind::name && t.text == name; });
}

}  // namespace

St Parser::macro_tag(int at) {
  auto macro = std::make_shared<Macro>();
  macro->name = expect_identifier("a macro");
  parameters(*macro);
  const std::size_t begin = at_;
  const int loops = std::exchange(loops_, 0);
  macro->body = closed_body("endmacro");
  loops_ = loops;
  const std::span<const Token> words = std::span(tokens_).subspan(begin, at_ - begin);
  macro->takes_values = occurs(words, "varargs");
  macro->takes_named = occurs(words, "kwargs");
  macro->takes_caller = occurs(words, "caller");
  return define(at, std::move(macro));
}

St Parser::call_tag(int at) {
  auto caller = std::make_shared<Macro>();
  caller->name = "caller";
  if (is_sign("(")) parameters(*caller);
  Ex function = primary();
  while (skip_sign(".")) function = attribute(at, std::move(function), expect_identifier("an attribute"));
  Call with = arguments();
  caller->body = closed_body("endcall");
  return call_block(at, std::move(function), std::move(with), std::move(caller));
}

}  // namespace ft::jinja
