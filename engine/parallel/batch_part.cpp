#include "engine/parallel/batch_part.h"

#include "engine/parallel/row_shards.h"
#include "engine/parallel/sequence_part.h"

namespace ft {

std::optional<Batch> part_of_rank(Ctx& c, const Batch& whole) {
  if (c.shards) return filled_up(whole, c.tensor()->size());
  Communicator* const ranks = c.grid ? c.grid->sequence() : nullptr;
  if (!ranks) return std::nullopt;
  const RowShare share{ranks->rank(), ranks->size(), c.grid->shape.sharing};
  Batch part = part_of(whole, share);
  c.numbers = share.numbers(part.tokens());
  return part;
}

}  // namespace ft
