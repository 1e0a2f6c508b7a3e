#include "data/tokenizers/json/metaspace.h"

#include "data/files/utf8.h"

namespace ft {

Metaspace read_metaspace(const JsonObject& object) {
  Metaspace m;
  m.replacement = object.text("replacement");
  if (m.replacement.empty() || utf8_length(m.replacement, 0) != m.replacement.size())
    object.refuse("replacement", "one character");
  const std::string scheme = object.text_or("prepend_scheme", "always");
  // Older files have add_prefix_space.
  if (scheme == "never" || !object.boolean_or("add_prefix_space", true))
    m.prepend = Metaspace::Prepend::never;
  else if (scheme == "first")
    m.prepend = Metaspace::Prepend::first;
  else if (scheme != "always")
    object.refuse("prepend_scheme", "one of always, first, never");
  return m;
}

}  // namespace ft
