// A program whose files or command lines become a run.json. Each is described in its own file and stands in
// list.h.
#pragma once
#include <span>
#include <string>

#include "app/translate/flag.h"

namespace ft::translate {

struct Program {
  const char* name;   // as ft import --from takes it
  const char* title;  // in messages and headings
  const char* about;  // in docs/import.md: its input, and the rules for values that depend on each other
  Table (*keys)();
  std::span<const Default> defaults;
  // Returns true for the top of a file of this program; null: it has no files.
  bool (*fits)(const Json& file) = nullptr;
  const char* marks = "";  // keys that show it, for messages
  // Returns true for a program as a command line calls it: "path/run_translation.py", "trl sft"; null: none.
  bool (*runs)(const std::string& script) = nullptr;
  void (*prepare)(SettingsText& file) = nullptr;  // changes a file before its keys are read; null: does not
  // Makes settings of the keys with Fate::own, before defaults are filled in. `file` is null for a command
  // line. Throws UserError (config) if the run is one that ft does not do.
  void (*finish)(const SettingsText& file, const Given&, Draft&);
};

// Returns true if the path ends with this file name.
inline bool is_script(const std::string& path, const std::string& name) {
  return path == name || path.ends_with("/" + name);
}

}  // namespace ft::translate
