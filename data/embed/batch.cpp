#include "data/embed/batch.h"

#include <algorithm>

namespace ft {
namespace {

std::int32_t count(const auto& list) { return static_cast<std::int32_t>(list.size()); }

// Calls f(begin, end) for each text. numbers: by token, the number of its text.
void each_text(std::span<const std::int32_t> numbers, const auto& f) {
  for (std::size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    while (end < numbers.size() && numbers[end] == numbers[begin]) ++end;
    f(begin, end);
  }
}

}  // namespace

void add_text(Batch& b, std::span<const std::int32_t> ids, TextTargets targets) {
  if (b.starts.empty()) b.starts = b.compared.first_target = {0};
  const std::int32_t begin = count(b.input_ids), end = begin + count(ids);
  b.input_ids.insert(b.input_ids.end(), ids.begin(), ids.end());
  for (std::int32_t row = begin; row < end; ++row) {
    b.positions.push_back(row - begin);
    if (targets == TextTargets::last && row + 1 < end) continue;
    b.target_rows.push_back(row);
    b.targets.push_back(0);
  }
  b.starts.push_back(end);
  b.compared.first_answer.push_back(b.compared.first_target.back());
  b.compared.first_target.push_back(count(b.targets));
}

void add_texts(Batch& b, const Dataset& data, std::int64_t sample, TextTargets targets) {
  if (b.compared.first_text.empty()) b.compared.first_text = {0};
  const auto [ids, numbers] = data[sample];
  each_text(numbers, [&, all = ids](std::size_t begin, std::size_t end) {
    add_text(b, all.subspan(begin, end - begin), targets);
  });
  b.compared.first_text.push_back(count(b.compared.first_answer));
  b.compared.value.push_back(0);
  b.compared.sample.push_back(sample);
}

void cut_texts(Sample& s, std::int64_t most, bool keep_end) {
  Sample kept;
  each_text(s.labels, [&](std::size_t begin, std::size_t end) {
    const std::size_t length = std::min(end - begin, static_cast<std::size_t>(most));
    if (keep_end) begin = end - length;
    const auto from = static_cast<std::ptrdiff_t>(begin), to = static_cast<std::ptrdiff_t>(begin + length);
    kept.input_ids.insert(kept.input_ids.end(), s.input_ids.begin() + from, s.input_ids.begin() + to);
    kept.labels.insert(kept.labels.end(), s.labels.begin() + from, s.labels.begin() + to);
  });
  s.input_ids = std::move(kept.input_ids);
  s.labels = std::move(kept.labels);
}

std::int64_t longest_text(const Sample& s) {
  std::size_t most = 0;
  each_text(s.labels, [&](std::size_t begin, std::size_t end) { most = std::max(most, end - begin); });
  return static_cast<std::int64_t>(most);
}

}  // namespace ft
