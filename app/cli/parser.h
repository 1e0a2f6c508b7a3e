// The parser of ft's command line: it makes CLI11's tree of the commands in list.h and calls the one that is
// named.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "app/commands/command.h"
#include "app/version/version.h"

namespace ft::commands {

class Parser {
 public:
  Parser();
  // Throws UserError (config) for a mistake.
  Exit run(const Names& arguments);
  // Starts the ranks of the command in `words`. A mistake in them is reported here, once, and not by every
  // rank.
  Exit launch(const LaunchArgs& launched, const Names& words);
  const CLI::App& root() const { return app_; }

 private:
  void add(const Command& command, CLI::App& above);
  // Parses `words`; then shows the help that they ask for, or calls `act` with the command that they name.
  Exit parse(const Names& words, const std::function<Exit(const Use*)>& act);
  Names without_rest(Names words) const;
  const Use* named() const;  // null: the words name no command
  [[noreturn]] void refuse(const CLI::ParseError& error, const Names& arguments) const;

  CLI::App app_{"ft fine-tunes language models: LoRA, QLoRA and full, without Python."};
  std::map<const CLI::App*, Use> uses_;
  bool wants_version_ = false;
  std::string cuda_libs_;
  VersionArgs version_;
};

}  // namespace ft::commands
