#include "app/begin/new_run.h"

#include <unistd.h>

#include <functional>
#include <iostream>

#include "app/hub/access.h"
#include "app/screen/format.h"
#include "data/files/files.h"
#include "engine/core/typography.h"
#include "engine/files/file.h"
#include "engine/files/hub_cache.h"
#include "engine/files/near_path.h"
#include "engine/files/new_file.h"

namespace ft {
namespace {

// A question for an answer that the command line may have. fallback: the answer of an empty line; "": none.
// check: throws UserError for a wrong answer.
struct Question {
  const char *option, *name, *help, *fallback;
  void (*check)(const std::string&);
};

class Questions {
 public:
  explicit Questions(Screen& screen) : screen_(screen), asks_(isatty(STDIN_FILENO) == 1) {}

  // Returns the given answer, or a typed one.
  std::string answer(const Question& q, const std::string& given) const {
    if (!given.empty()) {
      q.check(given);
      return given;
    }
    if (!asks_)
      throw UserError(Exit::config,
                      str("ft new: give ", q.option, " (", q.help, "); without a terminal nothing is asked"));
    for (;;) {
      std::string typed = line(q);
      if (typed.empty()) typed = q.fallback;
      try {
        if (typed.empty()) throw UserError(Exit::config, str("an answer is needed: ", q.help));
        q.check(typed);
        return typed;
      } catch (const UserError& wrong) {
        screen_.line(screen_.yellow(wrong.what()), 2);
      }
    }
  }

 private:
  std::string line(const Question& q) const {
    constexpr std::size_t kName = 8;
    std::cerr << screen_.bold(q.name) << std::string(kName - std::string(q.name).size(), ' ') << q.help
              << (*q.fallback ? str(" [", q.fallback, "]") : "") << screen_.bold("\n> ") << std::flush;
    std::string typed;
    if (!std::getline(std::cin, typed)) {
      std::cerr << "\n";
      throw UserError(Exit::config, "ft new: the questions were not answered; nothing was written");
    }
    const auto end = typed.find_last_not_of(" \t\r");
    typed.resize(end == typed.npos ? 0 : end + 1);
    return home_expanded(typed.substr(std::min(typed.find_first_not_of(" \t"), typed.size())));
  }

  Screen& screen_;
  bool asks_;
};

void check_model(const std::string& name) {
  const bool id = is_hub_id(name) && hint_about_path(name).empty();
  if (!path_exists(name) && !id)
    throw UserError(Exit::config,
                    str(printable(name), ": there is no such folder, file or id", hint_about_path(name)));
}

void check_data(const std::string& name) {
  if (is_hub_id(name) && !path_exists(name) && hint_about_path(name).empty()) return;
  find_data_files({.path = name}, {.hub = hub::cache_folder()}, "--data");
}

std::optional<BeginMethod> method_of(const std::string& word) {
  if (word == "lora") return BeginMethod::lora;
  if (word == "qlora") return BeginMethod::qlora;
  if (word == "full") return BeginMethod::full;
  return {};
}

void check_method(const std::string& word) {
  if (!method_of(word))
    throw UserError(Exit::config, printable(word) + ": the methods are lora, qlora and full");
}

void check_first(const std::string& file) { check_new_file(file, false); }
void check_again(const std::string& file) { check_new_file(file, true); }

// Fills in the answers that are missing.
BeginArgs answered(const NewArgs& args, Screen& screen) {
  const Questions questions(screen);
  BeginArgs all = args.begin;
  all.model = questions.answer(
      {"--model", "model", "a folder, a GGUF file, or the id of a model on the hub", "", check_model},
      all.model);
  all.data = questions.answer(
      {"--data", "data", "a file, a folder, or the id of a data set on the hub", "", check_data}, all.data);
  if (all.method == BeginMethod::chosen)
    all.method = *method_of(questions.answer(
        {"--lora, --qlora or --full", "method",
         "lora: an adapter; qlora: an adapter of weights in 4 bits; full: all weights", "lora", check_method},
        ""));
  all.output = questions.answer(
      {"--output", "output", "the file to write", "run.json", args.overwrite ? check_again : check_first},
      all.output);
  return all;
}

}  // namespace

Exit new_run(const NewArgs& args) {
  Screen screen(Screen::standard_error());
  BeginArgs begin = answered(args, screen);
  const std::string file = std::exchange(begin.output, "");
  Beginning beginning(begin, args.overrides);
  beginning.choose(screen);
  screen.clear();
  beginning.show(screen);
  write_file(file, beginning.as_file(folder_of(file)));
  std::cout << "written  " << show::path(file) << "\nnext     ft train --config "
            << shell_line({show::path(file)}) << "\n";
  return Exit::done;
}

}  // namespace ft
