// Converts the letters A to Z of a text to lower case.
#pragma once
#include <string>

namespace ft {

inline std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace ft
