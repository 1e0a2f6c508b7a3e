#include "engine/zero/store/offloaded_values.h"

#include <algorithm>

namespace ft::zero {

void OffloadedValues::reserve(const Group& g) {
  places_.resize(static_cast<std::size_t>(layout_.groups()));
  Place& place = places_[index(g)];
  if (g.trained)
    place.away = Away::reserve(depot_, layout_.held(g, g.stage.params).count * size_of(g.dtype));
  else
    reserve_frozen(g, place.pieces);
}

// Cuts this rank's part of a group into pieces. Consecutive parameters that no file holds form one piece,
// with the padding between them.
void OffloadedValues::reserve_frozen(const Group& g, std::vector<Piece>& pieces) {
  const Range mine = layout_.held(g, g.stage.params);
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    const Parameter& p = *g.parameters[i];
    const Range part = g.part(i, mine);
    if (part.count == 0) continue;
    const bool stored = p.stored && depot_->borrows();
    if (!stored && !pieces.empty() && !pieces.back().stored)
      pieces.back().count = part.end() - mine.first - pieces.back().first;
    else
      pieces.push_back(
          {part.first - mine.first, part.count, {depot_.get(), 0}, stored, p.dtype != DType::u8});
    if (!stored) continue;
    StoredBytes bytes = p.stored;
    bytes.at += part.first - g.offsets[i];
    pieces.back().away.at = depot_->borrow(bytes, part.count);
  }
  for (Piece& p : pieces)
    if (!p.stored) p.away.at = depot_->reserve(p.count);
}

std::optional<Depot::Ticket> OffloadedValues::fetch(const Group& g, const Tensor& to) {
  const Place& place = places_[index(g)];
  if (place.away) return depot_->fetch(to, place.away.at);
  std::optional<Depot::Ticket> last;
  for (const Piece& p : place.pieces) last = depot_->fetch(to.elements(p.first, p.count), p.away.at);
  return last;
}

// Values that stay in the model's file are read too, without being copied, so that NaN and Inf are refused;
// codes are not.
void OffloadedValues::load(const Group& g, const ReadParameter& source) {
  constexpr std::int64_t kPart = std::int64_t{4} << 20;
  std::vector<std::byte> part;
  for (const Piece& p : places_[index(g)].pieces) {
    const Range range{layout_.held(g, g.stage.params).first + p.first, p.count};
    if (!p.stored) read_away(g, p.away, range, g.dtype, source);
    for (std::int64_t at = 0; p.stored && p.numbers && at < p.count; at += kPart) {
      const std::int64_t count = std::min(kPart, p.count - at);
      part.resize(static_cast<std::size_t>(count));
      read_to_host(g, {part.data(), g.dtype, {count}}, {range.first + at, count}, source);
    }
  }
}

}  // namespace ft::zero
