// Embeddings of a batch's texts, computed from the head's states (HeadKind::states).
#pragma once
#include <span>

#include "engine/core/batch.h"
#include "engine/train/objectives/contrast.h"

namespace ft {

// Returns a vector for each sequence: the mean of the states (targets, width) of its targets. Without states,
// as in a plan, there are no vectors.
Vectors embedded(const Batch&, std::span<const float> states);
// Sets the derivative by the states, from the derivative by the vectors.
void embedded_back(const Batch&, std::span<const double> by_vectors, std::size_t width,
                   std::span<double> by_states);

}  // namespace ft
