// Metaspace, a part that cuts texts and a part that puts them together again: spaces are written as a
// character of the vocabulary, and a text gets one in front.
#pragma once
#include <string>

#include "engine/files/json.h"

namespace ft {

struct Metaspace {
  enum class Prepend { always, first, never };  // first: only where the whole text begins

  std::string replacement;  // one character, U+2581 in practice
  Prepend prepend = Prepend::always;
};

Metaspace read_metaspace(const JsonObject& object);

}  // namespace ft
