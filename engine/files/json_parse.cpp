// Parsing: text to events to a tree. The parser is nlohmann's; limits, duplicates, lines and wording are
// ft's.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/core/utf8.h"
#include "engine/files/file.h"
#include "engine/files/json.h"

namespace ft {
namespace {

// NaN or an infinity in a text.
struct NonFinitePlace {
  std::size_t at;
  double value;  // Infinity without its sign
};

// Replaces NaN and Infinity outside of quotes by zeros of the same length, which the parser can read. Returns
// their places.
std::vector<NonFinitePlace> take_non_finite(std::string& text) {
  constexpr std::pair<std::string_view, double> kWords[] = {
      {"NaN", std::numeric_limits<double>::quiet_NaN()},
      {"Infinity", std::numeric_limits<double>::infinity()}};
  std::vector<NonFinitePlace> places;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (quoted && text[i] == '\\') ++i;
    if (quoted) continue;
    for (const auto& [word, value] : kWords) {
      if (text.compare(i, word.size(), word) != 0) continue;
      text.replace(i, word.size(), "0E" + std::string(word.size() - 2, '0'));
      places.push_back({i, value});
    }
  }
  return places;
}

// Feeds the parser and reports its position.
struct TextCursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char* begin;
  std::size_t* offset;
  reference operator*() const { return *at; }
  TextCursor& operator++() {
    ++at;
    *offset = static_cast<std::size_t>(at - begin);
    return *this;
  }
  bool operator==(const TextCursor& o) const { return at == o.at; }
  bool operator!=(const TextCursor& o) const { return at != o.at; }
};

bool is_inside_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Throws "FILE:LINE: WHAT at column C", with the line around it and a caret below.
[[noreturn]] void fail_at(std::string_view text, std::size_t offset, const std::string& what,
                          const JsonSource& source, Exit exit) {
  static constexpr std::size_t kBefore = 60, kAfter = 40;
  offset = std::min(offset, text.size());
  const std::string_view before = text.substr(0, offset);
  const auto line = source.first_line + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  const std::size_t end = std::min(text.find('\n', offset), text.size());
  std::size_t from = offset - begin > kBefore ? offset - kBefore : begin;
  for (int i = 0; i < 3 && from > begin && from < offset && is_inside_character(text[from]); ++i) ++from;
  const std::string head = printable(text.substr(from, offset - from), 1000);
  const std::string tail = printable(utf8_beginning(text.substr(offset, end - offset), kAfter), 1000);
  std::string caret;
  for (const char c : head) caret += is_inside_character(c) ? "" : " ";
  throw UserError(exit, str(printable(source.file), ":", line, ": ", what, " at column ", offset - begin + 1,
                            "\n  ", head, tail, "\n  ", caret, "^"));
}

// Returns the parser's expectation, given its message: "[...] parse error at ...: syntax error while parsing
// object - unexpected string literal; expected '}'".
std::string wording(const std::string& message) {
  const auto after = [&message](std::string_view mark) {
    const std::size_t at = message.rfind(mark);
    return at == std::string::npos ? std::string() : message.substr(at + mark.size());
  };
  // Messages like "... - invalid string: ill-formed UTF-8 byte; last read: '...'": returns the middle.
  const std::size_t last = message.find("; last read"), invalid = message.find(" - invalid ");
  if (invalid < last && last != std::string::npos) return message.substr(invalid + 3, last - invalid - 3);
  const std::string expected = after("; expected ");
  if (expected.find("'}'") != std::string::npos) return "expected ',' or '}'";
  if (expected.find("']'") != std::string::npos) return "expected ',' or ']'";
  if (expected == "end of input") return "more text after the value";
  if (expected == "string literal") return "expected a key in quotes";
  if (message.find("number overflow") != std::string::npos) return "a number too large";
  for (const char* end : {"unexpected end of input", "an empty input"})  // the latter since 3.11.3
    if (message.find(end) != std::string::npos) return "it ends too early";
  const bool value = expected.empty() || expected.find("or a literal") != std::string::npos;
  return value ? "expected a value" : "expected " + expected;
}

// Returns the bytes of the unexpected token, so that the error points to its beginning. For strings and
// numbers this is the length of the lexer's text of the token.
std::size_t token_size(const std::string& message, const std::string& token) {
  const auto has = [&message](const char* what) { return message.find(what) != std::string::npos; };
  if (has("unexpected string literal") || has("unexpected number literal") || has("number overflow"))
    return token.size();
  if (has("unexpected false literal")) return 5;
  if (has("unexpected true literal") || has("unexpected null literal")) return 4;
  return 1;
}

// Adapts nlohmann's SAX interface to JsonEvents.
struct Sax : nlohmann::json_sax<Json> {
  Sax(std::string_view t, const JsonSource& s, const JsonRules& r, JsonEvents& e)
      : text(t), source(s), rules(r), events(e) {}

