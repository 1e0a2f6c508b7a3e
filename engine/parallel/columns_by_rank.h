// Ranks that share the rows of sequences exchange rows for columns, as HeadsByRank (sequence_part.h) does for
// the heads of attention: each rank gets some columns of every tensor, for all rows in their order. To
// exchange tensors with b bytes on each rank, every rank sends b (S - 1) / S.
#pragma once
#include <span>

#include "engine/parallel/sequence_part.h"

namespace ft {

class ColumnsByRank {
 public:
  ColumnsByRank(Communicator& ranks, SequenceSharing by) : ranks_(ranks), by_(by) {}

  std::int64_t rows(const Tensor& part) const { return part.rows() * ranks_.size(); }

  // Tensors (n, columns) of one type; each one's columns divide evenly among the ranks.
  using Parts = std::span<const Tensor>;
  // to (rows of all, sum of columns / S), dense = this rank's columns of all ranks' tensors, side by side.
  void gather(Ctx&, Tensor to, Parts) const;
  // The transpose: sends `from` back, so that the tensors have this rank's rows of all columns.
  void give_back(Ctx&, Parts, Tensor from) const;

 private:
  // Calls f(columns of a tensor that rank r gets, their place side by side) for each tensor.
  void each(Parts, int r, const auto& f) const;
  // Calls f(rows in rank order, the same rows in the sequences' order) for each run of rows.
  void each_run(const Tensor& by_rank, const Tensor& in_order, const auto& f) const;
  // True if all ranks' rows, one rank's after another's, are in the order of the sequences.
  bool in_order() const { return by_ == SequenceSharing::ulysses; }

  Communicator& ranks_;
  SequenceSharing by_;
};

}  // namespace ft
