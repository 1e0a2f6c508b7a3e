// Sequence parallelism: S ranks share the tokens of each micro-batch, n rows each. All but attention concerns
// single rows. Around attention rows are exchanged for heads (DeepSpeed-Ulysses, Jacobs et al. 2023): each
// rank attends over all S n rows with H / S of the heads. An exchange of a tensor of n columns' bytes b sends
// b (S - 1) / S from every rank.
#pragma once
#include "engine/core/batch.h"
#include "engine/dist/communicator.h"
#include "engine/nn/context.h"

namespace ft {

// Rows [part n, (part + 1) n) of a batch, with the targets that are among them; its starts are the whole
// batch's. n is rounded up, and the rows that are missing are a sequence of their own, without targets.
Batch part_of(const Batch& whole, int part, int parts);

// Which heads a rank attends with. Queries are dealt out evenly, keys and values with the queries that read
// them: where there are fewer of them than ranks, several have the same one.
class HeadsByRank {
 public:
  HeadsByRank(Communicator& ranks, Heads all);

  // Sizes up to `heads.query` ranks that can share these heads, in ascending order.
  static bool divides(Heads, std::int64_t ranks);

  Heads own() const { return own_; }  // each rank's
  std::int64_t columns() const { return (own_.query + 2 * own_.key_value) * own_.width; }
  std::int64_t rows(const Tensor& part) const { return part.rows() * ranks_.size(); }
  // Of a tensor with columns(): queries, keys, values.
  Tensor queries(const Tensor& t) const { return t.columns(0, keys_at()); }
  Tensor keys(const Tensor& t) const { return t.columns(keys_at(), keys_at() + key_columns()); }
  Tensor values(const Tensor& t) const { return t.columns(keys_at() + key_columns(), columns()); }

  // to (rows of all, columns()) = own heads of everybody's q (n, H D), k and v (n, KV D).
  void gather(Ctx&, Tensor to, Tensor q, Tensor k, Tensor v) const;
  // The transpose: from (rows of all, columns()) to the own rows of all heads, added up where several ranks
  // have the same.
  void give_back(Ctx&, Tensor q, Tensor k, Tensor v, Tensor from) const;
  // Of queries alone: to (rows of all, H D / S), q (n, H D).
  void gather(Ctx&, Tensor to, Tensor q) const;
  void give_back(Ctx&, Tensor q, Tensor from) const;

 private:
  std::int64_t keys_at() const { return own_.query * own_.width; }
  std::int64_t key_columns() const { return own_.key_value * own_.width; }
  // Of (n, KV D) those of rank r.
  Tensor keys_of(const Tensor& all, int r) const;
  Tensor queries_of(const Tensor& all, int r) const {
    return all.columns(keys_at() * r, keys_at() * (r + 1));
  }

  Communicator& ranks_;
  Heads all_, own_;
};

}  // namespace ft
