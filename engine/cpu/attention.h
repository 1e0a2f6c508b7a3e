// op::Attention and its gradient on the CPU: deals the kernels' parts out to the threads. Results do not
// depend on the number of threads, bit by bit. All workspace is taken at construction.
#pragma once
#include "engine/core/arena.h"
#include "engine/cpu/kernels/kernels.h"
#include "engine/ops/ops.h"

namespace ft::cpu {

class Attention {
 public:
  Attention(const Kernels& kernels, Team& team);

  // Heads of at most kAttentionWidth columns.
  void forward(const op::Attention&);
  void backward(const op::AttentionGrad&);
  void ranges(const op::AttentionRanges&);

  // Bytes of all threads, whatever the length of the sequences. Only what a step touches is ever backed by
  // memory: from 0.3 MB a thread on.
  std::int64_t workspace_bytes() const;

 private:
  float* workspace(int thread) const;

  const Kernels& kernels_;
  Team& team_;
  Buffer memory_;
};

}  // namespace ft::cpu
