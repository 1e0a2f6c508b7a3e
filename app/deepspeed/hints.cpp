#include "app/deepspeed/hints.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "app/deepspeed/key.h"
#include "engine/core/suggest.h"

namespace ft::deepspeed {
namespace {

std::string below(const std::string& block, const std::string& key) {
  return block.empty() ? key : block + "." + key;
}

// Returns true if `all` contains every word of `some`: b_c_a has the words of a_b.
bool has_words(const std::string& all, const std::string& some) {
  const std::string inside = "_" + all + "_";
  for (std::size_t begin = 0, end = 0; end != some.npos; begin = end + 1) {
    end = some.find('_', begin);
    if (inside.find("_" + some.substr(begin, end == some.npos ? end : end - begin) + "_") == inside.npos)
      return false;
  }
  return true;
}

// Returns the key of the same block that maps to an ft setting of this name: learning_rate is lr.
std::string by_setting(const std::string& name) {
  const std::string known = parent_of(new_name(name));
  for (const std::string& key : names_in(known)) {
    const Key* k = find_key(below(known, key));
    for (const std::string& setting : split(k && k->fate == Fate::mapped ? k->to : ""))
      if (last_of(setting) == last_of(name)) return below(parent_of(name), key);
  }
  return "";
}

// Returns a key of the same block that has all words of the name or a similar spelling, else a similar key of
// another block.
std::string by_likeness(const std::string& name) {
  const std::string block = parent_of(name), last = last_of(name);
  const std::vector<std::string> here = names_in(parent_of(new_name(name)));
  for (const std::string& key : here)
    if (!last.empty() && has_words(key, last)) return below(block, key);
  if (const std::string near = nearest(last, here); !near.empty()) return below(block, near);
  std::vector<std::string> all;
  for (const Key* key : all_keys()) all.push_back(last_of(key->name));
  const std::string near = nearest(last, all);
  for (const Key* key : all_keys())
    if (!near.empty() && last_of(key->name) == near) return key->name;
  return "";
}

// Returns all keys and blocks of the table whose last part is this name.
std::set<std::string> all_called(const std::string& last) {
  std::set<std::string> all;
  for (const Key* key : all_keys()) {
    for (std::string name = key->name; !name.empty(); name = parent_of(name))
      if (last_of(name) == last) all.insert(name);
    if (key->fate != Fate::block_off) continue;
    for (const std::string& inner : split(key->to))
      if (inner == last && inner != "*") all.insert(below(key->name, inner));
  }
  return all;
}

// Returns true if the table allows the value there: a block with these keys, or a value of the right kind.
bool could_be(const std::string& name, const Json& value) {
  if (is_block(name)) {
    const std::vector<std::string> inner = names_in(name);
    for (const auto& [own, unused] : value.items())
      if (std::find(inner.begin(), inner.end(), own) == inner.end()) return false;
    return value.is_object();
  }
  const Key* key = find_key(name);
  if (!key || key->fate == Fate::block_off) return true;
  std::string mistake;
  if (value != "auto") checked(key->value, value, mistake);
  return mistake.empty();
}

std::size_t common_beginning(const std::string& a, const std::string& b) {
  const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  return static_cast<std::size_t>(std::count(a.begin(), differ, '.'));
}

// Returns the blocks where a key of this name belongs: those that allow its value, and among them the ones
// nearest to its place in the file.
std::vector<std::string> homes(const std::string& name, const Json& value) {
  const std::set<std::string> called = all_called(last_of(name));
  std::vector<std::string> all(called.begin(), called.end());
  const auto keep = [&](const auto& good) {
    if (std::any_of(all.begin(), all.end(), good))
      std::erase_if(all, [&](const std::string& one) { return !good(one); });
  };
  keep([&](const std::string& one) { return could_be(one, value); });
  std::size_t nearest_place = 0;
  for (const std::string& one : all) nearest_place = std::max(nearest_place, common_beginning(one, name));
  keep([&](const std::string& one) { return common_beginning(one, name) == nearest_place; });
  std::set<std::string> blocks;
  for (const std::string& one : all) blocks.insert(parent_of(one));
  return {blocks.begin(), blocks.end()};
}

std::string listed(const std::vector<std::string>& blocks) {
  std::string text;
  for (const std::string& block : blocks)
    text += (text.empty() ? "" : " or ") + (block.empty() ? "at the top of the file" : "in " + block);
  return text;
}

}  // namespace

std::string hint_about_unknown(const std::string& name, const Json& value) {
  constexpr std::size_t kMostHomes = 3;
  const std::string shown = printable(name, 80), none = "DeepSpeed has no key " + shown;
  if (find_key(name) || is_block(name))
    return str("DeepSpeed has no key with dots; write a block: \"", printable(parent_of(name), 80), "\": {\"",
               printable(last_of(name), 80), "\": ...}");
  if (const std::string near = by_setting(name); !near.empty()) return none + "; do you mean " + near + "?";
  const std::vector<std::string> blocks = homes(name, value);
  if (blocks.size() > kMostHomes) return none;
  if (!blocks.empty()) return str(none, "; ", printable(last_of(name), 80), " belongs ", listed(blocks));
  const std::string near = by_likeness(name);
  return near.empty() ? none : none + "; do you mean " + near + "?";
}

}  // namespace ft::deepspeed
