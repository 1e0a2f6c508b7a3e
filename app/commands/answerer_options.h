// Options of the commands in which a model answers.
#pragma once
#include "app/answers/args.h"
#include "app/commands/command.h"

namespace ft::commands {

// Adds these options. adapter: --adapter too.
void add_answerer_options(CLI::App& app, AnswererArgs& args, bool adapter = true);

}  // namespace ft::commands
