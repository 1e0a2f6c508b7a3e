// Counts the occurrences of a text in another.
#pragma once
#include <cstddef>
#include <string_view>

namespace ft::test {

inline std::size_t times(std::string_view text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string_view::npos; at += what.size()) ++n;
  return n;
}

}  // namespace ft::test
