// Options that begin a run from a model and data: of ft train and of ft new.
#pragma once
#include "app/begin/begin.h"
#include "app/commands/command.h"

namespace ft::commands {

// Adds --model, --data, --lora, --qlora and --full.
void add_begin_options(CLI::App& app, BeginArgs& args);

}  // namespace ft::commands
