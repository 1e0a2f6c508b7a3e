// Positions of a pass's rows in their sequences, which all blocks of a stack share.
#pragma once
#include <span>

#include "engine/layers/kv_cache.h"
#include "engine/layers/picked_rows.h"
#include "engine/layers/routing.h"
#include "engine/parallel/shared_rows.h"
#include "engine/pass/context.h"

namespace ft {

// Which table rotates queries and keys.
enum class Rotation : std::uint8_t { none, usual, local };

struct Positions {
  Tensor positions;                           // (rows) i32
  Tensor cos, sin;                            // rotary: (positions, R / 2) f32; empty: nothing is rotated
  std::span<const std::int32_t> starts;       // of the sequences
  const CachedRows* cached = nullptr;         // generation: where keys and values are kept
  BlockMask blocks = {};                      // sparse attention; no layout: dense
  Tensor local_cos = {}, local_sin = {};      // of layers with a window, where theirs are others
  SharedRows shared = {};                     // none: sequences are their own rows
  const RouterStatistics* routers = nullptr;  // where layers with experts note how they are used; null: not
  Communicator* parts = nullptr;              // ranks that have other rows of the sequences; null: none
  SequenceSharing sharing = SequenceSharing::ulysses;  // how these attend

  // The positions of some of the rows, unchanged.
  Positions of(Ctx& c, const PickedRows& picked) const {
    return {.positions = upload(c, picked.positions),
            .cos = cos,
            .sin = sin,
            .starts = picked.starts,
            .local_cos = local_cos,
            .local_sin = local_sin,
            .routers = routers};
  }

  // Rotates queries or keys of heads of `width` = D values; sign -1: their gradients, back.
  void rotate(Ctx&, Tensor x, std::int64_t width, Rotation by, float sign) const;
};

}  // namespace ft
