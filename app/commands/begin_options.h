// Options that begin a run from a model and data: of ft train and of ft new.
#pragma once
#include "app/begin/begin.h"
#include "app/commands/command.h"

namespace ft::commands {

// Adds --model, --data, --lora, --qlora and --full. They exclude `other`, unless it is null.
void add_begin_options(CLI::App& app, BeginArgs& args, CLI::Option* other = nullptr);

}  // namespace ft::commands
