// Rotary positions (Su et al. 2021): tables of cos and sin.
#pragma once
#include <functional>
#include <vector>

#include "engine/core/batch.h"
#include "engine/layers/attention/positions.h"

namespace ft {

// cos and sin of position * frequency, times a factor: (positions, D / 2) each, row-major, in f32 as
// transformers computes them.
struct RotaryTable {
  std::vector<float> cos, sin;
  std::vector<float> frequencies;  // (D / 2)
};

class Rotary {
 public:
  // Inverse frequencies (D / 2) for sequences of up to `length` tokens.
  using Frequencies = std::function<std::vector<float>(std::int64_t length)>;

  // factor: multiplies cos and sin.
  explicit Rotary(Frequencies frequencies, double factor = 1)
      : frequencies_(std::move(frequencies)), factor_(factor) {}

  // Returns a table of at least this many positions, for sequences of up to that length. Existing rows stay:
  // all sequences share them, unless their length changes the frequencies.
  const RotaryTable& cover(std::int64_t positions);
  // Returns a table without rows: a plan needs its width. The next table of cover() takes memory for this
  // many positions at once.
  RotaryTable expect(std::int64_t positions);
  // Returns a table with a row for each new token of every sequence. If the frequencies depend on the length,
  // this follows transformers with a cache: a token is rotated by the frequencies of its sequence's length
  // when the token came, and is never rotated anew.
  RotaryTable rows(const Continuation&) const;

  // Tables and positions of a pass, in c.saved; starts is valid as long as the batch.
  Positions upload(Ctx&, const Batch&);
  Positions upload(Ctx&, const Continuation&, const CachedRows&) const;

 private:
  static Positions upload_part(Ctx&, const Batch&, const RotaryTable&);
  void add_position(RotaryTable&, const std::vector<float>& frequencies, std::int64_t position) const;

  Frequencies frequencies_;
  double factor_;
  RotaryTable table_;      // for the longest batch so far
  std::int64_t most_ = 0;  // positions that were planned or computed so far
};

}  // namespace ft
