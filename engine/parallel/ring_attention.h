// Causal self-attention of S ranks that share the rows of sequences, n = 2 m rows each (Liu et al., "Ring
// Attention with Blockwise Transformers", 2023): keys and values are passed on from rank to rank, S - 1
// times, and what a rank's queries see of each rank's is merged. The rows are cut into 2 S chunks of m, of
// which rank r has chunks S - 1 - r and S + r (RowShare). A query sees the keys of its own chunk, and of
// earlier ones those of the one sequence that reaches into its chunk. A rank attends over two pairs
// of chunks of every other rank's keys, so that all have as much to do. Keys and values are under way while
// those before them are attended to.
//
// Every rank sends 2 n KV D elements (S - 1) times forward; backward these again, and as many gradients in
// f32. Any heads will do. There is no dropout.
#pragma once
#include <optional>
#include <vector>

#include "engine/ops/attention.h"
#include "engine/pass/context.h"

namespace ft {

class RingAttention {
 public:
  // mask: causal, of all ranks' rows.
  RingAttention(Ctx& c, Communicator& ranks, Heads heads, Mask mask, const Scores& scores)
      : c_(c), ranks_(ranks), heads_(heads), mask_(mask), scores_(scores) {}

  // y, q (n, H D); k, v (n, KV D); lse (2 H, m) f32, chunk after chunk.
  void forward(Tensor y, Tensor lse, Tensor q, Tensor k, Tensor v);
  struct Gradients {
    Tensor q, k, v;
  };
  void backward(const Gradients&, Tensor dy, Tensor y, Tensor lse, Tensor q, Tensor k, Tensor v);

 private:
  struct Rows {
    std::int64_t begin, end;
    Tensor of(const Tensor& t) const { return t.slice(begin, end); }
    std::int64_t count() const { return end - begin; }
  };
  // Queries of a chunk and keys of a chunk that see each other: numbers among the rank's own rows, and among
  // those of the rank that the keys are of.
  struct Pair {
    int chunk;      // of the queries: 0 or 1
    bool diagonal;  // the keys are theirs
    Rows queries, keys;
    std::vector<std::int32_t> starts, key_starts;
    std::int64_t window;
    Mask mask() const {
      return {.starts = starts, .causal = diagonal, .window = window, .key_starts = key_starts};
    }
  };
  // Keys over values, (2 n, KV D), or their gradients.
  static Tensor keys(const Tensor& both) { return both.slice(0, both.rows() / 2); }
  static Tensor values(const Tensor& both) { return both.slice(both.rows() / 2, both.rows()); }

  std::int64_t first_row(int rank, int chunk) const {
    return chunk_rows_ * (chunk == 0 ? ranks_.size() - 1 - rank : ranks_.size() + rank);
  }
  std::optional<Pair> pair_of(int chunk, int from, int their_chunk) const;
  std::vector<std::int32_t> starts_within(std::int64_t row) const;
  // f(pair) for the keys of rank `from`, those of one's own first.
  void each_pair(int from, auto f) const;
  // f(step, from, keys and values of rank `from`) for each rank, oneself first.
  void go_round(Tensor k, Tensor v, auto f);
  Communicator::Ticket pass_on(Tensor out, Tensor in);
  Tensor lse_of(const Tensor& lse, const Pair&) const;
  Tensor take_both(const Tensor& k, DType type) { return c_.scratch.take({2 * k.rows(), k.cols()}, type); }

  Ctx& c_;
  Communicator& ranks_;
  const Heads heads_;
  const Mask mask_;
  const Scores scores_;
  std::int64_t chunk_rows_ = 0;  // m
};

}  // namespace ft
