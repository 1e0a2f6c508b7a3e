// Metaspace, a pre-tokenizer and decoder: spaces are written as a character of the vocabulary, and a text
// gets one in front.
#pragma once
#include <string>

#include "engine/files/json.h"

namespace ft {

struct Metaspace {
  enum class Prepend { always, first, never };  // first: only at the beginning of the complete text

  std::string replacement;  // one character, U+2581 in practice
  Prepend prepend = Prepend::always;
};

Metaspace read_metaspace(const JsonObject& object);

}  // namespace ft
