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

[[noreturn]] void refuse_value(const Flag& flag, const std::string& word, const char* wanted) {
  throw UserError(Exit::config,
                  str("ft translate-args: --", flag.name, ": ", printable(word), " is not ", wanted));
}

// Returns a boolean, from the words that transformers accepts.
Json truth(const Flag& flag, const std::string& word) {
  const std::string w = lower_case(word);
  for (const char* yes : {"yes", "true", "t", "y", "1"})
    if (w == yes) return true;
  for (const char* no : {"no", "false", "f", "n", "0"})
    if (w == no) return false;
  refuse_value(flag, word, "true or false");
}

Json read_value(const Flag& flag, const std::string& word) {
  switch (flag.kind) {
    case ValueKind::toggle:
    case ValueKind::boolean:
      return truth(flag, word);
    case ValueKind::whole: {
      const bool digits = word.find_first_not_of("0123456789", word.starts_with("-") ? 1 : 0) == word.npos;
      if (!digits || !is_number(word) || word.size() > 18) refuse_value(flag, word, "a whole number");
      return std::stoll(word);
    }
    case ValueKind::number:
      if (!is_number(word)) refuse_value(flag, word, "a number");
      return Json::accept(word) ? Json::parse(word) : Json(std::stod(word));
    case ValueKind::text:
    case ValueKind::texts:
    case ValueKind::secret:
      break;
  }
  return word;
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
  const auto refuse = [&](const std::string& what) {
    throw UserError(Exit::config, str("ft translate-args: ", what));
  };
  if (begun.size() > 1)
    refuse(str(printable("--" + typed), " may be --", begun[0], " or --", begun[1], "; write it out"));
  const std::string near = nearest(name, all);
  refuse(str(program, " has no flag ", printable("--" + typed), near.empty() ? "" : "; do you mean --" + near,
             near.empty() ? "" : "?"));
  return {};
}

void judge(const Flag& flag, const Json& value, Draft& draft) {
  const std::string name = flag.name, to = flag.to;
  const bool on = value.is_boolean() && value.get<bool>();
  Row row{"--" + name, flag.kind == ValueKind::secret ? Json("(not shown)") : value, "mapped", to, flag.why};
  if (flag.fate == Fate::refused || (flag.fate == Fate::refused_on && on)) row.verdict = "rejected";
  if (flag.fate == Fate::no_effect || (flag.fate == Fate::refused_on && !on)) {
    row.verdict = "no_effect";
    if (flag.fate == Fate::refused_on) row.why = "it is off";
  }
  if (row.verdict == "mapped" && (("." + to).ends_with("." + name) || to.ends_with(" --" + name)))
    row.verdict = "honoured";
  if (row.verdict == "rejected" || row.verdict == "no_effect") row.to.clear();
  const auto same = [&](const Row& r) { return r.flag == row.flag; };
  if (std::erase_if(draft.rows, same) > 0)
    draft.warnings.push_back(row.flag + " is given twice; the last one counts, as in Python's argparse");
  draft.rows.push_back(row);
  if (flag.fate == Fate::same && !to.starts_with("ft ")) draft.set(to, value);
}

}  // namespace

void Given::set(const std::string& name, Json value) { values_[name] = std::move(value); }

bool Given::on(const std::string& name, bool otherwise) const {
  return has(name) ? at(name).get<bool>() : otherwise;
}

std::string Given::text(const std::string& name, const std::string& otherwise) const {
  return has(name) ? at(name).get<std::string>() : otherwise;
}

double Given::number(const std::string& name, double otherwise) const {
  return has(name) ? at(name).get<double>() : otherwise;
}

// Lists the sections in the best order for readers of run.json.
Draft::Draft()
    : config{{"finetuning_type", "full"},
             {"device", "cpu"},
             {"model", Json::object()},
             {"lora", Json::object()},
             {"data", Json::object()},
             {"training", Json::object()},
             {"zero_optimization", Json::object()},
             {"distributed", Json::object()},
             {"evaluation", Json::object()},
             {"generation", Json::object()},
             {"checkpointing", Json::object()},
             {"logging", Json::object()}} {}

void Draft::set(const std::string& path, Json value, bool only_if_open) {
  Json* at = &config;
  std::size_t begin = 0;
  for (std::size_t dot; (dot = path.find('.', begin)) != path.npos; begin = dot + 1)
    at = &(*at)[path.substr(begin, dot - begin)];
  const std::string last = path.substr(begin);
  if (only_if_open && at->contains(last)) return;
  (*at)[last] = std::move(value);
}

bool Draft::refused() const {
  return std::any_of(rows.begin(), rows.end(), [](const Row& r) { return r.verdict == "rejected"; });
}

Table joined(std::initializer_list<std::pair<const Flag*, std::size_t>> tables) {
  Table all;
  for (const auto& [flags, count] : tables)
    for (std::size_t i = 0; i < count; ++i)
      if (std::none_of(all.begin(), all.end(),
                       [&](const Flag* f) { return std::string(f->name) == flags[i].name; }))
        all.push_back(flags + i);
  return all;
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
      throw UserError(Exit::config, str("ft translate-args: --", flag->name, " needs a value"));
    } else if (!on || (flag->kind == ValueKind::boolean && !negated && !no_value_next())) {
      value = read_value(*flag, words[i++]);
    }
    judge(*flag, value, draft);
    given.set(flag->name, std::move(value));
  }
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(i));
  return given;
}

Given read_flags(Names words, const Table& table, const std::string& program, Draft& draft) {
  Given given = take_flags(words, table, program, draft);
  if (!words.empty())
    throw UserError(Exit::config, str("ft translate-args: ", printable(words[0]), ": ", program,
                                      " takes only flags here; --name value"));
  return given;
}

}  // namespace ft::translate
