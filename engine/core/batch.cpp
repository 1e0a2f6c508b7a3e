#include "engine/core/batch.h"

#include <algorithm>

namespace ft {

std::int64_t longest_of(std::span<const std::int32_t> starts) {
  std::int32_t most = 0;
  for (std::size_t i = 1; i < starts.size(); ++i) most = std::max(most, starts[i] - starts[i - 1]);
  return most;
}

BatchShape shape_of(const Batch& b) {
  const auto rows = [](const std::vector<std::int32_t>& starts) {
    return starts.empty() ? 0 : starts.back();
  };
  return {.tokens = b.tokens(),
          .targets = std::ssize(b.targets),
          .sequences = std::ssize(b.starts) - 1,
          .longest = longest_of(b.whole_starts.empty() ? b.starts : b.whole_starts),
          .source_tokens = std::ssize(b.source_ids),
          .longest_source = longest_of(b.source_starts),
          .kept = rows(b.kept_starts),
          .kept_source = rows(b.kept_source_starts),
          .compared = b.compared.rows(),
          .whole = std::ssize(b.whole_rows)};
}

}  // namespace ft
