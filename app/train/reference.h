// Computes the reference's log-probabilities of all data, once before training.
#pragma once
#include "app/run/run.h"
#include "app/train/reference_file.h"

namespace ft {

// By the reference where it is a model of its own, else by the policy, which is as the run begins; every rank
// calls. Batches bring the numbers from here on. file: of the root, where they are kept; null: nowhere.
void precompute_reference(Run&, Screen&, const ReferenceFile* file = nullptr);

}  // namespace ft