  bool null() override { return events.on_null(), true; }
  bool boolean(bool v) override { return events.on_bool(v), true; }
  bool number_integer(number_integer_t v) override { return events.on_integer(v), true; }
  bool number_unsigned(number_unsigned_t v) override { return events.on_unsigned(v), true; }
  bool number_float(number_float_t v, const string_t&) override {
    const bool other = next_ < non_finite.size() && non_finite[next_].at < events.offset;
    if (other) v = std::copysign(non_finite[next_++].value, v);
    if (other && rules.non_finite == NonFinite::null) return null();
    return events.on_float(v), true;
  }
  bool string(string_t& v) override { return events.on_text(v), true; }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& v) override { return events.on_key(v), true; }
  bool start_object(std::size_t) override { return deeper(), events.on_object(true), true; }
  bool end_object() override { return --depth, events.on_object(false), true; }
  bool start_array(std::size_t) override { return deeper(), events.on_array(true), true; }
  bool end_array() override { return --depth, events.on_array(false), true; }

  void deeper() {
    if (++depth > rules.max_depth)
      fail_at(text, events.offset - 1, str("nested more than ", rules.max_depth, " deep"), source,
              rules.exit);
  }

  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    // The lexer's position is just after the text that it refused.
    const std::size_t size = std::min(token_size(error.what(), token), std::min(position, text.size()));
    const std::size_t offset = std::min(position, text.size() + 1) - size;
    fail_at(text, offset, "not JSON: " + wording(error.what()), source, rules.exit);
  }

  std::string_view text;
  const JsonSource& source;
  const JsonRules& rules;
  JsonEvents& events;
  std::vector<NonFinitePlace> non_finite;  // in the text's order
  int depth = 0;

 private:
  std::size_t next_ = 0;  // of non_finite
};

// Builds the tree. Objects are vectors of pairs, so each open level has a map that finds equal keys.
class Builder : public JsonEvents {
 public:
  Builder(std::string_view text, const JsonSource& source, const JsonRules& rules)
      : text_(text), source_(source), rules_(rules) {}

  void on_null() override { put(nullptr); }
  void on_bool(bool v) override { put(v); }
  void on_integer(std::int64_t v) override { put(v); }
  void on_unsigned(std::uint64_t v) override { put(v); }
  void on_float(double v) override { put(v); }
  void on_text(std::string& v) override { put(std::move(v)); }
  void on_object(bool begins) override { container(begins, Json::value_t::object); }
  void on_array(bool begins) override { container(begins, Json::value_t::array); }
  void on_key(std::string& v) override {
    const auto [found, fresh] = open_.back().keys.try_emplace(v, members().size());
    if (!fresh && rules_.unique_keys)
      fail_at(text_, offset - std::min(offset, v.size() + 1),
              str("the key \"", printable(v), "\" appears twice, again"), source_, rules_.exit);
    slot_ = found->second;
    if (fresh) members().emplace_back(std::move(v), Json());
  }

  Json root;

 private:
  struct Open {
    Json* value;
    std::unordered_map<std::string, std::size_t> keys;  // for an object: key to position
  };
  Json::object_t& members() { return *open_.back().value->get_ptr<Json::object_t*>(); }

  // Containers that are still open do not move: only the innermost one grows.
  template <class V>
  Json* put(V&& v) {
    if (open_.empty()) return &(root = std::forward<V>(v));
    Json* into = open_.back().value;
    if (into->is_object()) {
      return &((members().begin() + static_cast<std::ptrdiff_t>(slot_))->second = std::forward<V>(v));
    }
    auto& items = *into->get_ptr<Json::array_t*>();
    return &items.emplace_back(std::forward<V>(v));
  }
  void container(bool begins, Json::value_t type) {
    if (begins)
      open_.push_back({put(Json(type)), {}});
    else
      open_.pop_back();
  }

  std::string_view text_;
  const JsonSource& source_;
  const JsonRules& rules_;
  std::vector<Open> open_;
  std::size_t slot_ = 0;  // index of the member that gets the next value
};

}  // namespace

void parse_json(std::string_view text, const JsonSource& source, JsonEvents& events, const JsonRules& rules) {
  if (text.size() > rules.max_bytes)
    throw UserError(rules.exit, str(printable(source.file), ": is ", text.size(), " bytes of JSON; at most ",
                                    rules.max_bytes, " are read"));
  events.offset = 0;
  Sax sax(text, source, rules, events);
  std::string plain;
  std::string_view parsed = text;
  if (rules.non_finite != NonFinite::refused &&
      (text.find("NaN") != text.npos || text.find("Infinity") != text.npos)) {
    plain = text;
    sax.non_finite = take_non_finite(plain);
    parsed = plain;
  }
  const char *begin = parsed.data(), *end = begin + parsed.size();
  Json::sax_parse(TextCursor{begin, begin, &events.offset}, TextCursor{end, begin, &events.offset}, &sax);
}

Json parse_json(std::string_view text, const JsonSource& source, const JsonRules& rules) {
  Builder builder(text, source, rules);
  parse_json(text, source, builder, rules);
  return std::move(builder.root);
}

Json read_json(const std::string& path, const JsonRules& rules) {
  const std::string text = read_file(path, static_cast<std::int64_t>(rules.max_bytes), rules.exit);
  return parse_json(text, {path}, rules);
}

}  // namespace ft
