// The steps in which a GPU computes the gated delta rule and its gradient; delta_chunk.h has the
// mathematics. With T = (I + A)^-1 and S the state before a chunk, D = T R and R = beta (V - up K S),
// where `up` multiplies row i by e^s_i, `rest` by e^(s_L - s_i). For a chunk's rows
//   O = up (Q S) + P D,  S <- e^s_L S + K^T (rest D),
// and, with dS the gradient of the state after the chunk, the gradient of R is
//   dR = T^T (P^T dO + rest (K dS)),  dS <- e^s_L dS + Q^T (up dO) - K^T (beta up dR).
// So only S and dS pass from chunk to chunk, and each column of a state on its own. The steps:
//   1. all chunks at a time: T, P, the sums of g and the lengths of queries and keys;
//   2. for every sequence and 32 columns of a state, one chunk after another: D, O, S;
//   3. for the gradient, in addition to 1 and 2 without O: dR, dS from the last chunk to the first;
//   4. all chunks at a time: the gradients of operands.
// A block computes the chunks that begin (in 2 the sequences that begin, in 3 those that end) in its
// window of rows, so the host need not know the sequences. Results do not depend on other sequences.
#pragma once
#include "engine/cuda/kernels/queue.h"
#include "engine/ops/delta_operands.h"
#include "engine/ops/delta_room.h"

namespace ft::cuda {

// Number of rows of a window, at most 64: fewer if there are few rows, as in generation.
inline int delta_window(std::int64_t rows) {
  return static_cast<int>(rows < 2 * kDeltaChunk ? 1 : rows < 64 * kDeltaChunk ? rows / 64 : kDeltaChunk);
}
inline DeltaGpuRoom room_of(const DeltaOperands& x) {
  return delta_gpu_room(x.heads, x.q.rows, static_cast<float*>(x.work.data), x.o_grad.data != nullptr);
}

inline void require_room(const DeltaOperands& x) {
  require(x.work.rows * x.work.cols >= room_of(x).elements,
          "delta_rule: too little memory for a GPU to work in");
}

// Step 1, and step 2 without results if x has no o; then it stores the states between chunks in x.states.
void queue_chunks(const DeltaOperands&, cudaStream_t);
void queue_states(const DeltaOperands&, cudaStream_t);
void queue_operand_gradients(const DeltaOperands&, cudaStream_t);  // step 4

}  // namespace ft::cuda
