// The draft of a run.json: settings, and the verdict on each flag or key.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/translate/flag.h"

namespace ft::translate {
namespace {

std::string without_dashes(const std::string& flag) {
  const std::size_t at = flag.find_first_not_of('-');
  return at == flag.npos ? flag : flag.substr(at);
}

// Returns true for values that turn something off: false, an empty text or list, a text such as "no".
bool is_off(const Json& value) {
  if (value.is_null() || value == false) return true;
  if (value.is_array() || value.is_object()) return value.empty();
  return value == "" || value == "no" || value == "none" || value == "false" || value == "False";
}

// Returns true if "a, b" has the value among its words.
bool is_among(const std::string& words, const Json& value) {
  const std::string word = value.is_string() ? value.get<std::string>() : value.dump();
  return (", " + words + ",").find(", " + word + ",") != std::string::npos;
}

bool is_refused(const Flag& flag, const Json& value) {
  switch (flag.fate) {
    case Fate::refused:
      return flag.kind == ValueKind::whole || flag.kind == ValueKind::number || !is_off(value);
    case Fate::refused_on:
      return !is_off(value) && value != 0;
    case Fate::refused_but:
      return !is_among(flag.to, value);
    default:
      return false;
  }
}

}  // namespace

void Given::set(const std::string& name, Json value) { values_[name] = std::move(value); }

void Given::take(const Given& other) {
  for (const auto& [name, value] : other.values_) values_[name] = value;
}

bool Given::on(const std::string& name, bool otherwise) const {
  return has(name) ? at(name).get<bool>() : otherwise;
}

std::string Given::text(const std::string& name, const std::string& otherwise) const {
  return has(name) ? at(name).get<std::string>() : otherwise;
}

Json Given::json(const std::string& name) const { return has(name) ? at(name) : Json(); }

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

const Json* Draft::find(const std::string& path) const {
  const Json* at = &config;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t dot = std::min(path.find('.', begin), path.size());
    const auto next = at->find(path.substr(begin, dot - begin));
    if (next == at->end()) return nullptr;
    at = &*next;
    begin = dot + 1;
  }
  return at;
}

void Draft::erase(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  if (dot == path.npos) {
    config.erase(path);
  } else if (const Json* in = find(path.substr(0, dot)); in && in->is_object()) {
    const_cast<Json*>(in)->erase(path.substr(dot + 1));
  }
}

void Draft::otherwise(const std::string& name, const std::string& path, const Json& value) {
  if (find(path)) return;
  set(path, value);
  rows.push_back({name, value, "default", path, ""});
}

void Draft::otherwise(std::span<const Default> defaults) {
  for (const Default& d : defaults) otherwise(d.name, d.to, Json::parse(d.value));
}

Row& Draft::row(const std::string& flag) {
  const auto named = [&](const Row& r) {
    return r.verdict != "default" && without_dashes(r.flag) == without_dashes(flag);
  };
  const auto at = std::find_if(rows.begin(), rows.end(), named);
  if (at != rows.end()) return *at;
  rows.push_back({flag, Json(), "mapped", "", ""});
  return rows.back();
}

bool Draft::has_row(const std::string& beginning) const {
  return std::any_of(rows.begin(), rows.end(), [&](const Row& r) {
    return r.verdict != "default" && !r.value.is_null() && r.flag.starts_with(beginning);
  });
}

void Draft::reject(const std::string& flag, const std::string& why) {
  Row& r = row(flag);
  r.verdict = "rejected";
  r.to.clear();
  r.why = why;
}

void Draft::ignore(const std::string& flag, const std::string& why) {
  Row& r = row(flag);
  r.verdict = "no_effect";
  r.to.clear();
  r.why = why;
}

void Draft::map(const std::string& flag, const std::string& to, const std::string& why) {
  Row& r = row(flag);
  r.verdict = "mapped";
  r.to = to;
  r.why = why;
}

bool Draft::refused() const {
  return std::any_of(rows.begin(), rows.end(), [](const Row& r) { return r.verdict == "rejected"; });
}

void judge(const Flag& flag, const std::string& shown, const Json& value, int line, Draft& draft) {
  const std::string name = flag.name, to = flag.to, last = name.substr(name.rfind('.') + 1);
  Row row{shown, flag.kind == ValueKind::secret ? Json("(not shown)") : value, "mapped", to, flag.why, line};
  if (is_refused(flag, value)) {
    row.verdict = "rejected";
  } else if (flag.fate != Fate::same && flag.fate != Fate::own) {
    row.verdict = "no_effect";
    if (flag.fate != Fate::no_effect) row.why = flag.fate == Fate::refused_but ? "ft does so" : "it is off";
  } else if (("." + to).ends_with("." + last) || to.ends_with(" --" + last)) {
    row.verdict = "honoured";
  }
  if (row.verdict == "rejected" || row.verdict == "no_effect") row.to.clear();
  const auto same = [&](const Row& r) { return r.flag == row.flag; };
  if (std::erase_if(draft.rows, same) > 0)
    draft.warnings.push_back(row.flag + " is given twice; the last one counts, as in Python's argparse");
  draft.rows.push_back(row);
  if (flag.fate == Fate::same && !to.starts_with("ft ")) draft.set(to, value);
}

Table joined(std::initializer_list<std::span<const Flag>> tables) {
  Table all;
  for (const std::span<const Flag> flags : tables)
    for (const Flag& flag : flags)
      if (std::none_of(all.begin(), all.end(),
                       [&](const Flag* f) { return std::string(f->name) == flag.name; }))
        all.push_back(&flag);
  return all;
}

}  // namespace ft::translate
