// A command: its name, its help and its options. Only the files of this folder know CLI11.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/core/error.h"

namespace ft {
struct LaunchArgs;
}

namespace ft::commands {

using Names = std::vector<std::string>;

// The functions of a command in one command line: made before the line is parsed, called afterwards.
struct Use {
  std::function<Exit()> run;
  std::function<Exit(const LaunchArgs&)> launch = {};  // starts ranks that run it; null: ft launch cannot
  std::function<void(const Names&)> rest = {};         // takes the words after "--"; null: CLI11 parses them
};

struct Command {
  const char *name, *help, *examples;
  // Adds the options. A mistake that several options make together is thrown by the app's callback, as
  // UserError (config): ft launch checks the command line of its ranks by parsing it.
  Use (*add_options)(CLI::App&) = nullptr;
  std::span<const Command* const> below = {};  // subcommands, such as ft checkpoint verify
};

// Words that --dtype takes.
inline const Names kDtypes{"float32", "bfloat16", "float16"};

}  // namespace ft::commands
