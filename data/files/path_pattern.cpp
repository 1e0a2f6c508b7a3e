#include "data/files/path_pattern.h"

#include <string>
#include <vector>

namespace ft {
namespace {

std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t slash = path.find('/');
    if (const std::string_view part = path.substr(0, slash); !part.empty() && part != ".")
      parts.push_back(part);
    if (slash == path.npos) return parts;
    path.remove_prefix(slash + 1);
  }
}

// Returns the end of the set that begins at pattern[at]; npos if it is only a bracket.
std::size_t end_of_set(std::string_view pattern, std::size_t at) {
  const std::size_t first = at + 1 + (pattern.substr(at + 1).starts_with('!'));
  return first < pattern.size() ? pattern.find(']', first + 1) : pattern.npos;
}

bool in_set(std::string_view set, char c) {
  const bool without = set.starts_with('!');
  if (without) set.remove_prefix(1);
  bool found = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    const bool range = i + 2 < set.size() && set[i + 1] == '-';
    found |= range ? set[i] <= c && c <= set[i + 2] : set[i] == c;
    i += range ? 2 : 0;
  }
  return found != without;
}

// Matches one character with pattern[at], and moves `at` after it.
bool one_matches(std::string_view pattern, std::size_t& at, char c) {
  const char p = pattern[at];
  const std::size_t end = p == '[' ? end_of_set(pattern, at) : pattern.npos;
  if (end != pattern.npos) {
    const std::string_view set = pattern.substr(at + 1, end - at - 1);
    at = end + 1;
    return in_set(set, c);
  }
  ++at;
  return p == '?' || p == c;
}

}  // namespace

// If the pattern after a star does not match, the last star takes one more character.
bool name_matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = pattern.npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (std::size_t behind = p; p < pattern.size() && one_matches(pattern, behind, name[n])) {
      p = behind;
      ++n;
    } else if (star != pattern.npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool path_matches(std::string_view pattern, std::string_view path) {
  const auto patterns = parts_of(pattern), names = parts_of(path);
  // reached[n]: the parts of the pattern so far match the first n names.
  std::vector<bool> reached(names.size() + 1);
  reached[0] = true;
  for (std::size_t p = 0; p < patterns.size(); ++p) {
    std::vector<bool> next(names.size() + 1);
    const bool folders = patterns[p] == "**", last = p + 1 == patterns.size();
    bool before = false;
    for (std::size_t n = 0; n <= names.size(); ++n) {
      if (folders) {
        next[n] = last ? before : before || reached[n];  // a last ** matches at least one name
        before = before || reached[n];
      } else {
        next[n] = n > 0 && reached[n - 1] && name_matches(patterns[p], names[n - 1]);
      }
    }
    reached = std::move(next);
  }
  return reached[names.size()];
}

}  // namespace ft
