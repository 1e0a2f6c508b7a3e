// Causal self-attention of S ranks that share the rows of sequences, n = 2 m rows each (Liu et al., "Ring
// Attention with Blockwise Transformers", 2023). Ranks send keys and values around a ring, S - 1 times, and
// each rank merges the results of its queries for every rank's keys. The rows are cut into 2 S chunks of m;
// rank r has chunks S - 1 - r and S + r (RowShare). A query sees the keys of the same chunk and, in earlier
// chunks, keys of the one sequence that reaches into its chunk. A rank attends over two pairs of chunks of
// every other rank's keys, so that all ranks have the same work. The next keys and values travel while the
// current ones are used.
//
// Every rank sends 2 n KV D elements (S - 1) times in forward. In backward it sends these again, and as many
// gradients in f32. Any number of heads works. There is no dropout.
#pragma once
#include <array>
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

  // A chunk's rows, and its lse (H, m).
  struct Chunk {
    std::int64_t first;
    Tensor lse;
    Tensor rows(const Tensor& t) const { return t.slice(first, first + lse.cols()); }
  };
  static std::array<Chunk, 2> chunks(const Heads& heads, const Tensor& lse) {
    return {Chunk{0, lse.slice(0, heads.query)}, Chunk{lse.cols(), lse.slice(heads.query, 2 * heads.query)}};
  }

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
  // Queries of one chunk and keys of one chunk that see each other. Numbers of queries count this rank's
  // rows; numbers of keys count the rows of the keys' rank.
  struct Pair {
    int chunk;      // of the queries: 0 or 1
    bool diagonal;  // keys and queries are of the same chunk
    Rows queries, keys;
    std::vector<std::int32_t> starts, key_starts;
    std::int64_t window;
    Mask mask() const {
      return {.starts = starts, .causal = diagonal, .window = window, .key_starts = key_starts};
    }
  };
  // Views of keys above values, (2 n, KV D), or of their gradients.
  static Tensor keys(const Tensor& both) { return both.slice(0, both.rows() / 2); }
  static Tensor values(const Tensor& both) { return both.slice(both.rows() / 2, both.rows()); }

  std::int64_t first_row(int rank, int chunk) const {
    return chunk_rows_ * (chunk == 0 ? ranks_.size() - 1 - rank : ranks_.size() + rank);
  }
  std::optional<Pair> pair_of(int chunk, int from, int their_chunk) const;
  std::vector<std::int32_t> starts_within(std::int64_t row) const;
  // Calls f(pair) for the pairs with keys of rank `from`; for each chunk of queries first the rank's chunk of
  // the same number.
  void each_pair(int from, auto f) const;
  // Calls f(step, from, keys and values of rank `from`) for each rank, this one first.
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
