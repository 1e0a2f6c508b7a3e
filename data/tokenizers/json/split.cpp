// Splits a text at the matches of a pattern.
#include <algorithm>

#include "data/tokenizers/json/pre_tokenizer.h"

namespace ft {
namespace {

struct Part {
  std::size_t begin = 0, end = 0;
  bool match = false;
};

std::vector<Part> parts_of(std::string_view text, const Regex& pattern, bool invert) {
  std::vector<Part> parts;
  std::size_t done = 0;
  for (const Regex::Match& m : all_matches(text, pattern)) {
    if (done != m.begin) parts.push_back({done, m.begin, invert});
    parts.push_back({m.begin, m.end, !invert});
    done = m.end;
  }
  if (done != text.size()) parts.push_back({done, text.size(), invert});
  return parts;
}

// Joins parts: a part joins the one before it if joins(part, the part before is a match) returns true.
template <class Joins>
std::vector<Part> joined(const std::vector<Part>& parts, const Joins& joins) {
  std::vector<Part> out;
  bool previous = false;
  for (const Part& part : parts) {
    if (joins(part, previous) && !out.empty()) {
      out.back().begin = std::min(out.back().begin, part.begin);
      out.back().end = std::max(out.back().end, part.end);
    } else {
      out.push_back({part.begin, part.end, false});
    }
    previous = part.match;
  }
  return out;
}

}  // namespace

void split(std::string_view text, const Regex& pattern, SplitBehavior behavior, bool invert,
           std::vector<std::string_view>& pieces) {
  std::vector<Part> parts = parts_of(text, pattern, invert);
  const auto match_after_other = [](const Part& part, bool previous) { return part.match && !previous; };
  switch (behavior) {
    case SplitBehavior::removed:
      std::erase_if(parts, [](const Part& part) { return part.match; });
      break;
    case SplitBehavior::isolated:
      break;
    case SplitBehavior::merged_with_previous:
      parts = joined(parts, match_after_other);
      break;
    case SplitBehavior::merged_with_next:
      std::reverse(parts.begin(), parts.end());
      parts = joined(parts, match_after_other);
      std::reverse(parts.begin(), parts.end());
      break;
    case SplitBehavior::contiguous:
      parts = joined(parts, [](const Part& part, bool previous) { return part.match == previous; });
      break;
  }
  for (const Part& part : parts)
    if (part.begin != part.end) pieces.push_back(text.substr(part.begin, part.end - part.begin));
}

}  // namespace ft
