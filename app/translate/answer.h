// The end of a translation: refused settings, the device, and the printed rows.
#pragma once
#include <string>
#include <vector>

#include "app/translate/flag.h"

namespace ft::translate {

// The name of a run's file in messages and commands if the translation is not written to a file.
inline constexpr const char* kFile = "run.json";

// Chooses the device unless the CPU is chosen already. The translated programs use GPUs if there are any.
// `always` warns of a machine without a GPU also if nothing is launched.
void choose_device(Draft&, bool always);
// Removes sections without settings.
void tidy(Draft&);

// Checks the settings as ft reads them. Throws UserError (config) and names the flags that set a wrong one.
void check_settings(const Draft&);
// Removes settings that ft's reader refuses, and rejects their keys. Throws UserError (config) for a
// mistake that no key explains.
void drop_refused(Draft&);

// Returns the command that starts the run of a file.
std::string next_command(const Draft&, const std::string& file);
// Returns "a, b" as a list, "a" as a text, "" as null.
Json settings_of(const std::string& to);

// A command's word for a verdict.
using VerdictWord = std::string (*)(const Row&);
// Prints a line for each row, and the warnings, on stderr. Empty keys share one line.
void print_rows(const Draft&, VerdictWord);

}  // namespace ft::translate
