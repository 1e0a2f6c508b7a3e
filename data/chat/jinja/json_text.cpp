// Writes JSON as Python's json.dumps does.
#include <algorithm>
#include <cmath>

#include "data/chat/jinja/compare.h"
#include "data/chat/jinja/print.h"
#include "data/chat/jinja/text.h"
#include "data/files/utf8.h"

namespace ft::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Machine& m, Writer& out, const JsonForm& form) : m_(m), out_(out), form_(form) {}

  void write(const Value& value) {
    const Machine::Level level(m_, m_.line());
    if (value.text() || value.is_none() || value.is_number()) return text_or_bare(value);
    if (const Dict* d = value.dict()) return object(*d);
    const List* l = value.list();
    using enum ListKind;
    if (!l || (l->kind != list && l->kind != tuple && l->kind != group))
      m_.fail("tojson: " + type_of(value) + " cannot be written as JSON");
    array(*l);
  }

 private:
  void text_or_bare(const Value& value) {
    if (const std::string* t = value.text()) return text(*t);
    out_.add(bare(value));
  }
  static std::string bare(const Value& value) {
    if (value.is_none()) return "null";
    if (const auto* b = value.as<bool>()) return *b ? "true" : "false";
    if (const auto i = value.integer()) return std::to_string(*i);
    const double v = *value.number();
    if (std::isnan(v)) return "NaN";
    if (std::isinf(v)) return v < 0 ? "-Infinity" : "Infinity";
    return printed_float(v);
  }

  void escape(char32_t unit) {
    std::string hex = "\\u";
    for (int k = 3; k >= 0; --k) hex += "0123456789abcdef"[unit >> 4 * k & 0xF];
    out_.add(hex);
  }
  void text(const std::string& t) {
    static constexpr std::string_view kJsonLetters = "\"\\nrtfb", kJsonMeanings = "\"\\\n\r\t\f\b";
    m_.step_over(t);
    out_.add("\"");
    for (std::size_t i = 0; i < t.size();) {
      const std::size_t n = std::max<std::size_t>(1, utf8_length(t, i));
      const char32_t c = utf8_code_point(t, i);
      if (const std::size_t known = kJsonMeanings.find(t[i]); known != std::string_view::npos)
        out_.add(std::string{'\\', kJsonLetters[known]});
      else if (c < 0x20 || (form_.ascii && c > 0x7E && c < 0x10000))
        escape(c);
      else if (form_.ascii && c > 0xFFFF)
        escape(0xD800 + ((c - 0x10000) >> 10)), escape(0xDC00 + ((c - 0x10000) & 0x3FF));
      else
        out_.add(std::string_view(t).substr(i, n));
      i += n;
    }
    out_.add("\"");
  }

  void line_feed() {
    if (!form_.indented) return;
    out_.add("\n");
    for (int i = 0; i < level_; ++i) out_.add(form_.indent);
  }
  template <class Items, class Write>
  void all(const Items& items, const char* open, const char* close, Write&& write_one) {
    out_.add(open);
    if (!items.empty()) {
      ++level_;
      bool first = true;
      for (const auto& item : items) {
        if (!std::exchange(first, false)) out_.add(form_.item);
        line_feed();
        write_one(item);
      }
      --level_;
      line_feed();
    }
    out_.add(close);
  }
  void array(const List& list) {
    all(list.items, "[", "]", [&](const Value& item) { write(item); });
  }
  void object(const Dict& dict) {
    const auto one = [&](const Dict::Entry& entry) {
      const Value& key = entry.first;
      if (!key.text() && !key.is_none() && !key.is_number()) m_.fail("tojson: " + type_of(key) + " as a key");
      text(key.text() ? *key.text() : bare(key));
      out_.add(form_.key);
      write(entry.second);
    };
    if (!form_.sorted) return all(dict.entries(), "{", "}", one);
    std::vector<Dict::Entry> entries = dict.entries();
    m_.step(static_cast<std::int64_t>(entries.size()) * 8);
    std::stable_sort(entries.begin(), entries.end(),
                     [&](const auto& a, const auto& b) { return less(m_, a.first, b.first); });
    all(entries, "{", "}", one);
  }

  Machine& m_;
  Writer& out_;
  const JsonForm& form_;
  int level_ = 0;
};

}  // namespace

void write_json(Machine& m, Writer& out, const Value& value, const JsonForm& form) {
  JsonWriter(m, out, form).write(value);
}

}  // namespace ft::jinja
