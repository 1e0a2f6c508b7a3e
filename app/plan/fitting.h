// Settings with which a run fits that does not fit as it is.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "app/plan/planned.h"

namespace ft {

struct Fit {
  std::vector<std::string> settings;  // all of them together
  std::int64_t total = 0;             // bytes that a rank then takes
  std::string cost;                   // beside time, in words
};

// Each of ways_out() that is enough alone, and `longest`, the run's longest_that_fits(), as max_seq_length
// (an encoder-decoder's max_source_length). If none is, one entry: all ways that help, one after the other
// until the run fits, and where even these are not enough the longest sequences that then fit. Empty: nothing
// helps.
std::vector<Fit> fits(const RunConfig&, const BuiltData*, Room, std::int64_t longest);

// The same in lines, for ft plan.
std::string fits_text(const std::vector<Fit>&);

}  // namespace ft
