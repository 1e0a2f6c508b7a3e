#include "engine/model/invocation.h"

#include <algorithm>

#include "engine/core/error.h"

namespace ft {

std::int64_t last_place(std::span<const std::int32_t> ids, std::span<const std::int32_t> tokens) {
  return std::find_end(ids.begin(), ids.end(), tokens.begin(), tokens.end()) - ids.begin();
}

Invocation::Invocation(Ctx& c, const Batch& b, std::span<const std::int32_t> tokens)
    : c_(c), before_(c.active) {
  if (tokens.empty()) return;
  require(b.whole_rows.empty() && b.kept_starts.empty() && b.length == 0,
          "invoked adapters in a batch whose sequences share, drop or split rows");
  rows_.rows = b.tokens();
  for (std::size_t i = 0; i + 1 < b.starts.size(); ++i) {
    const auto first = static_cast<std::size_t>(b.starts[i]), end = static_cast<std::size_t>(b.starts[i + 1]);
    const std::int64_t at = last_place(std::span(b.input_ids).subspan(first, end - first), tokens);
    if (const std::int64_t begin = b.starts[i] + at; begin < b.starts[i + 1])
      rows_.runs.emplace_back(begin, b.starts[i + 1]);
  }
  c.active = &rows_;
}

Invocation::Invocation(Ctx& c, const Continuation& next, std::span<const std::int32_t> tokens)
    : c_(c), before_(c.active) {
  if (tokens.empty()) return;
  rows_.rows = next.rows();
  for (std::size_t i = 0; i < next.acts_from.size(); ++i) {
    const std::int64_t begin =
        next.starts[i] + std::max<std::int64_t>(0, std::int64_t{next.acts_from[i]} - next.past[i]);
    if (begin < next.starts[i + 1]) rows_.runs.emplace_back(begin, next.starts[i + 1]);
  }
  c.active = &rows_;
}

}  // namespace ft
