// ft completion.
#include <iostream>

#include "app/cli/completion_scripts.h"
#include "app/commands/list.h"

namespace ft::commands {
namespace {

Use completion_options(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  app.add_option("shell", *shell, "The shell.")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  return {.run = [shell] {
    std::cout << completion_script(*shell);
    return Exit::done;
  }};
}

}  // namespace

const Command kCompletion{"completion", "A script that completes ft's command line in a shell.",
                          "  source <(ft completion bash)\n"
                          "  ft completion zsh > ~/.zfunc/_ft\n"
                          "  ft completion fish | source",
                          completion_options};

}  // namespace ft::commands
