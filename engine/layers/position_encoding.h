// How a decoder's tokens know their places: rotary tables, of which layers with a window may have their own,
// or rows of a learned table, which the embedding adds (engine/layers/embedding.h).
#pragma once
#include <optional>

#include "engine/layers/rotary.h"

namespace ft {

struct PositionEncoding {
  std::optional<Rotary> rotary, local;
  // A learned table: position p is row p + offset. Longer sequences have no place.
  struct Table {
    std::int64_t positions = 0, offset = 0;
  };
  std::optional<Table> table;
  // Longrope: tokens of sequences that are longer than this turn otherwise; 0: none do. See
  // Model::keys_turn_at.
  std::int64_t turns_at = 0;

  // Taken from c.saved; starts is valid as long as the batch. UserError(Exit::input) for a sequence without
  // room in the table.
  Positions upload(Ctx&, const Batch&);
  Positions upload(Ctx&, const Continuation&, const CachedRows&) const;
};

}  // namespace ft
