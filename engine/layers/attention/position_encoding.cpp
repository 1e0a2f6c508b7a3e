#include "engine/layers/attention/position_encoding.h"

#include <algorithm>

#include "engine/core/error.h"

namespace ft {
namespace {

// Rows of the table for these positions.
std::vector<std::int32_t> rows_of(const PositionEncoding::Table& t, std::vector<std::int32_t> positions) {
  const std::int64_t length =
      positions.empty() ? 0 : 1 + *std::max_element(positions.begin(), positions.end());
  if (length > t.positions)
    throw UserError(Exit::input,
                    str("the model has ", t.positions,
                        " positions (max_position_embeddings), and "
                        "a sequence has up to ",
                        length, " tokens; set data.max_seq_length or generation.max_new_tokens lower"));
  for (std::int32_t& p : positions) p += static_cast<std::int32_t>(t.offset);
  return positions;
}

}  // namespace

Positions PositionEncoding::upload(Ctx& c, const Batch& b) {
  if (table) return {ft::upload(c, rows_of(*table, b.positions)), {}, {}, b.starts};
  Positions p = rotary->upload(c, b);
  if (!local) return p;
  const Positions other = local->upload(c, b);
  p.local_cos = other.cos;
  p.local_sin = other.sin;
  return p;
}

Positions PositionEncoding::upload(Ctx& c, const Continuation& next, const CachedRows& cached) const {
  if (table) {
    std::vector<std::int32_t> at;
    for (std::size_t i = 0; i < next.slots.size(); ++i)
      for (std::int32_t t = next.starts[i]; t < next.starts[i + 1]; ++t)
        at.push_back(next.past[i] + t - next.starts[i]);
    return {ft::upload(c, rows_of(*table, std::move(at))), {}, {}, next.starts, &cached};
  }
  Positions p = rotary->upload(c, next, cached);
  if (!local) return p;
  const Positions other = local->upload(c, next, cached);
  p.local_cos = other.cos;
  p.local_sin = other.sin;
  return p;
}

}  // namespace ft
