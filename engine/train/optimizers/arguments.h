// training.optim_args as transformers writes it, "key=value,key=value": spaces are nothing, the last of two
// equal keys holds.
#pragma once
#include <string>

#include "engine/train/arguments.h"
#include "engine/train/config.h"

namespace ft {

// Reads numbers and True or False as such, the rest as texts. Throws UserError (config) for a part that is no
// pair.
Json parse_optim_args(const std::string& text, const SettingsText& tree);

template <class Arguments>
Arguments optim_args_of(const TrainingConfig& t, const SettingsText& tree) {
  return read_arguments(Arguments{}, name_of(t.optim), "training.optim_args",
                        parse_optim_args(t.optim_args.value_or(""), tree), tree,
                        [](const Arguments& arguments) -> std::string {
                          if constexpr (requires { arguments.mistake(); }) return arguments.mistake();
                          return "";
                        });
}

// For an optimizer that takes none.
struct NoArguments {
  void fields(auto&) {}
};

}  // namespace ft
