// Low-rank queries, keys and values (multi-head latent attention, DeepSeek-AI 2024). Each of h heads has
// queries and keys of n columns without positions and then r columns with positions, and values of v columns:
//   q = q_proj norm(q_a_proj x), or q_proj x                             (rows, h (n + r))
//   kv = kv_b_proj norm(the first columns of kv_a_proj x)                (rows, h (n + v))
//   key of a head: its n columns of kv, then the last r columns of kv_a_proj x, equal in all heads.
// Attention reads heads of one width W = max(n + r, v). The narrower ones get columns of 0, which add 0 to
// scores and results.
#pragma once
#include <algorithm>
#include <optional>

#include "engine/layers/attention/positions.h"
#include "engine/layers/rms_norm.h"
#include "engine/layers/siblings.h"

namespace ft {

struct LatentHeads {
  std::int64_t count = 0;               // h
  std::int64_t plain = 0, rotated = 0;  // n, r
  std::int64_t value = 0;               // v
  std::int64_t key() const { return plain + rotated; }
  std::int64_t width() const { return std::max(key(), value); }  // W
};

struct LatentProjections {
  std::optional<Linear> q_a_proj;  // absent: q_proj reads x
  std::optional<RmsNorm> q_norm;   // with q_a_proj
  Linear q_proj, kv_a_proj, kv_b_proj;
  RmsNorm kv_norm;
  LatentHeads heads;
  bool neighbours = true;  // positions rotate the pairs (2 i, 2 i + 1), not (i, i + r / 2)

  struct Made {
    Tensor q, k, v;  // (rows, h W); q and k are rotated
  };
  struct Saved {
    Tensor q_low, q_rstd;    // (rows, rank of q_a_proj) before its norm
    Tensor kv_low, kv_rstd;  // (rows, rank + r); the last r columns rotated
    Tensor u, q_u, kv_u;     // adapters' u: of the linears over x; of q_proj after q_a_proj; of kv_b_proj
  };
  // Takes q, k and v from `room`.
  Made forward(Ctx&, Saved&, Tensor x, const Positions&, Arena& room) const;
  // dx = the gradient of x (empty: not wanted), from the gradients of q, k and v. Rotates these back in
  // place.
  void backward(Ctx&, Tensor dx, const Made& gradients, Tensor x, const Saved&, const Positions&) const;
  // Returns y, attention's results (rows, h W), without the columns of 0: (rows, h v), or y itself if it has
  // none.
  Tensor narrowed(Ctx&, Tensor y) const;
  // Returns the gradient of attention's results (rows, h W), from dy, the gradient of narrowed().
  Tensor widened(Ctx&, Tensor dy) const;
  bool reads_input() const { return first().reads_input() || kv_a_proj.reads_input(); }
  void visit(Visitor&);

 private:
  const Linear& first() const { return q_a_proj ? *q_a_proj : q_proj; }
  std::int64_t rank() const { return kv_b_proj.in; }  // of keys and values
  // Rotates r columns of every head, from column `at` of a head on.
  void rotate(Ctx&, Tensor x, std::int64_t width, std::int64_t at, float sign, const Positions&) const;
  void read_input(Ctx&, Saved&, Tensor q, Tensor x) const;
  void expand(Ctx&, Saved&, Tensor k, Tensor v) const;
  void expanded_back(Ctx&, Tensor dlow, Tensor dk, Tensor dv, const Saved&, const Positions&) const;
};

}  // namespace ft
