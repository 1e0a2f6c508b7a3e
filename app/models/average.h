// ft merge --average: the mean of several checkpoints or results of one kind, weight by weight.
#pragma once
#include "app/models/merge.h"

namespace ft {

// Every folder is a model, or every one an adapter, with the same weights; summed in f64 and rounded once, to
// --dtype or the type of the last folder's weights. Everything else is the last folder's.
Exit average(const MergeArgs&);

}  // namespace ft
