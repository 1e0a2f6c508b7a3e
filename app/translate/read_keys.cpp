// Reads the keys of a file of another program.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "app/translate/flag.h"
#include "engine/core/suggest.h"

namespace ft::translate {
namespace {

// Returns a scalar as the word that a command line would have.
std::string word_of(const Json& scalar) {
  return scalar.is_string() ? scalar.get<std::string>() : scalar.dump();
}

// Returns a value of a file as a flag's kind, or null if it is none.
std::optional<Json> converted(ValueKind kind, const Json& value) {
  if (kind == ValueKind::any) return value;
  if (kind == ValueKind::texts) {
    Json all = Json::array();
    for (const Json& item : value.is_array() ? value : Json::array({value})) {
      if (item.is_structured()) return std::nullopt;
      all.push_back(word_of(item));
    }
    return all;
  }
  if (value.is_structured()) return std::nullopt;
  const bool number = kind == ValueKind::number || kind == ValueKind::whole;
  if (value.is_number_float() && kind == ValueKind::whole) {
    const double x = value;  // 4.0
    return std::floor(x) == x && std::fabs(x) < 1e15 ? std::optional<Json>(std::int64_t(x)) : std::nullopt;
  }
  if (value.is_number() && number) return value;
  if (value.is_boolean() && number) return std::nullopt;
  return value_of(kind, word_of(value));
}

class KeyReader {
 public:
  KeyReader(const SettingsText& file, const Table& table, const std::string& program, Draft& draft)
      : file_(file), program_(program), draft_(draft) {
    for (const Flag* flag : table) flags_[flag->name] = flag;
    for (const auto& [key, flag] : flags_) names_.push_back(key);
  }

  Given read() {
    walk(file_.value, "", "");
    return std::move(given_);
  }

 private:
  // `path`: the keys with indexes, datasets.0.path; `name`: as in the table, datasets[].path.
  void walk(const Json& object, const std::string& path, const std::string& name) {
    for (const auto& [key, value] : object.items()) {
      const std::string at = path.empty() ? key : path + "." + key;
      const std::string known = name.empty() ? key : name + "." + key;
      if (const auto found = flags_.find(known); found != flags_.end()) {
        take(*found->second, value, at);
      } else if (value.is_null() && (is_block(known + ".") || is_block(known + "[]."))) {
        leave_empty(at);
      } else if (value.is_object() && is_block(known + ".")) {
        walk(value, at, known);
      } else if (value.is_array() && is_block(known + "[].")) {
        for (std::size_t i = 0; i < value.size(); ++i) {
          if (!value[i].is_object()) fail(str(at, ".", i), value[i], "a mapping, key: value");
          walk(value[i], str(at, ".", i), known + "[]");
        }
      } else {
        refuse_unknown(at, known, value);
      }
    }
  }

  void take(const Flag& flag, const Json& value, const std::string& at) {
    if (value.is_null()) return leave_empty(at);
    const std::optional<Json> read = converted(flag.kind, value);
    if (!read) fail(at, value, wanted(flag.kind));
    judge(flag, shown(at), *read, line(at), draft_);
    if (std::string_view(flag.name).find("[]") == std::string_view::npos) given_.set(flag.name, *read);
  }

  void leave_empty(const std::string& at) {
    draft_.rows.push_back({shown(at), Json(), "no_effect", "", "it is empty: the default", line(at)});
  }

  void refuse_unknown(const std::string& at, const std::string& known, const Json& value) {
    constexpr int kSuggestions = 20;  // each compares the key with all others
    const std::string near = ++unknown_ <= kSuggestions ? nearest(known, names_) : "";
    const std::string why = str("ft knows no such key of ", program_, near.empty() ? "" : "; do you mean ",
                                near, near.empty() ? "" : "?");
    draft_.rows.push_back({shown(at), value, "rejected", "", why, line(at)});
  }

  // Returns true if the table has keys with this beginning.
  bool is_block(const std::string& beginning) const {
    const auto at = flags_.lower_bound(beginning);
    return at != flags_.end() && at->first.starts_with(beginning);
  }

  int line(const std::string& at) const {
    const auto found = file_.lines.find(at);
    return found == file_.lines.end() ? 0 : found->second;
  }

  // Returns datasets.0.path as datasets[0].path.
  static std::string shown(const std::string& at) {
    std::string out;
    for (std::size_t begin = 0; begin <= at.size();) {
      const std::size_t dot = std::min(at.find('.', begin), at.size());
      const std::string part = at.substr(begin, dot - begin);
      const bool index = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
      out += index && !out.empty() ? "[" + part + "]" : (out.empty() ? "" : ".") + part;
      begin = dot + 1;
    }
    return printable(out);
  }

  [[noreturn]] void fail(const std::string& at, const Json& value, const std::string& expected) const {
    throw UserError(Exit::config, str(file_.name, line(at) > 0 ? str(":", line(at)) : "", ": ", shown(at),
                                      ": ", json_excerpt(value), " is not ", expected));
  }

  const SettingsText& file_;
  const std::string& program_;
  Draft& draft_;
  std::map<std::string, const Flag*, std::less<>> flags_;
  std::vector<std::string> names_;  // of flags_
  int unknown_ = 0;
  Given given_;
};

}  // namespace

Given read_keys(const SettingsText& file, const Table& table, const std::string& program, Draft& draft) {
  return KeyReader(file, table, program, draft).read();
}

}  // namespace ft::translate
