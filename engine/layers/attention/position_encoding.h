// Position encoding of a decoder: rotary tables, with separate ones for layers with a window if the family
// has them, or rows of a learned table, which the embedding adds (engine/layers/embedding.h).
#pragma once
#include <optional>

#include "engine/layers/attention/rotary.h"

namespace ft {

struct PositionEncoding {
  std::optional<Rotary> rotary, local;
  // A learned table of `positions` positions: position p is row p + offset.
  struct Table {
    std::int64_t positions = 0, offset = 0;
  };
  std::optional<Table> table;
  // Longrope: longer sequences are rotated by other frequencies; 0: none are. See
  // CachedDecoding::keys_turn_at.
  std::int64_t turns_at = 0;

  // Takes memory from c.saved; starts is valid as long as the batch. Throws UserError (input) if a sequence
  // is longer than the learned table.
  Positions upload(Ctx&, const Batch&);
  Positions upload(Ctx&, const Continuation&, const CachedRows&) const;
};

}  // namespace ft
