#include "app/translate/answer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/config/config.h"
#include "app/launch/resources.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "app/translate/names.h"
#include "engine/core/typography.h"

namespace ft::translate {
namespace {

std::string shown(const Json& value) {
  return value.is_string() ? printable(value.get<std::string>(), 60) : json_excerpt(value);
}

bool is_empty(const Row& row) { return row.value.is_null() && row.verdict == "no_effect"; }

void print_warning(Screen& screen, const std::string& warning) {
  std::size_t begin = 0;
  for (bool first = true; begin != std::string::npos; first = false) {
    const std::size_t end = warning.find('\n', begin);
    const std::string part = warning.substr(begin, end == warning.npos ? end : end - begin);
    screen.line(first ? screen.yellow("warning") + ": " + part : part, first ? 9 : Screen::kWhole);
    begin = end == warning.npos ? end : end + 1;
  }
}

// Returns the settings as ft reads them. Leaves out DeepSpeed's file, which may be missing here.
std::string checked_text(const Draft& draft) {
  Json config = draft.config;
  config.erase("deepspeed");
  return json_text(config);
}

// Returns REASON from a line "run.json:3: training.optim: REASON" of a message; "" if `path` has none. The
// reason for an element, such as objective.loss_type.0, counts for its list.
std::string reason_for(const std::string& path, const std::string& message) {
  const std::string marked = " " + path;
  for (std::size_t at = message.find(marked); at != message.npos; at = message.find(marked, at + 1)) {
    const std::size_t end = message.find(": ", at + 1);
    if (end == message.npos) return "";
    const std::string more = message.substr(at + marked.size(), end - at - marked.size());
    if (more.find_first_not_of("[].0123456789") == more.npos)
      return message.substr(end + 2, message.find('\n', end) - end - 2);
  }
  return "";
}

// Rejects the first row whose setting the message names, and removes the setting. Returns false if none is
// named.
bool drop_named(const std::string& message, Draft& draft) {
  for (Row& row : draft.rows)
    for (const std::string& to : comma_separated(row.to)) {
      const std::string reason = reason_for(to, message);
      if (reason.empty() || !draft.find(to)) continue;
      draft.erase(to);
      row.verdict = "rejected";
      row.to.clear();
      row.why = reason;
      return true;
    }
  return false;
}

}  // namespace

void choose_device(Draft& draft, bool always) {
  const bool cpu = std::any_of(draft.rows.begin(), draft.rows.end(), [](const Row& r) {
    return ((r.flag.ends_with("use_cpu") || r.flag.ends_with("no_cuda")) && r.value == true) ||
           (r.flag == "device" && r.value == "cpu");
  });
  const bool here = !gpus_here(std::nullopt).empty();
  draft.set("device", here && !cpu ? "cuda" : "cpu");
  if (here || cpu || (draft.launch.empty() && !always)) return;
  draft.warnings.push_back(
      str("this machine has no GPU, so that device is cpu; set it to cuda where there is one",
          draft.launch.size() == 1 ? ", or add -n N after ft launch" : ""));
}

void tidy(Draft& draft) {
  for (const char* section : {"lora", "quantization", "zero_optimization", "distributed", "evaluation",
                              "generation", "checkpointing", "logging"})
    if (draft.config[section].empty()) draft.config.erase(section);
}

void check_settings(const Draft& draft) {
  try {
    parse_config(checked_text(draft), kFile, "", {});
  } catch (const UserError& e) {
    const std::string what = e.what();
    std::string flags;
    for (const Row& r : draft.rows)
      if (r.to.find('.') != r.to.npos && what.find(r.to) != what.npos) flags += r.flag + ": ";
    throw UserError(e.code, flags + what);
  }
}

void drop_refused(Draft& draft) {
  for (std::size_t tries = draft.rows.size(); tries > 0; --tries) {
    try {
      parse_config(checked_text(draft), kFile, "", {});
      return;
    } catch (const UserError& e) {
      if (!drop_named(e.what(), draft)) break;
    }
  }
  check_settings(draft);
}

std::string next_command(const Draft& draft, const std::string& file) {
  std::vector<std::string> words = draft.environment;
  words.emplace_back("ft");
  for (const std::vector<std::string>* part : {&draft.launch, &draft.command})
    words.insert(words.end(), part->begin(), part->end());
  words.insert(words.end(), {"--config", file});
  if (draft.command[0] == "train") words.insert(words.end(), draft.options.begin(), draft.options.end());
  return shell_line(words);
}

Json settings_of(const std::string& to) {
  if (to.empty()) return {};
  Json all = Json::array();
  for (const std::string& word : comma_separated(to)) all.push_back(word);
  return all.size() == 1 ? all[0] : all;
}

void print_rows(const Draft& draft, VerdictWord word) {
  Screen screen(Screen::standard_error(ProgressStyle::plain));
  std::size_t flags = 0, verdicts = 9;
  std::string empty;
  for (const Row& r : draft.rows) {
    if (is_empty(r)) empty += (empty.empty() ? "" : ", ") + r.flag;
    if (!is_empty(r)) flags = std::max(flags, r.flag.size() + 1 + shown(r.value).size());
    verdicts = std::max(verdicts, word(r).size());
  }
  flags = std::min<std::size_t>(flags, 52);
  for (const Row& r : draft.rows) {
    if (is_empty(r)) continue;
    std::string line = r.flag + (r.value == true && r.verdict != "default" ? "" : " " + shown(r.value));
    line += std::string(std::max(line.size(), flags) - line.size() + 2, ' ');
    const std::string verdict = word(r);
    line += (r.verdict == "rejected" ? screen.yellow(verdict) : verdict) +
            std::string(verdicts + 2 - verdict.size(), ' ');
    line += r.to + (r.to.empty() || r.why.empty() ? "" : ": ") + r.why;
    screen.line(line, static_cast<int>(flags + verdicts) + 4);
  }
  if (!empty.empty()) screen.line("empty, the defaults hold: " + empty, 4);
  for (const std::string& warning : draft.warnings) print_warning(screen, warning);
}

}  // namespace ft::translate
