#include "data/files/yaml.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "data/files/row_reader.h"

namespace ft {
namespace {

constexpr int kDeepest = 32;

struct Line {
  std::size_t indent;
  std::string_view text;  // without indentation, comment and trailing white space
  std::int64_t number;
};

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string_view without_end(std::string_view text) {
  while (!text.empty() && (is_blank(text.back()) || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

// Removes a comment: a # after a blank, outside of quotes.
std::string_view without_comment(std::string_view text) {
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quote != 0)
      quote = text[i] == quote ? '\0' : quote;
    else if ((text[i] == '"' || text[i] == '\'') &&
             (i == 0 || std::string_view("[{, ").find(text[i - 1]) != text.npos))
      quote = text[i];
    else if (text[i] == '#' && (i == 0 || is_blank(text[i - 1])))
      return text.substr(0, i);
  }
  return text;
}

std::vector<Line> lines_of(std::string_view text, std::int64_t number) {
  std::vector<Line> lines;
  for (; !text.empty(); ++number) {
    const std::size_t feed = text.find('\n');
    std::string_view line = text.substr(0, feed);
    text.remove_prefix(feed == text.npos ? text.size() : feed + 1);
    const std::size_t indent = line.find_first_not_of(' ');
    if (indent == line.npos) continue;
    line = without_end(without_comment(line.substr(indent)));
    if (!line.empty()) lines.push_back({indent, line, number});
  }
  return lines;
}

class Yaml {
 public:
  Yaml(std::vector<Line> lines, const std::string& file) : lines_(std::move(lines)), file_(file) {}

  Json key(std::string_view wanted) {
    for (at_ = 0; at_ < lines_.size(); ++at_)
      if (const auto colon = colon_of(lines_[at_].text); lines_[at_].indent == 0 &&
                                                         colon != std::string_view::npos &&
                                                         lines_[at_].text.substr(0, colon) == wanted)
        return value_behind(colon, 0, 0);
    return nullptr;
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    Place{&file_, lines_[std::min(at_, lines_.size() - 1)].number}.fail(what);
  }
  bool more(std::size_t indent) const { return at_ < lines_.size() && lines_[at_].indent == indent; }
  static bool is_item(std::string_view text) { return text == "-" || text.starts_with("- "); }

  // Returns the position of the colon after a key.
  static std::size_t colon_of(std::string_view text) {
    if (text.starts_with('{') || text.starts_with('[')) return text.npos;
    if (text.starts_with('"') || text.starts_with('\'')) {
      const std::size_t end = text.find(text[0], 1);
      return end != text.npos && text.substr(end + 1).starts_with(':') ? end + 1 : text.npos;
    }
    for (std::size_t i = text.find(':'); i != text.npos; i = text.find(':', i + 1))
      if (i + 1 == text.size() || is_blank(text[i + 1])) return i;
    return text.npos;
  }

  // Reads the block that begins in this line.
  Json block(int depth) {
    if (depth > kDeepest) fail("nested too deeply");
    const Line& line = lines_[at_];
    if (is_item(line.text)) return sequence(line.indent, depth);
    if (colon_of(line.text) != std::string_view::npos) return mapping(line.indent, depth);
    const Json value = scalar(line.text, depth);
    ++at_;
    return value;
  }

  Json sequence(std::size_t indent, int depth) {
    Json list = Json::array();
    while (more(indent) && is_item(lines_[at_].text)) {
      Line& line = lines_[at_];
      const std::size_t begin = line.text.find_first_not_of(' ', 1);
      if (begin == line.text.npos) {
        ++at_;
        list.push_back(inner(indent, depth));
        continue;
      }
      line.indent += begin;  // the text after the dash is a block
      line.text.remove_prefix(begin);
      list.push_back(block(depth + 1));
    }
    return list;
  }

  Json mapping(std::size_t indent, int depth) {
    Json object = Json::object();
    while (more(indent) && !is_item(lines_[at_].text)) {
      const std::size_t colon = colon_of(lines_[at_].text);
      if (colon == std::string_view::npos) fail("YAML that ft does not read: a line without a key");
      const std::string name = scalar(lines_[at_].text.substr(0, colon), depth).get<std::string>();
      if (object.contains(name)) fail("YAML with a key that is given twice");
      object[name] = value_behind(colon, indent, depth);
    }
    if (at_ < lines_.size() && lines_[at_].indent > indent) fail("YAML whose indentation does not fit");
    return object;
  }

  // Reads the value after a key, from its line or the lines below.
  Json value_behind(std::size_t colon, std::size_t indent, int depth) {
    std::string_view rest = lines_[at_].text.substr(colon + 1);
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    if (!rest.empty()) {
      const Json value = scalar(rest, depth);
      ++at_;
      return value;
    }
    ++at_;
    if (more(indent) && is_item(lines_[at_].text)) return sequence(indent, depth + 1);
    return inner(indent, depth);
  }

  // Reads a block with deeper indentation; null if there is none.
  Json inner(std::size_t indent, int depth) {
    if (at_ == lines_.size() || lines_[at_].indent <= indent) return nullptr;
    return block(depth + 1);
  }

  Json scalar(std::string_view text, int depth) {
    std::string_view rest = text;
    const Json value = flow(rest, depth, "");
    if (!without_end(rest).empty()) fail("YAML that ft does not read: text behind a value");
    return value;
  }

  static void skip_blanks(std::string_view& in) {
    while (!in.empty() && is_blank(in[0])) in.remove_prefix(1);
  }
  bool take(std::string_view& in, char c) {
    skip_blanks(in);
    if (!in.starts_with(c)) return false;
    in.remove_prefix(1);
    return true;
  }

  // Reads a text, [a, b] or {a: b} in one line; a text without quotes ends at one of `ends`.
  Json flow(std::string_view& in, int depth, std::string_view ends) {
    if (depth > kDeepest) fail("nested too deeply");
    skip_blanks(in);
    if (take(in, '[')) {
      Json list = Json::array();
      while (!take(in, ']')) {
        list.push_back(flow(in, depth + 1, ",]"));
        if (!take(in, ',') && !in.starts_with(']')) fail("YAML with a list that does not end in its line");
      }
      return list;
    }
    if (take(in, '{')) {
      Json object = Json::object();
      while (!take(in, '}')) {
        const Json name = flow(in, depth + 1, ":,}");
        if (!name.is_string() || !take(in, ':')) fail("YAML with a mapping that does not end in its line");
        object[name.get<std::string>()] = flow(in, depth + 1, ",}");
        if (!take(in, ',') && !in.starts_with('}')) fail("YAML with a mapping that does not end in its line");
      }
      return object;
    }
    if (in.starts_with('"') || in.starts_with('\'')) return quoted(in);
    if (!in.empty() && std::string_view("&*!|>%@`").find(in[0]) != std::string_view::npos)
      fail("YAML that ft does not read: an anchor, a tag or a text of several lines");
    const std::string_view word = in.substr(0, ends.empty() ? in.npos : in.find_first_of(ends));
    in.remove_prefix(word.size());
    return std::string(without_end(word));
  }

  Json quoted(std::string_view& in) {
    const char quote = in[0];
    std::string text;
    for (in.remove_prefix(1);; in.remove_prefix(1)) {
      if (in.empty()) fail("YAML with a quote that does not end in its line");
      if (in[0] == quote && quote == '\'' && in.substr(1).starts_with('\''))
        in.remove_prefix(1);
      else if (in[0] == quote)
        break;
      if (in[0] == '\\' && quote == '"') {
        in.remove_prefix(1);
        if (in.empty() || std::string_view("\\\"/").find(in[0]) == std::string_view::npos)
          fail("YAML that ft does not read: an escape in quotes");
      }
      text += in[0];
    }
    in.remove_prefix(1);
    return text;
  }

  std::vector<Line> lines_;
  std::string file_;
  std::size_t at_ = 0;
};

}  // namespace

Json read_yaml_key(std::string_view text, std::string_view key, const std::string& file,
                   std::int64_t first_line) {
  std::vector<Line> lines = lines_of(text, first_line);
  if (lines.empty()) return nullptr;
  return Yaml(std::move(lines), file).key(key);
}

std::string front_matter(const std::string& card) {
  if (!card.starts_with("---\n") && !card.starts_with("---\r\n")) return "";
  const std::size_t begin = card.find('\n') + 1, end = card.find("\n---", begin - 1);
  return end == card.npos ? "" : card.substr(begin, end + 1 - begin);
}

}  // namespace ft
