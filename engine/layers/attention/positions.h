// Positions of a pass's rows in their sequences, shared by all blocks of a stack.
#pragma once
#include <span>

#include "engine/layers/attention/kv_cache.h"
#include "engine/layers/attention/lent_keys.h"
#include "engine/layers/picked_rows.h"
#include "engine/layers/routing.h"
#include "engine/parallel/shared_rows.h"
#include "engine/pass/context.h"

namespace ft {

// The table that rotates queries and keys.
enum class Rotation : std::uint8_t { none, usual, local };

// Returns for each row the first row of its sequence.
std::vector<std::int32_t> first_rows(std::span<const std::int32_t> starts);

struct Positions {
  Tensor positions;                           // (rows) i32
  Tensor cos, sin;                            // rotary: (positions, R / 2) f32; empty: nothing is rotated
  std::span<const std::int32_t> starts;       // first rows of the sequences
  const CachedRows* cached = nullptr;         // generation: the cache of keys and values
  BlockMask blocks = {};                      // sparse attention; without a layout: dense
  Tensor local_cos = {}, local_sin = {};      // of layers with a window, if they have their own
  SharedRows shared = {};                     // rows that several sequences share; empty: none
  const RouterStatistics* routers = nullptr;  // statistics that layers with experts fill; null: none
  Communicator* parts = nullptr;              // ranks that have other rows of the sequences; null: none
  SequenceSharing sharing = SequenceSharing::ulysses;  // way in which they attend
  // (rows) i32: first row of each row's sequence, for recurrent layers; with shared rows, for the rows of the
  // complete sequences
  Tensor first = {};
  std::span<const LentKeys> lent = {};  // keys and values that later layers borrow, by SelfAttention::lends
  // (rows, layers p): an input of p columns for each layer, and its gradient; empty: none
  Tensor per_layer = {}, per_layer_grad = {};

  // Positions of the picked rows, which keep their values.
  Positions of(Ctx& c, const PickedRows& picked) const {
    return {.positions = upload(c, picked.positions),
            .cos = cos,
            .sin = sin,
            .starts = picked.starts,
            .local_cos = local_cos,
            .local_sin = local_sin,
            .routers = routers};
  }

  // Rotates queries, and keys if given, in heads of `width` = D values. sign -1 rotates back, for their
  // gradients.
  void rotate(Ctx&, Tensor q, Tensor k, std::int64_t width, Rotation by, float sign) const;
};

}  // namespace ft
