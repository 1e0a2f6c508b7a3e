// Finds settings with which a run fits into memory.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "app/plan/planned.h"

namespace ft {

struct Fit {
  std::vector<std::string> settings;  // needed together
  std::int64_t total = 0;             // bytes of a rank with these settings
  std::string cost;                   // cost other than time, as text
};

// Returns an entry for each of ways_out() that is enough alone, and for `longest`, the run's
// longest_that_fits(), as max_seq_length (encoder-decoder: max_source_length). If there is none, returns one
// entry: all ways that help, added until the run fits, and if they do not suffice the longest sequences that
// then fit. Empty: nothing helps.
std::vector<Fit> fits(const RunConfig&, const BuiltData*, Room, std::int64_t longest);

// Returns the entries as lines, for ft plan.
std::string fits_text(const std::vector<Fit>&);

}  // namespace ft
