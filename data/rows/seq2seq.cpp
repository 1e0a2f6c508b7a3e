#include "data/rows/seq2seq.h"

#include "engine/core/require.h"

namespace ft {

void add_pair(Batch& b, const SampleStore::View& sample, const Seq2Seq& tokens) {
  if (b.starts.empty()) b.starts = b.source_starts = {0};
  b.source_ids.insert(b.source_ids.end(), sample.input_ids.begin(), sample.input_ids.end());
  b.source_starts.push_back(static_cast<std::int32_t>(b.source_ids.size()));
  std::int32_t read = tokens.start;
  for (std::size_t t = 0; t < sample.labels.size(); ++t) {
    const std::int32_t label = sample.labels[t];
    if (label != kIgnored) {
      b.target_rows.push_back(static_cast<std::int32_t>(b.input_ids.size()));
      b.targets.push_back(label);
    }
    b.input_ids.push_back(read);
    b.positions.push_back(static_cast<std::int32_t>(t));
    read = label == kIgnored ? tokens.pad : label;
  }
  b.starts.push_back(static_cast<std::int32_t>(b.input_ids.size()));
}

void cut_side(std::vector<std::int32_t>& ids, std::int64_t most, bool keep_end, std::int32_t end) {
  require(most > 0, "nothing is left of a side");
  if (std::ssize(ids) <= most) return;
  const bool ended = ids.back() == end;
  if (keep_end) ids.erase(ids.begin(), ids.end() - most);
  ids.resize(static_cast<std::size_t>(most));
  if (ended) ids.back() = end;
}

}  // namespace ft
