// Cuts a template into text and the tokens of its tags, with the white space rules that transformers sets.
// trim_blocks removes a line feed after a block. lstrip_blocks removes blanks before a block that begins its
// line. The signs - and + at a tag's ends are obeyed. \r\n becomes \n, and one line feed at the template's
// end is removed.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ft::jinja {

struct Token {
  // data: text between tags; block and print: {% %} and {{ }}
  enum class Kind : std::uint8_t {
    data,
    block,
    end_block,
    print,
    end_print,
    name,
    text,
    integer,
    real,
    sign,
    end
  };
  Kind kind = Kind::end;
  int line = 1;
  std::string text{};  // a text's value; other tokens as written
};

// Throws Error for an unknown character, an unclosed tag or text, or brackets that do not match.
std::vector<Token> tokens_of(std::string_view source);

// Returns the value of a quoted text with escapes such as \n, \x41, \u20ac. Throws std::invalid_argument.
std::string unescaped(std::string_view text);

}  // namespace ft::jinja
