#include "data/chat/jinja/split.h"

#include <algorithm>

#include "data/chat/jinja/arguments.h"
#include "data/chat/jinja/text.h"
#include "data/files/utf8.h"

namespace ft::jinja {
namespace {

using Pieces = std::vector<std::string_view>;

// Splits at white space, at most `most` times (-1: no limit); the rest keeps its inner white space.
Pieces by_space(std::string_view text, std::int64_t most, bool from_right) {
  const Pieces words = words_of(text);
  if (most < 0 || static_cast<std::int64_t>(words.size()) <= most) return words;
  const auto cuts = static_cast<std::size_t>(most);
  if (words.empty()) return {};
  if (!from_right) {
    Pieces out(words.begin(), words.begin() + most);
    if (cuts < words.size())
      out.push_back(text.substr(static_cast<std::size_t>(words[cuts].data() - text.data())));
    return out;
  }
  Pieces out(words.end() - most, words.end());
  const std::string_view& last = words[words.size() - cuts - 1];
  const auto end = static_cast<std::size_t>(last.data() + last.size() - text.data());
  out.insert(out.begin(), text.substr(0, end));
  return out;
}

Pieces by_text(std::string_view text, std::string_view between, std::int64_t most, bool from_right) {
  Pieces out;
  for (; most != 0; --most) {
    const std::size_t at = from_right ? text.rfind(between) : text.find(between);
    if (at == std::string_view::npos) break;
    out.push_back(from_right ? text.substr(at + between.size()) : text.substr(0, at));
    text = from_right ? text.substr(0, at) : text.substr(at + between.size());
  }
  out.push_back(text);
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

Value list_of_pieces(Machine& m, const Pieces& pieces, ListKind kind = ListKind::list) {
  std::vector<Value> out;
  for (const std::string_view p : pieces) out.push_back(m.text(std::string(p)));
  return m.list(std::move(out), kind);
}

}  // namespace

Value split(Machine& m, const std::string& text, const Arguments& given, bool from_right) {
  const Bound a(m, "split", given, {"sep", "maxsplit"});
  const std::int64_t most = a.integer(1, -1);
  m.step_over(text);
  if (!a.has(0) || a[0].is_none()) return list_of_pieces(m, by_space(text, most, from_right));
  const std::string* between = a[0].text();
  if (!between || between->empty()) m.fail("split: the separator must be a text, and not empty");
  m.step_search(text, *between);
  m.check_room(static_cast<std::int64_t>(text.size() / between->size()) * 16);
  return list_of_pieces(m, by_text(text, *between, most, from_right));
}

Value partition(Machine& m, const std::string& text, const Arguments& given, bool from_right) {
  const Bound a(m, "partition", given, {"sep"}, 1);
  const std::string* between = a[0].text();
  if (!between || between->empty()) m.fail("partition: the separator must be a text, and not empty");
  m.step_search(text, *between);
  const Pieces two = by_text(text, *between, 1, from_right);
  if (two.size() == 2) return list_of_pieces(m, {two[0], *between, two[1]}, ListKind::tuple);
  return list_of_pieces(m, from_right ? Pieces{"", "", text} : Pieces{text, "", ""}, ListKind::tuple);
}

Value split_lines(Machine& m, const std::string& text, const Arguments& given) {
  const Bound a(m, "splitlines", given, {"keepends"});
  const auto ends = [](char32_t c) {
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
  };
  m.step_over(text);
  Pieces out;
  std::size_t begin = 0;
  const std::string_view all = text;
  for (std::size_t i = 0; i < all.size();) {
    std::size_t n = std::max<std::size_t>(1, utf8_length(all, i));
    if (!ends(utf8_code_point(all, i))) {
      i += n;
      continue;
    }
    if (all.substr(i).starts_with("\r\n")) n = 2;
    out.push_back(all.substr(begin, (a.flag(0, false) ? i + n : i) - begin));
    begin = i += n;
  }
  if (begin < all.size()) out.push_back(all.substr(begin));
  return list_of_pieces(m, out);
}

}  // namespace ft::jinja
