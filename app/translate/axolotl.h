// axolotl's YAML: its keys, in parts, and the settings that follow from several of them.
#pragma once
#include <span>

#include "app/translate/flag.h"

namespace ft::translate::axolotl {

Table keys();
std::span<const Flag> data_keys();
std::span<const Flag> objective_keys();
std::span<const Flag> plugin_keys();

// Makes data.datasets and the like of axolotl's lists of data sets.
void choose_data(const SettingsText& file, const Given&, Draft&);
// Makes objective of `rl` and `reward_model`. Throws UserError (config) for one that ft does not have.
void choose_objective(const Given&, Draft&);

}  // namespace ft::translate::axolotl
