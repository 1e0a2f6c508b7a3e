// Settings that do not go together: one table of pairs, which the reader, ft plan, ft tune and the page
// docs/together.md ask.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "app/config/config.h"

namespace ft {

// A choice that a user can make.
struct Feature {
  const char* name;  // as a user says it
  // Settings that choose it, as on a command line. The last is its own; those before are needed beside it.
  const char* set;
  // `ranks`: the ranks of a ZeRO group (Grid::zero); 0: their number is not known yet.
  bool (*on)(const RunConfig&, int ranks);
};

// Two features that one run cannot have.
struct Clash {
  const Feature& first;
  const Feature& second;
  // Texts of the message: it names the settings. {training.optim} stands for the value of that setting.
  const char* why;
  const char* mend = "leave one of them out";  // empty: `why` says it
};

// Returns the table, in the order in which mistakes are reported.
std::span<const Clash> clashes();
// Returns pairs that the model or the machine decides. The code that knows these throws; this list is for the
// page.
std::span<const Clash> clashes_by_model();

// Return the message of the first pair of the table that a configuration has; nothing: there is none.
std::optional<std::string> broken_rule(const RunConfig&, int ranks = 0);
bool goes_together(const RunConfig&, int ranks = 0);

// Throws UserError (config) if the configuration of this file has a pair of the table.
void check_together(const RunConfig&, const std::string& file);
// Throws UserError (config) if a configuration has a pair with this number of ranks that it does not have
// without.
void check_together_on(const RunConfig&, int ranks);

// Returns the message about a pair, with the values of this configuration.
std::string message(const Clash&, const RunConfig&);

}  // namespace ft
