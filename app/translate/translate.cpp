#include "app/translate/translate.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/config/config.h"
#include "app/launch/resources.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "app/translate/programs.h"
#include "engine/core/typography.h"

namespace ft {
namespace {

using translate::Draft;
using translate::Given;
using translate::Row;
using Names = std::vector<std::string>;

constexpr const char* kFile = "run.json";

void translate_program(const std::string& path, const Names& words, Draft& draft) {
  using namespace translate;
  const std::string program = path.substr(path.rfind('/') + 1);
  const auto table = [](std::span<const Flag> own, std::span<const Flag> rest) {
    return joined({{own.data(), own.size()}, {rest.data(), rest.size()}});
  };
  if (program == "run_translation.py") {
    const Given given =
        read_flags(words, table(run_translation_flags(), training_arguments()), program, draft);
    finish_training_arguments(given, draft);
    finish_run_translation(given, draft);
  } else if (program == "main.py" && path.find("step2") == path.npos && path.find("step3") == path.npos) {
    finish_deepspeed_chat(read_flags(words, table(deepspeed_chat_flags(), {}), program, draft), draft);
  } else {
    throw UserError(Exit::config,
                    str("ft translate-args: ", printable(path),
                        " is not known; there are run_translation.py and step 1 of DeepSpeed-Chat "
                        "(main.py)"));
  }
}

// Chooses the device. The translated programs use GPUs if there are any.
void choose_device(Draft& draft) {
  const bool cpu = std::any_of(draft.rows.begin(), draft.rows.end(), [](const Row& r) {
    return (r.flag == "--use_cpu" || r.flag == "--no_cuda") && r.value == true;
  });
  const bool here = !gpus_here(std::nullopt).empty();
  draft.set("device", here && !cpu ? "cuda" : "cpu");
  if (here || cpu || draft.launch.empty()) return;
  draft.warnings.push_back(
      str("this machine has no GPU, so that device is cpu; set it to cuda where there is one",
          draft.launch.size() == 1 ? ", or add -n N after ft launch" : ""));
}

std::string shown(const Json& value) {
  return value.is_string() ? printable(value.get<std::string>(), 60) : json_excerpt(value);
}

void print_rows(const Draft& draft) {
  Screen screen(Screen::standard_error(ProgressStyle::plain));
  std::size_t flags = 0;
  for (const Row& r : draft.rows) flags = std::max(flags, r.flag.size() + 1 + shown(r.value).size());
  flags = std::min<std::size_t>(flags, 52);
  for (const Row& r : draft.rows) {
    std::string line = r.flag + (r.value == true ? "" : " " + shown(r.value));
    line += std::string(std::max(line.size(), flags) - line.size() + 2, ' ');
    const bool refused = r.verdict == "rejected";
    const std::string verdict = r.verdict == "no_effect" ? "no effect" : r.verdict;
    line += (refused ? screen.yellow(verdict) : verdict) + std::string(11 - verdict.size(), ' ');
    line += r.to + (r.to.empty() || r.why.empty() ? "" : ": ") + r.why;
    screen.line(line, static_cast<int>(flags) + 13);
  }
  for (const std::string& warning : draft.warnings) {
    std::size_t begin = 0;
    for (bool first = true; begin != std::string::npos; first = false) {
      const std::size_t end = warning.find('\n', begin);
      const std::string part = warning.substr(begin, end == warning.npos ? end : end - begin);
      screen.line(first ? screen.yellow("warning") + ": " + part : part, first ? 9 : Screen::kWhole);
      begin = end == warning.npos ? end : end + 1;
    }
  }
}

std::string next_command(const Draft& draft) {
  Names words = draft.environment;
  words.emplace_back("ft");
  for (const Names* part : {&draft.launch, &draft.command})
    words.insert(words.end(), part->begin(), part->end());
  words.insert(words.end(), {"--config", kFile});
  if (draft.command[0] == "train") words.insert(words.end(), draft.options.begin(), draft.options.end());
  return shell_line(words);
}

// Checks the settings as ft reads them. The error names the flags that set them.
void check_settings(const Draft& draft) {
  Json config = draft.config;
  config.erase("deepspeed");  // its file may be missing here
  try {
    parse_config(json_text(config), kFile, "", {});
  } catch (const UserError& e) {
    const std::string what = e.what();
    std::string flags;
    for (const Row& r : draft.rows)
      if (r.to.find('.') != r.to.npos && what.find(r.to) != what.npos) flags += r.flag + ": ";
    throw UserError(e.code, str("ft translate-args: ", flags, what));
  }
}

// Splits "a, b" into a list.
Json settings_of(const std::string& to) {
  if (to.empty()) return {};
  Json all = Json::array();
  for (std::size_t begin = 0, comma = 0; comma != to.npos; begin = comma + 2) {
    comma = to.find(", ", begin);
    all.push_back(to.substr(begin, comma - begin));
  }
  return all.size() == 1 ? all[0] : all;
}

Exit answer(const Draft& draft, bool json) {
  const bool refused = draft.refused();
  if (!json) {
    print_rows(draft);
    if (!refused) std::cout << json_text(draft.config) << "\n";
    if (!refused) std::cerr << "next: " << next_command(draft) << "\n";
  } else {
    Json rows = Json::array();
    for (const Row& r : draft.rows)
      rows.push_back({{"flag", r.flag},
                      {"value", r.value},
                      {"verdict", r.verdict},
                      {"to", settings_of(r.to)},
                      {"why", r.why}});
    std::cout << json_text({{"config", refused ? Json() : draft.config},
                            {"flags", rows},
                            {"warnings", draft.warnings},
                            {"command", refused ? Json() : Json(next_command(draft))}})
              << "\n";
  }
  for (const Row& r : draft.rows)
    if (r.verdict == "rejected")
      throw UserError(Exit::config, str("ft translate-args: ", r.flag, " is refused: ", r.why));
  return Exit::done;
}

}  // namespace

Exit translate_args(const TranslateArgs& args) {
  Draft draft;
  Names words = plain_words(args.command);
  for (const std::string& word : args.command)
    if (const auto t = find_typography(word)) {
      draft.warnings.push_back(str("the command has a typographic ", t->kind(), ", ",
                                   word.substr(t->at, t->bytes), " (", t->code,
                                   "), which a shell does not read as one; it was read as plain"));
      break;
    }
  const std::string program = translate::take_launcher(words, draft);
  translate_program(program, words, draft);
  choose_device(draft);
  for (const char* section :
       {"lora", "zero_optimization", "distributed", "evaluation", "generation", "checkpointing", "logging"})
    if (draft.config[section].empty()) draft.config.erase(section);
  if (!draft.refused()) check_settings(draft);
  return answer(draft, args.json);
}

}  // namespace ft
