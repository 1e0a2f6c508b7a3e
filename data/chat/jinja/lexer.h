// Cuts a template into text and the words of its tags, with the white space rules that transformers sets:
// trim_blocks (a line feed behind a block goes), lstrip_blocks (blanks before a block that begins its line
// go), and the signs - and + at a tag's ends. \r\n is \n, and one line feed at the template's end goes.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ft::jinja {

struct Token {
  // data: between tags; block and print: {% %} and {{ }}
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
  std::string text{};  // a text's value; everything else as it is written
};

// Throws an Error: an unknown character, a tag or text that is not closed, brackets that do not match.
std::vector<Token> tokens_of(std::string_view source);

// The value of a text between quotes: \n, \x41, \u20ac and so on. Throws std::invalid_argument.
std::string unescaped(std::string_view text);

}  // namespace ft::jinja
