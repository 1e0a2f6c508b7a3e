// Reads a file of YAML as PyYAML does, which axolotl, LLaMA-Factory, TRL and torchtune read theirs with.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/settings/fields.h"

namespace ft::translate {

struct YamlRules {
  std::size_t max_bytes = std::size_t{1} << 20;
  int max_depth = 32;
  std::int64_t max_nodes = 5'000;  // aliases count as copies
};

struct YamlFile {
  SettingsText text;               // an object, and the lines of its keys
  std::vector<std::string> notes;  // keys that are given twice
};

// Parses one document whose top is a mapping. Scalars have YAML 1.1's types: yes is true, 2e-5 a text. Keys
// are texts. Of equal keys the last one counts. Errors call the file `name`. Throws UserError (config) with
// the line for broken syntax, a text beyond the rules, tags of other programs and aliases of themselves.
YamlFile parse_yaml(std::string_view text, const std::string& name, const YamlRules& rules = {});

}  // namespace ft::translate
