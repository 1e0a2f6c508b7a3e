#include "data/classify/batch.h"

#include "data/preference/batch.h"

namespace ft {
namespace {

std::int32_t count(const auto& list) { return static_cast<std::int32_t>(list.size()); }

void add_target(Batch& b, std::int64_t row) {
  b.target_rows.push_back(static_cast<std::int32_t>(row));
  b.targets.push_back(0);
}

// Adds the tokens; returns the row of the first.
std::int64_t add_sequence(Batch& b, std::span<const std::int32_t> ids) {
  if (b.starts.empty()) b.starts = b.compared.first_target = {0};
  const std::int64_t begin = b.tokens();
  b.input_ids.insert(b.input_ids.end(), ids.begin(), ids.end());
  for (std::int32_t t = 0; t < count(ids); ++t) b.positions.push_back(t);
  b.starts.push_back(count(b.input_ids));
  return begin;
}

void end_row(Batch& b, std::int64_t sample) {
  b.compared.first_answer.push_back(b.compared.first_target.back());
  b.compared.first_target.push_back(count(b.targets));
  b.compared.value.push_back(0);
  b.compared.sample.push_back(sample);
}

}  // namespace

void add_classified(Batch& b, const Dataset& data, std::int64_t sample, std::optional<std::int32_t> padding) {
  const auto [ids, labels] = data[sample];
  const std::int64_t begin = add_sequence(b, ids);
  if (padding) {
    add_target(b, begin + scored_row(ids, *padding));
    const auto classes = data.classes(sample);
    b.labels.insert(b.labels.end(), classes.begin(), classes.end());
  } else {
    for (std::size_t t = 0; t < ids.size(); ++t) {
      if (labels[t] == kIgnored) continue;
      add_target(b, begin + static_cast<std::int64_t>(t));
      b.labels.push_back(static_cast<float>(labels[t]));
    }
  }
  end_row(b, sample);
}

void add_unlabelled(Batch& b, std::span<const std::int32_t> ids, std::optional<std::int32_t> padding) {
  const std::int64_t begin = add_sequence(b, ids);
  if (padding) add_target(b, begin + scored_row(ids, *padding));
  for (std::int64_t t = 0; t < std::ssize(ids) && !padding; ++t) add_target(b, begin + t);
  end_row(b, 0);
}

}  // namespace ft
