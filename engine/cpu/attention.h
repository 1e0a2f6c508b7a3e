// op::Attention and its gradient on the CPU: distributes the kernels' parts over threads. Results have the
// same bits for any number of threads. All workspace is taken at construction.
#pragma once
#include "engine/core/arena.h"
#include "engine/cpu/kernels/kernels.h"
#include "engine/ops/ops.h"

namespace ft::cpu {

class Attention {
 public:
  Attention(const Kernels& kernels, Team& team);

  // For heads of at most kAttentionWidth columns.
  void forward(const op::Attention&);
  void backward(const op::AttentionGrad&);
  void ranges(const op::AttentionRanges&);

  // Bytes of workspace of all threads, for sequences of any length. The system provides memory only for the
  // pages that a step touches: at least 0.3 MB per thread.
  std::int64_t workspace_bytes() const;

 private:
  float* workspace(int thread) const;

  const Kernels& kernels_;
  Team& team_;
  Buffer memory_;
};

}  // namespace ft::cpu
