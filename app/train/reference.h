// Computes the reference's log-probabilities of all data, once before training.
#pragma once
#include "app/run/run.h"
#include "app/train/reference_file.h"

namespace ft {

// Computes them with the reference model, or with the policy at the beginning of the run if there is none.
// All ranks call it. From then on batches include the numbers. `file`: the root's file that keeps them; null:
// they are not kept.
void precompute_reference(Run&, Screen&, const ReferenceFile* file = nullptr);

}  // namespace ft
