// Reads flags as Python's argparse and transformers' HfArgumentParser do.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/translate/flag.h"
#include "engine/core/lower_case.h"
#include "engine/core/suggest.h"

namespace ft::translate {
namespace {

using Names = std::vector<std::string>;

bool is_number(const std::string& word) {
  double value = 0;
  std::size_t read = 0;
  try {
    value = std::stod(word, &read);
  } catch (const std::exception&) {
    return false;
  }
  return read == word.size() && std::isfinite(value);
}

bool is_flag(const std::string& word) { return word.size() > 1 && word[0] == '-' && !is_number(word); }

// Returns a boolean, from the words that transformers accepts.
std::optional<Json> truth(const std::string& word) {
  const std::string w = lower_case(word);
  for (const char* yes : {"yes", "true", "t", "y", "1"})
    if (w == yes) return true;
  for (const char* no : {"no", "false", "f", "n", "0"})
    if (w == no) return false;
  return std::nullopt;
}

Json read_value(const Flag& flag, const std::string& word) {
  std::optional<Json> value = value_of(flag.kind, word);
  if (!value)
    throw UserError(Exit::config, str("--", flag.name, ": ", printable(word), " is not ", wanted(flag.kind)));
  return *value;
}

// A flag found by its name, by an unambiguous beginning of it as argparse allows, or by no_ and a boolean's
// name.
struct Found {
  const Flag* flag = nullptr;
  bool negated = false;
};
Found find_flag(std::string name, const Table& table, const std::string& program) {
  const std::string typed = name;
  std::replace(name.begin(), name.end(), '-', '_');
  const auto named = [&](const std::string& wanted) {
    const auto at =
        std::find_if(table.begin(), table.end(), [&](const Flag* f) { return f->name == wanted; });
    return at == table.end() ? nullptr : *at;
  };
  if (const Flag* f = named(name)) return {f};
  if (name.starts_with("no_"))
    if (const Flag* f = named(name.substr(3)); f && f->kind == ValueKind::boolean) return {f, true};
  Names begun, all;
  for (const Flag* f : table) {
    all.emplace_back(f->name);
    if (!name.empty() && all.back().starts_with(name)) begun.push_back(all.back());
  }
  if (begun.size() == 1) return {named(begun[0])};
  const auto refuse = [&](const std::string& what) { throw UserError(Exit::config, str(what)); };
  if (begun.size() > 1)
    refuse(str(printable("--" + typed), " may be --", begun[0], " or --", begun[1], "; write it out"));
  const std::string near = nearest(name, all);
  refuse(str(program, " has no flag ", printable("--" + typed), near.empty() ? "" : "; do you mean --" + near,
             near.empty() ? "" : "?"));
  return {};
}

}  // namespace

std::optional<Json> value_of(ValueKind kind, const std::string& word) {
  switch (kind) {
    case ValueKind::toggle:
    case ValueKind::boolean:
      return truth(word);
    case ValueKind::whole: {
      const bool digits = word.find_first_not_of("0123456789", word.starts_with("-") ? 1 : 0) == word.npos;
      if (!digits || !is_number(word) || word.size() > 18) return std::nullopt;
      return std::stoll(word);
    }
    case ValueKind::number:
      if (!is_number(word)) return std::nullopt;
      return Json::accept(word) ? Json::parse(word) : Json(std::stod(word));
    case ValueKind::text:
    case ValueKind::texts:
    case ValueKind::secret:
    case ValueKind::any:
      break;
  }
  return word;
}

const char* wanted(ValueKind kind) {
  switch (kind) {
    case ValueKind::toggle:
    case ValueKind::boolean:
      return "true or false";
    case ValueKind::whole:
      return "a whole number";
    case ValueKind::number:
      return "a number";
    case ValueKind::texts:
      return "a list of texts";
    default:
      return "a text";
  }
}

Given take_flags(Names& words, const Table& table, const std::string& program, Draft& draft) {
  Given given;
  std::size_t i = 0;
  const auto no_value_next = [&] { return i == words.size() || is_flag(words[i]); };
  while (i < words.size() && is_flag(words[i])) {
    const std::string& word = words[i++];
    const std::size_t equals = word.find('='), dashes = word.starts_with("--") ? 2 : 1;
    const auto [flag, negated] = find_flag(word.substr(dashes, equals - dashes), table, program);
    const bool on = flag->kind == ValueKind::toggle || flag->kind == ValueKind::boolean;
    Json value = !negated;
    if (flag->kind == ValueKind::texts) {
      value = Json::array();
      if (equals != word.npos)
        value.push_back(word.substr(equals + 1));
      else
        while (!no_value_next()) value.push_back(words[i++]);
    } else if (equals != word.npos) {
      value = read_value(*flag, word.substr(equals + 1));
    } else if (!on && no_value_next()) {
      throw UserError(Exit::config, str("--", flag->name, " needs a value"));
    } else if (!on || (flag->kind == ValueKind::boolean && !negated && !no_value_next())) {
      value = read_value(*flag, words[i++]);
    }
    judge(*flag, str("--", flag->name), value, 0, draft);
    given.set(flag->name, std::move(value));
  }
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(i));
  return given;
}

Given read_flags(Names words, const Table& table, const std::string& program, Draft& draft) {
  Given given = take_flags(words, table, program, draft);
  if (!words.empty())
    throw UserError(Exit::config,
                    str(printable(words[0]), ": ", program, " takes only flags here; --name value"));
  return given;
}

}  // namespace ft::translate
