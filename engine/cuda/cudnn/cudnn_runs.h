// Which sequences of a batch cuDNN computes together, and the lengths it gets. Its plans are for fixed bounds
// and take half a second each; there are few bounds, so batches of all lengths settle after some steps.
#pragma once
#include <functional>
#include <vector>

#include "engine/ops/ops.h"

namespace ft::cuda {

struct CudnnRun {
  std::int64_t batch = 1;              // sequences that the plan is for
  std::int64_t rows = 0, keys = 0;     // of each; when ragged, of none more
  bool ragged = false;                 // else all have the same length and lie one after another
  std::vector<std::size_t> sequences;  // which; when ragged at most `batch` of them, in order
};

// All sequences of the mask in runs. Sequences of one length, a multiple of 128, get that length; others the
// next power of two, at least 128. As many run together as `fits` accepts, a power of two. Empty: one of them
// alone does not fit, or a sequence is empty.
std::vector<CudnnRun> cudnn_runs(const Mask& mask, const std::function<bool(const CudnnRun&)>& fits);

// What a ragged plan reads of its sequences, in lists of the same size, a multiple of 16 bytes apart: first
// rows, rows, keys, then for each tensor the elements before each sequence's first, one more than
// sequences. What the batch has no sequence for is empty, at the end of the last one.
class CudnnWords {
 public:
  struct Rows {
    std::int64_t stride;  // elements
    bool keys;            // the rows are those of keys and values
  };
  enum List : std::size_t { kFirstRow, kRows, kKeys, kOffsets };

  CudnnWords(const CudnnRun& run, const Mask& mask, std::span<const Rows> tensors);
  const std::vector<std::int32_t>& all() const { return words_; }
  // Where a list begins; kOffsets + i: of tensor i.
  std::size_t at(std::size_t list) const { return list * apart_; }

 private:
  std::size_t apart_;
  std::vector<std::int32_t> words_;
};

}  // namespace ft::cuda
