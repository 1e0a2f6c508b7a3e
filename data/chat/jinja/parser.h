// Builds a template's nodes from its tokens. The class has two files: expressions and tags.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/jinja/lexer.h"
#include "data/chat/jinja/statement.h"

namespace ft::jinja {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  Body parse();                                  // throws Error
  bool generates() const { return generates_; }  // the template has {% generation %}

 private:
  using Kind = Token::Kind;
  using Words = std::initializer_list<std::string_view>;

  // Tokens.
  const Token& now() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  int line() const { return now().line; }
  [[noreturn]] void fail(const std::string& what) const { throw Error(line(), what); }
  std::string shown() const;  // the current token, for messages
  Token take();
  bool is_sign(std::string_view s) const { return now().kind == Kind::sign && now().text == s; }
  bool is_name(std::string_view s) const { return now().kind == Kind::name && now().text == s; }
  bool skip_sign(std::string_view s);
  bool skip_name(std::string_view s);
  void expect_sign(std::string_view s);
  void expect_name(std::string_view s);
  std::string expect_identifier(const char* of);

  // Limits nesting: of brackets and blocks, and of chains such as a + b + c, because both make the tree deep.
  class Nest {
   public:
    explicit Nest(Parser& p) : p_(p) {
      if (++p_.nested_ > 120) p_.fail("brackets or blocks too deep within one another");
    }
    ~Nest() { --p_.nested_; }
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;

   private:
    Parser& p_;
  };
  void link();

  // Expressions, from the loosest binding to the tightest.
  Ex expression(bool with_choice = true);
  Ex disjunction();
  Ex conjunction();
  Ex inversion();
  Ex relation();
  Ex sum();
  Ex joined();
  Ex product();
  Ex raised();
  Ex signed_operand(bool with_filters);
  Ex primary();
  Ex postfix(Ex of);
  Ex subscript(Ex of);
  Ex filters_and_tests(Ex subject);
  Ex filter(Ex subject);
  Ex test(Ex subject);
  Ex brackets();
  Ex braces();
  Ex tuple(bool with_choice, Words ends, bool in_brackets = false);
  bool at_end_of_tuple(Words ends) const;
  Call arguments();
  FilterCall filter_call();

  // Tags.
  Body body(Words ends);  // up to a tag that begins with one of `ends`; its name is then the current token
  void statement(Body& to);
  void check_missing() const;
  St for_tag(int line);
  St if_tag(int line);
  St set_tag(int line);
  St with_tag(int line);
  St macro_tag(int line);
  St call_tag(int line);
  St autoescape_tag(int line);
  void parameters(Macro& macro);
  void end_block();
  void end_tag(std::string_view name);
  Body closed_body(std::string_view end);  // from %} to {% end
  std::vector<FilterCall> filters();
  Target target(bool with_attribute, bool with_tuple);
  Target one_target(bool with_attribute);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nested_ = 0, links_ = 0, loops_ = 0;
  bool soft_ = false;           // inside an `if`: unknown names fail only when evaluated
  std::vector<Error> missing_;  // unknown filters and tests outside any `if`
  bool generates_ = false;
};

}  // namespace ft::jinja
