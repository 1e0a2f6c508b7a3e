// Longest common subsequences of words, 64 columns of the table at a time (Hyyrö, "Bit-parallel LCS-length
// computation revisited", 2004): n rows and m columns take n m / 64 steps.
#pragma once
#include <cstdint>
#include <vector>

#include "data/metrics/words.h"

namespace ft::metrics {

// How long it is. Memory for m / 64 words.
std::int64_t lcs_length(const Symbols& rows, const Symbols& columns);

// Which of the rows' symbols are in it, ascending: of several subsequences the one that is read out of the
// table from its end, going to the row above before the column to the left where both are as good. Memory for
// 2 sqrt(n) m / 64 words.
std::vector<std::size_t> lcs_rows(const Symbols& rows, const Symbols& columns);

}  // namespace ft::metrics
