#include "app/deepspeed/rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/deepspeed/hints.h"
#include "engine/core/suggest.h"

namespace ft::deepspeed {
namespace {

class Rows {
 public:
  Rows(const SettingsText& file, const std::function<bool(const std::string&)>& on, Report& report)
      : file_(file), on_(on), report_(report) {}

  void block(const Json& object, const std::string& path, const std::string& off) {
    const std::string without = off.empty() && !is_on(object, path) ? path + ".enabled is false" : off;
    for (const auto& [name, value] : object.items()) {
      if (name.empty() || name.find('.') != name.npos)
        unknown(below(path, name), value);
      else
        member(below(path, name), value, name == "enabled" ? off : without);
    }
  }

  std::vector<Leaf> leaves;

 private:
  bool is_on(const Json& object, const std::string& path) const {
    const Key* enabled = path.empty() ? nullptr : find_key(new_name(path + ".enabled"));
    if (!enabled || enabled->fate == Fate::no_effect) return true;
    const auto given = object.find("enabled");
    if (given == object.end()) return false;
    return *given == "auto" ? on_(parent_of(enabled->name)) : *given != false;
  }

  void member(const std::string& name, const Json& value, const std::string& off) {
    if (const Key* none = find_block_off(name)) return block_off(*none, name, value);
    if (find_key(name)) return leaf(name, value, off);
    if (name == "zero_optimization" && value.is_boolean()) return leaf(name, value, off);
    if (!is_block(name)) return unknown(name, value);
    if (value.is_object()) return block(value, name, off);
    Row& row = add(name, value);
    if (value.is_null())
      done(row, Verdict::no_effect, "null counts as left out");
    else
      report_.reject(row, str("has to be a block {...}, not ", json_excerpt(value)));
  }

  Row& add(const std::string& name, const Json& value) {
    report_.rows.push_back(
        {.key = name, .known = "", .value = value, .to = {}, .why = "", .place = place_of(name)});
    return report_.rows.back();
  }
  std::string place_of(const std::string& name) const {
    const auto line = file_.lines.find(name);
    return line == file_.lines.end() ? file_.name : str(file_.name, ":", line->second);
  }
  static void done(Row& row, Verdict verdict, const std::string& why) {
    row.verdict = verdict;
    row.why = why;
  }

  // Visits every leaf below a value. An empty block is a leaf.
  void each_leaf(const std::string& name, const Json& value, const std::function<void(Row&)>& visit) {
    if (value.is_object() && !value.empty()) {
      for (const auto& [key, inner] : value.items()) each_leaf(name + "." + key, inner, visit);
    } else {
      visit(add(name, value));
    }
  }

  void unknown(const std::string& name, const Json& value) {
    reject_all(name, value, hint_about_unknown(name, value));
  }

  // Rejects all leaves below a key, and adds one mistake for all of them.
  void reject_all(const std::string& name, const Json& value, const std::string& what) {
    const std::size_t before = report_.mistakes.size();
    each_leaf(name, value, [&](Row& row) { report_.reject(row, what); });
    report_.mistakes.resize(before);
    report_.mistakes.push_back(str(place_of(name), ": ", printable(name), ": ", what));
  }

  // Accepts a block that ft does not have if it is switched off; else rejects it.
  void block_off(const Key& key, const std::string& name, const Json& value) {
    const auto enabled = value.is_object() ? value.find("enabled") : value.end();
    const bool off = value.is_object() ? enabled != value.end() && (*enabled == false || *enabled == "auto")
                                       : value == false || value.is_null() || value == "auto";
    const std::vector<std::string> inner = split(key.to);
    const bool any = std::find(inner.begin(), inner.end(), "*") != inner.end();
    bool told = false;  // adds only one mistake for all leaves
    each_leaf(name, value, [&](Row& row) {
      const std::string inside = row.key == name ? "" : row.key.substr(name.size() + 1);
      const std::string part = inside.substr(0, inside.find('.'));
      if (!any && !part.empty() && std::find(inner.begin(), inner.end(), part) == inner.end()) {
        const std::string near = nearest(part, inner);
        report_.reject(row, str("DeepSpeed has no key ", printable(row.key, 80),
                                near.empty() ? "" : str("; do you mean ", name, ".", near, "?")));
      } else if (off) {
        done(row, Verdict::no_effect, name + " is off");
      } else {
        report_.reject(row, str(name, ": ", key.why));
        if (std::exchange(told, true)) report_.mistakes.pop_back();
      }
    });
  }

