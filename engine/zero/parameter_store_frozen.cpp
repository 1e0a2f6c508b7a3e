// Offloaded values that do not change: copies in a depot or, if a model file has exactly these bytes, reads
// from that file.
#include <algorithm>

#include "engine/zero/parameter_store.h"

namespace ft {

// Cuts this rank's part of a group into pieces. Consecutive parameters that no file holds form one piece,
// with the padding between them.
void ParameterStore::reserve_frozen(Group& g) {
  const Range mine = held(g, g.stage.params);
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    const Parameter& p = *g.parameters[i];
    const std::int64_t from = std::max(g.offsets[i], mine.first),
                       to = std::min(g.offsets[i] + g.size(p), mine.first + mine.count);
    if (from >= to) continue;
    const bool stored = p.stored && homes_.params->borrows();
    if (!stored && !g.pieces.empty() && !g.pieces.back().stored)
      g.pieces.back().count = to - mine.first - g.pieces.back().first;
    else
      g.pieces.push_back(
          {from - mine.first, to - from, {homes_.params.get(), 0}, stored, p.dtype != DType::u8});
    if (!stored) continue;
    StoredBytes bytes = p.stored;
    bytes.at += from - g.offsets[i];
    g.pieces.back().away.at = homes_.params->borrow(bytes, to - from);
  }
  for (Piece& p : g.pieces)
    if (!p.stored) p.away.at = homes_.params->reserve(p.count);
}

std::optional<Depot::Ticket> ParameterStore::fetch_values(const Group& g, Tensor own) {
  if (g.value_away) return homes_.params->fetch(own, g.value_away.at);
  std::optional<Depot::Ticket> last;
  for (const Piece& p : g.pieces) last = homes_.params->fetch(own.elements(p.first, p.count), p.away.at);
  return last;
}

// Reads the frozen values. Values that stay in the model's file are read too, without being copied, so that
// NaN and Inf are refused; codes are not.
void ParameterStore::load_frozen(const Group& g, const ReadParameter& source) {
  constexpr std::int64_t kPart = std::int64_t{4} << 20;
  std::vector<std::byte> part;
  for (const Piece& p : g.pieces) {
    const Range range{held(g, g.stage.params).first + p.first, p.count};
    if (!p.stored) load_away(g, p.away, range, g.dtype, source);
    for (std::int64_t at = 0; p.stored && p.numbers && at < p.count; at += kPart) {
      const std::int64_t count = std::min(kPart, p.count - at);
      part.resize(static_cast<std::size_t>(count));
      read_to_host(g, {part.data(), g.dtype, {count}}, {range.first + at, count}, source);
    }
  }
}

}  // namespace ft
