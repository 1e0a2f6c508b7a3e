// Sequence parallelism: S ranks share the tokens of each micro-batch, n rows each. All but attention concerns
// single rows. Around attention rows are exchanged for heads (DeepSpeed-Ulysses, Jacobs et al. 2023): each
// rank attends over all S n rows with H / S of the heads. An exchange of a tensor of n columns' bytes b sends
// b (S - 1) / S from every rank. Or keys and values are passed on in a ring (ring_attention.h).
#pragma once
#include "engine/core/batch.h"
#include "engine/core/divide.h"
#include "engine/ops/attention.h"
#include "engine/pass/context.h"
#include "engine/ranks/grid.h"

namespace ft {

// Which rows a rank has. For Ulysses n in a row. In a ring, where late rows see most, the rows are cut into
// 2 S chunks and rank r has chunks S - 1 - r and S + r: all have as much to do. What is filled up is the last
// rank's.
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

// Its rows of a batch, with the targets that are among them; the starts are the whole batch's. All ranks have
// as many rows, and those that are missing are a sequence of their own, without targets. That sequence has
// at least one source row, where there are sources: a decoder's rows have to see some.
Batch part_of(const Batch& whole, const RowShare&);

// Which heads a rank attends with. Queries are dealt out evenly, keys and values with the queries that read
// them: where there are fewer of them than ranks, several have the same one.
class HeadsByRank {
 public:
  HeadsByRank(Communicator& ranks, Heads all);

  // Sizes up to `heads.query` ranks that can share these heads, in ascending order.
  static bool divides(Heads, std::int64_t ranks);

  Heads own() const { return own_; }                                 // each rank's
  std::int64_t first() const { return own_.query * ranks_.rank(); }  // of the queries'
  int ranks() const { return ranks_.size(); }
  std::int64_t columns() const { return (own_.query + 2 * own_.key_value) * own_.width; }
  std::int64_t rows(const Tensor& part) const { return part.rows() * ranks_.size(); }
  // The parts of a tensor with columns(): queries, keys, values.
  Tensor queries(const Tensor& t) const { return t.columns(0, keys_at()); }
  Tensor keys(const Tensor& t) const { return t.columns(keys_at(), keys_at() + key_columns()); }
  Tensor values(const Tensor& t) const { return t.columns(keys_at() + key_columns(), columns()); }

  // to (rows of all, columns()) = own heads of everybody's q (n, H D), k and v (n, KV D).
  void gather(Ctx&, Tensor to, Tensor q, Tensor k, Tensor v) const;
  // The transpose: from (rows of all, columns()) to the own rows of all heads, added up where several ranks
  // have the same.
  void give_back(Ctx&, Tensor q, Tensor k, Tensor v, Tensor from) const;
  // The same for queries alone: to (rows of all, H D / S), q (n, H D).
  void gather(Ctx&, Tensor to, Tensor q) const;
  void give_back(Ctx&, Tensor q, Tensor from) const;

 private:
  std::int64_t keys_at() const { return own_.query * own_.width; }
  std::int64_t key_columns() const { return own_.key_value * own_.width; }
  // Rank r's columns of (n, KV D).
  Tensor keys_of(const Tensor& all, int r) const;
  Tensor queries_of(const Tensor& all, int r) const {
    return all.columns(keys_at() * r, keys_at() * (r + 1));
  }

  Communicator& ranks_;
  Heads all_, own_;
};

}  // namespace ft
