// ft merge --average: the mean of several checkpoints or results of one kind, weight by weight.
#pragma once
#include "app/models/merge.h"

namespace ft {

// Averages models, or adapters, with the same weights. Sums in f64 and rounds once, to --dtype or to the
// dtype of the last folder's weights. All other files come from the last folder.
Exit average(const MergeArgs&);

}  // namespace ft
