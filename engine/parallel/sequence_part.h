// Sequence parallelism: S ranks share the tokens of each micro-batch, n rows each. Everything except
// attention works on single rows. Around attention ranks exchange rows for heads (DeepSpeed-Ulysses, Jacobs
// et al. 2023): each rank attends over all S n rows with H / S of the heads. To exchange a tensor with b
// bytes on each rank, every rank sends b (S - 1) / S. Alternatively keys and values are sent around a ring
// (ring_attention.h).
#pragma once
#include "engine/core/batch.h"
#include "engine/core/divide.h"
#include "engine/ops/attention.h"
#include "engine/pass/context.h"
#include "engine/ranks/grid.h"

namespace ft {

// The rows that a rank has. Ulysses: n contiguous rows. Ring: the rows are cut into 2 S chunks and rank r has
// chunks S - 1 - r and S + r, so that all ranks have the same work although late rows see the most. Padding
// rows belong to the last rank.
struct RowShare {
  int rank, ranks;
  SequenceSharing by = SequenceSharing::ulysses;

  int runs() const { return by == SequenceSharing::ring ? 2 : 1; }
  std::int64_t rows_of(std::int64_t all) const {
    return runs() * ceil_div(all, std::int64_t{runs()} * ranks);
  }
  RowNumbers numbers(std::int64_t own) const {
    if (runs() == 1) return {own * rank};
    return {own / 2 * (ranks - 1 - rank), own / 2 * (ranks + rank)};
  }
};

// The rank's rows of a batch, with the targets among them; starts describe the full batch. All ranks have the
// same number of rows; padding rows form a sequence without targets. If there are source rows, that sequence
// has at least one, because a decoder's rows need some to see.
Batch part_of(const Batch& whole, const RowShare&);

// Throw UserError (config): so many ranks, or a ring of them, cannot share a model's rows, and why.
[[noreturn]] void refuse_row_share(std::int64_t ranks, const std::string& why);
[[noreturn]] void refuse_ring(const std::string& why);

// The heads that a rank attends with. Queries are split evenly. Keys and values go with the queries that read
// them: if there are fewer of them than ranks, several ranks have the same one.
class HeadsByRank {
 public:
  HeadsByRank(Communicator& ranks, Heads all);

  // True if so many ranks, at most `heads.query`, can split these heads.
  static bool divides(Heads, std::int64_t ranks);
  // Throws UserError (config) unless so many ranks can split them; the message lists sizes that would do.
  static void require_divisible(Heads, std::int64_t ranks);

  Heads own() const { return own_; }                                 // the same number on each rank
  std::int64_t first() const { return own_.query * ranks_.rank(); }  // of the query heads
  int ranks() const { return ranks_.size(); }
  std::int64_t columns() const { return (own_.query + 2 * own_.key_value) * own_.width; }
  std::int64_t rows(const Tensor& part) const { return part.rows() * ranks_.size(); }
  // The parts of a tensor with columns(): queries, keys, values.
  Tensor queries(const Tensor& t) const { return t.columns(0, keys_at()); }
  Tensor keys(const Tensor& t) const { return t.columns(keys_at(), keys_at() + key_columns()); }
  Tensor values(const Tensor& t) const { return t.columns(keys_at() + key_columns(), columns()); }

  // to (rows of all, columns()) = this rank's heads of all ranks' q (n, H D), k and v (n, KV D).
  void gather(Ctx&, Tensor to, Tensor q, Tensor k, Tensor v) const;
  // The transpose: sends `from` (rows of all, columns()) back, so that q, k and v have this rank's rows of
  // all heads. Adds up the heads that several ranks have.
  void give_back(Ctx&, Tensor q, Tensor k, Tensor v, Tensor from) const;
  // gather and give_back for queries alone: to and from (rows of all, H D / S), q (n, H D).
  void gather(Ctx&, Tensor to, Tensor q) const;
  void give_back(Ctx&, Tensor q, Tensor from) const;

 private:
  std::int64_t keys_at() const { return own_.query * own_.width; }
  std::int64_t key_columns() const { return own_.key_value * own_.width; }
  // The columns of (n, KV D) for rank r's heads.
  Tensor keys_of(const Tensor& all, int r) const;
  Tensor queries_of(const Tensor& all, int r) const {
    return all.columns(keys_at() * r, keys_at() * (r + 1));
  }

  Communicator& ranks_;
  Heads all_, own_;
};

}  // namespace ft
