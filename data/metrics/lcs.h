// Longest common subsequences of words, 64 columns of the table at a time (Hyyrö, "Bit-parallel LCS-length
// computation revisited", 2004): n rows and m columns take n m / 64 steps.
#pragma once
#include <cstdint>
#include <vector>

#include "data/metrics/words.h"

namespace ft::metrics {

// Returns its length. Needs memory for m / 64 words.
std::int64_t lcs_length(const Symbols& rows, const Symbols& columns);

// Returns the indices of the rows' symbols that are in it, ascending. Of several longest subsequences it is
// the one read from the table's end, going to the row above before the column to the left if both are equally
// good. Needs memory for
// 2 sqrt(n) m / 64 words.
std::vector<std::size_t> lcs_rows(const Symbols& rows, const Symbols& columns);

}  // namespace ft::metrics
