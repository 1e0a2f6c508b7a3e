#include "data/tokenizers/patterns.h"

namespace ft {

Regex read_pattern(const JsonObject& object, std::string_view key) {
  const JsonObject pattern = object.object(key);
  if (pattern.has("String")) return Regex::literal(pattern.text("String"));
  return Regex::oniguruma(pattern.text("Regex"), printable(object.file()));
}

std::string replaced(std::string_view text, const Regex& pattern, std::string_view by) {
  std::string out;
  std::size_t done = 0;
  for (const Regex::Match& m : all_matches(text, pattern)) {
    out += text.substr(done, m.begin - done);
    out += by;
    done = m.end;
  }
  out += text.substr(done);
  return out;
}

}  // namespace ft
