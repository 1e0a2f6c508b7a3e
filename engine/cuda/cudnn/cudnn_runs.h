// The groups of a batch's sequences that cuDNN computes together, and the lengths that it is given. A plan is
// made for fixed bounds, which takes half a second. There are few bounds, so that after some steps batches of
// any lengths need no new plans.
#pragma once
#include <functional>
#include <vector>

#include "engine/ops/ops.h"

namespace ft::cuda {

struct CudnnRun {
  std::int64_t batch = 1;              // number of sequences that the plan is made for
  std::int64_t rows = 0, keys = 0;     // of each sequence; when ragged, the bounds
  bool ragged = false;                 // false: all have the same length and are contiguous
  std::vector<std::size_t> sequences;  // numbers of the sequences, in order; when ragged at most `batch`
};

// Divides all sequences of the mask into runs. If all sequences have one length, a multiple of 128, that
// length is the bound; otherwise the bound is the next power of two, at least 128. A run has as many
// sequences as `fits` accepts, a power of two. Empty if a single sequence does not fit, or a sequence is
// empty.
std::vector<CudnnRun> cudnn_runs(const Mask& mask, const std::function<bool(const CudnnRun&)>& fits);

// Data that a ragged plan reads about its sequences, in lists of the same size, a multiple of 16 bytes apart:
// first rows, rows, keys, and for each tensor the number of elements before each sequence, with one more
// entry than sequences. Entries beyond the run's sequences describe empty ones at the end of the last
// sequence.
class CudnnWords {
 public:
  struct Rows {
    std::int64_t stride;  // elements
    bool keys;            // true: rows of keys and values
  };
  enum List : std::size_t { kFirstRow, kRows, kKeys, kOffsets };

  CudnnWords(const CudnnRun& run, const Mask& mask, std::span<const Rows> tensors);
  const std::vector<std::int32_t>& all() const { return words_; }
  // Index of a list's first word; kOffsets + i: the list of tensor i.
  std::size_t at(std::size_t list) const { return list * apart_; }

 private:
  std::size_t apart_;
  std::vector<std::int32_t> words_;
};

}  // namespace ft::cuda
