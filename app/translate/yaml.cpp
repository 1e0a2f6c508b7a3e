#include "app/translate/yaml.h"

#include <yaml.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/core/lower_case.h"
#include "engine/core/utf8.h"

namespace ft::translate {
namespace {

constexpr std::string_view kStandard = "tag:yaml.org,2002:";

// An event of libyaml, which frees itself.
struct Event : yaml_event_t {
  Event() : yaml_event_t{} {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { yaml_event_delete(this); }
};

std::string text_of(const yaml_char_t* text) { return text ? reinterpret_cast<const char*>(text) : ""; }

// Returns the digits of an integer as JSON, or null if the text is none.
Json whole_number(std::string text) {
  std::erase(text, '_');
  const bool minus = text.starts_with('-');
  const std::size_t sign = minus || text.starts_with('+') ? 1 : 0;
  std::string_view digits = std::string_view(text).substr(sign);
  const int base = digits.starts_with("0x")                ? 16
                   : digits.starts_with("0b")              ? 2
                   : digits.size() > 1 && digits[0] == '0' ? 8
                                                           : 10;
  if (base == 16 || base == 2) digits.remove_prefix(2);
  const std::string_view all = std::string_view("0123456789abcdef").substr(0, static_cast<std::size_t>(base));
  if (digits.empty() || lower_case(std::string(digits)).find_first_not_of(all) != std::string::npos)
    return {};
  try {
    const std::int64_t value = std::stoll(std::string(digits), nullptr, base);
    return minus ? -value : value;
  } catch (const std::out_of_range&) {
    return {};
  }
}

// Returns a number with a point as JSON, or null if the text is none. As in YAML 1.1 2e-5 is none.
Json real_number(std::string text) {
  std::erase(text, '_');
  const std::size_t point = text.find('.'), exponent = text.find_first_of("eE");
  if (point == text.npos || text.find_first_not_of("0123456789.eE+-") != text.npos) return {};
  if (exponent != text.npos && (exponent < point || exponent + 1 == text.size() ||
                                std::string_view("+-").find(text[exponent + 1]) == std::string_view::npos))
    return {};
  try {
    std::size_t read = 0;
    const double value = std::stod(text, &read);
    return read == text.size() && std::isfinite(value) ? Json(value) : Json();
  } catch (const std::exception&) {
    return {};
  }
}

// Returns the value of a scalar without quotes.
Json plain_scalar(const std::string& text) {
  const std::string word = text.size() <= 5 ? lower_case(text) : "";
  if (text.empty() || text == "~" || word == "null") return {};
  if (word == "true" || word == "yes" || word == "on") return true;
  if (word == "false" || word == "no" || word == "off") return false;
  if (const Json whole = whole_number(text); !whole.is_null()) return whole;
  if (const Json real = real_number(text); !real.is_null()) return real;
  return text;
}

class YamlReader {
 public:
  YamlReader(std::string_view text, const std::string& name, const YamlRules& rules)
      : name_(name), rules_(rules) {
    if (text.size() > rules.max_bytes)
      fail(1, str("is ", text.size(), " bytes long; at most ", rules.max_bytes, " are read"));
    if (!is_utf8(text)) fail(1, "is not UTF-8");
    if (yaml_parser_initialize(&parser_) == 0) throw std::bad_alloc();
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
    yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
  }
  YamlReader(const YamlReader&) = delete;
  YamlReader& operator=(const YamlReader&) = delete;
  ~YamlReader() { yaml_parser_delete(&parser_); }

  YamlFile read() {
    YamlFile file;
    file.text.name = name_;
    notes_ = &file.notes;
    for (Event event; next(event), event.type != YAML_STREAM_END_EVENT; yaml_event_delete(&event)) {
      if (event.type != YAML_DOCUMENT_START_EVENT) continue;
      if (!file.text.value.is_null()) fail(line_of(event), "a second document begins; a run has one");
      Event top;
      next(top);
      file.text.value = node(top, "", 0);
      if (!file.text.value.is_object()) fail(line_of(top), "is no list of settings, key: value");
    }
    if (file.text.value.is_null()) fail(1, "has no settings");
    file.text.lines = std::move(lines_);
    return file;
  }

 private:
  // An anchored node, and the number of nodes in it; 0: it is being read.
  static constexpr std::size_t kLongestKey = 256;

  struct Anchored {
    Json value;
    std::int64_t nodes = 0;
    std::size_t bytes = 0;  // of its texts
  };

  [[noreturn]] void fail(int line, const std::string& what) const {
    throw UserError(Exit::config, str(name_, ":", line, ": ", what));
  }
  static int line_of(const Event& event) { return static_cast<int>(event.start_mark.line) + 1; }

  void next(Event& event) {
    if (yaml_parser_parse(&parser_, &event) != 0) return;
    const std::string context = parser_.context ? str(", ", parser_.context) : "";
    fail(static_cast<int>(parser_.problem_mark.line) + 1,
         str("not YAML: ", parser_.problem ? parser_.problem : "broken", context));
  }

  void count(std::int64_t nodes, int line) {
    nodes_ += nodes;
    if (nodes_ > rules_.max_nodes)
      fail(line, str("more than ", rules_.max_nodes, " values, those that aliases repeat included"));
  }