  // Returns true if the file has a key under its old and its new name.
  bool has_both_names(const std::string& name, const std::string& other) const {
    const Json* there = find_value(file_.value, other);
    if (!there && parent_of(name) != parent_of(other)) there = find_value(file_.value, parent_of(other));
    return there && name != other;
  }

  void leaf(const std::string& name, const Json& given, const std::string& off) {
    Row& row = add(name, given);
    row.known = name == "zero_optimization" ? "zero_optimization.stage" : new_name(name);
    const Key* key = find_key(row.known);
    const Key* old = row.known == name ? nullptr : find_key(name);
    if (!key) return report_.rows.pop_back(), unknown(name, given);
    if (given.is_null()) return done(row, Verdict::no_effect, "null counts as left out");
    if (row.known != name && name != "zero_optimization" && has_both_names(name, row.known))
      return report_.reject(row,
                            str("is the old name of ", row.known, ", which is also given; give one of them"));
    if (name == "zero_optimization") row.value = given == true ? 1 : 0;
    row.automatic = given == "auto";
    if (!row.automatic) {
      const Value& value = old && old->value.kind != Kind::any ? old->value : key->value;
      std::string mistake;
      row.value = checked(value, row.value, mistake);
      if (!mistake.empty()) return report_.reject(row, mistake);
    }
    if (!off.empty()) return done(row, Verdict::no_effect, off);
    by_table(row, *key);
  }

  void by_table(Row& row, const Key& key) {
    std::string none;
    const Json usual = *key.value.usual ? checked(key.value, Json::parse(key.value.usual), none) : Json();
    const bool mapped = key.fate == Fate::same || key.fate == Fate::speed || key.fate == Fate::mapped;
    if (row.automatic && !mapped) {
      row.automatic = false;
      if (usual.is_null()) return report_.reject(row, "\"auto\" has no meaning here; give a value");
      row.value = usual;
    }
    switch (key.fate) {
      case Fate::no_effect:
        done(row, Verdict::no_effect, key.why);
        row.surprise = !usual.is_null() && row.value != usual;
        return;
      case Fate::only_usual:
        if (row.value == usual) return done(row, Verdict::no_effect, "it is DeepSpeed's default");
        return report_.reject(row, str("cannot be ", json_excerpt(row.value), ": ", key.why));
      case Fate::refused:
        return report_.reject(row, key.why);
      default:
        break;
    }
    row.verdict = key.fate == Fate::mapped ? Verdict::mapped : Verdict::honoured;
    row.to = key.fate == Fate::mapped ? split(key.to) : std::vector<std::string>{row.known};
    row.why = key.why;
    if (row.known != row.key) row.verdict = Verdict::mapped;
    leaves.push_back({report_.rows.size() - 1, &key});
  }

  const SettingsText& file_;
  const std::function<bool(const std::string&)>& on_;
  Report& report_;
};

}  // namespace

const Json* find_value(const Json& tree, const std::string& path) {
  const Json* at = &tree;
  for (std::size_t begin = 0, end = 0; end != path.npos; begin = end + 1) {
    end = path.find('.', begin);
    const std::string key = path.substr(begin, end == path.npos ? end : end - begin);
    if (!at->is_object()) return nullptr;
    const auto next = at->find(key);
    if (next == at->end()) return nullptr;
    at = &*next;
  }
  return at;
}

std::vector<Leaf> read_rows(const SettingsText& file, const std::function<bool(const std::string&)>& on,
                            Report& report) {
  Rows rows(file, on, report);
  rows.block(file.value, "", "");
  return std::move(rows.leaves);
}

}  // namespace ft::deepspeed