  void count_bytes(std::size_t bytes, int line) {
    bytes_ += bytes;
    if (bytes_ > 4 * rules_.max_bytes) fail(line, "its aliases repeat too much text");
  }

  // Reads the node that an event begins. `path`: its place, "datasets.0.path".
  Json node(const Event& event, const std::string& path, int depth) {
    const int line = line_of(event);
    if (depth > rules_.max_depth) fail(line, str("more than ", rules_.max_depth, " levels deep"));
    if (!path.empty()) lines_[path] = line;
    if (event.type == YAML_ALIAS_EVENT) return repeated(text_of(event.data.alias.anchor), line);
    count(1, line);
    const std::int64_t before = nodes_ - 1;
    const std::size_t bytes = bytes_;
    const bool list = event.type == YAML_SEQUENCE_START_EVENT, map = event.type == YAML_MAPPING_START_EVENT;
    const std::string anchor = text_of(list  ? event.data.sequence_start.anchor
                                       : map ? event.data.mapping_start.anchor
                                             : event.data.scalar.anchor);
    if (!anchor.empty()) anchors_[anchor] = {};
    Json value = list ? sequence(event, path, depth) : map ? mapping(event, path, depth) : scalar(event);
    if (!anchor.empty()) anchors_[anchor] = {value, nodes_ - before, bytes_ - bytes};
    return value;
  }

  Json repeated(const std::string& anchor, int line) {
    const auto at = anchors_.find(anchor);
    if (at == anchors_.end()) fail(line, str("*", printable(anchor), ": there is no &", printable(anchor)));
    if (at->second.nodes == 0) fail(line, str("*", printable(anchor), " contains itself"));
    count(at->second.nodes, line);
    count_bytes(at->second.bytes, line);
    return at->second.value;
  }

  Json sequence(const Event& begin, const std::string& path, int depth) {
    require_tag(text_of(begin.data.sequence_start.tag), "seq", line_of(begin));
    Json all = Json::array();
    for (Event event; next(event), event.type != YAML_SEQUENCE_END_EVENT; yaml_event_delete(&event))
      all.push_back(node(event, str(path, path.empty() ? "" : ".", all.size()), depth + 1));
    return all;
  }

  Json mapping(const Event& begin, const std::string& path, int depth) {
    require_tag(text_of(begin.data.mapping_start.tag), "map", line_of(begin));
    Json own = Json::object(), merged = Json::object();
    for (Event event; next(event), event.type != YAML_MAPPING_END_EVENT; yaml_event_delete(&event)) {
      const int line = line_of(event);
      if (event.type != YAML_SCALAR_EVENT) fail(line, "a key must be a word");
      count(1, line);
      const std::string key = text_of(event.data.scalar.value);
      if (key.size() > kLongestKey) fail(line, str("a key is longer than ", kLongestKey, " bytes"));
      const bool merge = key == "<<" && event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
      Event of;
      next(of);
      const Json value = node(of, str(path, path.empty() ? "" : ".", key), depth + 1);
      if (merge)
        merge_into(merged, value, line);
      else if (own.contains(key))
        notes_->push_back(
            str(name_, ":", line, ": ", printable(key), " is given twice; the last one counts"));
      if (!merge) own[key] = value;
    }
    for (const auto& [key, value] : merged.items())
      if (!own.contains(key)) own[key] = value;
    return own;
  }

  // Adds the keys of "<<: *base" or of "<<: [*a, *b]", of which the first counts.
  void merge_into(Json& merged, const Json& from, int line) const {
    const Json all = from.is_array() ? from : Json::array({from});
    for (const Json& map : all) {
      if (!map.is_object()) fail(line, "<<: takes a mapping, or a list of mappings");
      for (const auto& [key, value] : map.items())
        if (!merged.contains(key)) merged[key] = value;
    }
  }

  Json scalar(const Event& event) {
    const auto& s = event.data.scalar;
    count_bytes(s.length, line_of(event));
    const std::string text(reinterpret_cast<const char*>(s.value), s.length), tag = text_of(s.tag);
    if (text.find('\0') != text.npos) fail(line_of(event), "a text has a zero byte");
    if (tag.empty() || tag == "!") {
      const bool plain = s.style == YAML_PLAIN_SCALAR_STYLE && tag.empty();
      return plain ? plain_scalar(text) : Json(text);
    }
    if (tag == str(kStandard, "str")) return text;
    for (const char* known : {"int", "float", "bool", "null"})
      if (tag == str(kStandard, known)) return plain_scalar(text);
    refuse_tag(tag, line_of(event));
  }

  void require_tag(const std::string& tag, const char* wanted, int line) const {
    if (!tag.empty() && tag != "!" && tag != str(kStandard, wanted)) refuse_tag(tag, line);
  }
  [[noreturn]] void refuse_tag(const std::string& tag, int line) const {
    fail(line, str("the tag ", printable(tag), " makes an object of another program; write a plain value"));
  }

  std::string name_;
  YamlRules rules_;
  yaml_parser_t parser_{};
  std::int64_t nodes_ = 0;
  std::size_t bytes_ = 0;
  JsonLines lines_;
  std::map<std::string, Anchored> anchors_;
  std::vector<std::string>* notes_ = nullptr;
};

}  // namespace

YamlFile parse_yaml(std::string_view text, const std::string& name, const YamlRules& rules) {
  return YamlReader(text, name, rules).read();
}

}  // namespace ft::translate
