#include "data/rows/dataset.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/files/json_row.h"
#include "engine/core/error.h"

namespace ft {
namespace {

std::vector<std::int32_t> differences(const std::vector<std::int64_t>& ends) {
  std::vector<std::int32_t> lengths(ends.size());
  std::adjacent_difference(ends.begin(), ends.end(), lengths.begin());
  return lengths;
}

std::vector<std::int64_t> sums(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int64_t> ends(lengths.begin(), lengths.end());
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  return ends;
}

}  // namespace

SampleStore::SampleStore(bool seq2seq, RowKind kind, std::vector<std::int32_t> ids,
                         std::vector<std::int32_t> labels, const Arrays& arrays,
                         std::vector<std::string> files)
    : ids_(std::move(ids)),
      labels_(std::move(labels)),
      seq2seq_(seq2seq),
      kind_(kind),
      ends_(sums(arrays.lengths)),
      label_ends_(sums(arrays.label_lengths)),
      value_ends_(sums(arrays.value_counts)),
      lines_(arrays.lines),
      file_(arrays.file),
      files_(std::move(files)) {
  for (const std::int32_t bits : arrays.values) values_.push_back(std::bit_cast<float>(bits));
}

SampleStore::Arrays SampleStore::arrays() const {
  Arrays a{differences(ends_), differences(label_ends_), lines_, file_, {}, differences(value_ends_)};
  for (const float v : values_) a.values.push_back(std::bit_cast<std::int32_t>(v));
  return a;
}

void SampleStore::add(const Sample& sample, std::int64_t line) {
  require(!files_.empty(), "a sample without a place");
  add(sample.input_ids, sample.labels);
  if (kind_ == RowKind::pair) add(sample.rejected_ids, sample.rejected_labels);
  if (kind_ == RowKind::classified)
    values_.insert(values_.end(), sample.classes.begin(), sample.classes.end());
  else if (kind_ != RowKind::example)
    values_.push_back(sample.value);
  if (kind_ == RowKind::rollout)
    values_.insert(values_.end(), sample.old_logps.begin(), sample.old_logps.end());
  if (has_several_values(kind_)) value_ends_.push_back(std::ssize(values_));
  if (kind_ == RowKind::prompt) texts_.push_back(sample.row);
  lines_.push_back(static_cast<std::int32_t>(std::min<std::int64_t>(line, INT32_MAX)));
  file_.push_back(static_cast<std::int32_t>(files_.size() - 1));
}

void SampleStore::add(const std::vector<std::int32_t>& ids, const std::vector<std::int32_t>& labels) {
  require(seq2seq_ || ids.size() == labels.size(), "a label for each token");
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  labels_.insert(labels_.end(), labels.begin(), labels.end());
  ends_.push_back(static_cast<std::int64_t>(ids_.size()));
  if (seq2seq_) label_ends_.push_back(static_cast<std::int64_t>(labels_.size()));
}

SampleStore::View SampleStore::operator[](std::int64_t i) const {
  const View all = sequence(i * sequences_each());
  const std::size_t kept = all.input_ids.size() - tail(i).size();
  return kind_ == RowKind::labelled ? View{all.input_ids.first(kept), all.labels.first(kept)} : all;
}

std::span<const std::int32_t> SampleStore::tail(std::int64_t i) const {
  if (kind_ != RowKind::labelled) return {};
  const View all = sequence(i);
  std::size_t kept = all.labels.size();
  while (kept > 0 && all.labels[kept - 1] == kIgnored) --kept;
  return kept == 0 ? std::span<const std::int32_t>{} : all.input_ids.subspan(kept);
}

SampleStore::View SampleStore::sequence(std::int64_t i) const {
  const auto at = static_cast<std::size_t>(i);
  const auto of = [at](const std::vector<std::int32_t>& all, const std::vector<std::int64_t>& ends) {
    const auto begin = static_cast<std::size_t>(at == 0 ? 0 : ends[at - 1]);
    return std::span(all).subspan(begin, static_cast<std::size_t>(ends[at]) - begin);
  };
  return {of(ids_, ends_), of(labels_, seq2seq_ ? label_ends_ : ends_)};
}

std::span<const float> SampleStore::values(std::int64_t i) const {
  const auto at = static_cast<std::size_t>(i);
  if (!has_several_values(kind_)) return std::span(values_).subspan(at, 1);
  const auto begin = static_cast<std::size_t>(at == 0 ? 0 : value_ends_[at - 1]);
  return std::span(values_).subspan(begin, static_cast<std::size_t>(value_ends_[at]) - begin);
}

std::string SampleStore::source(std::int64_t i) const {
  const auto at = static_cast<std::size_t>(i);
  return str(files_[static_cast<std::size_t>(file_[at])], ":", lines_[at]);
}

Dataset::Dataset(std::shared_ptr<const SampleStore> store, std::vector<std::int64_t> rows)
    : store_(std::move(store)), rows_(std::move(rows)) {
  const auto count = [&](const SampleStore::View& sample) {
    const auto tokens = static_cast<std::int64_t>(sample.input_ids.size());
    const bool first = seq2seq() || kind() == RowKind::classified || kind() == RowKind::texts;
    const std::int64_t targets = count_targets(sample.labels, first);
    tokens_ += tokens + (seq2seq() ? std::ssize(sample.labels) : 0);
    targets_ += targets;
    longest_ = std::max(longest_, tokens);
    return targets;
  };
  for (std::int64_t i = 0; i < size(); ++i) {
    untrained_ += count((*this)[i]) == 0;
    if (kind() == RowKind::pair) count(rejected(i));
  }
}

std::int64_t count_targets(std::span<const std::int32_t> labels, bool first) {
  if (labels.empty()) return 0;
  return std::count_if(labels.begin() + (first ? 0 : 1), labels.end(),
                       [](std::int32_t l) { return l != kIgnored; });
}

std::int32_t Dataset::dataset_of(std::int64_t i) const {
  return static_cast<std::int32_t>(std::upper_bound(bounds_.begin(), bounds_.end(), row(i)) -
                                   bounds_.begin() - 1);
}

Json Dataset::prompt_row(std::int64_t i) const {
  const std::string from = source(i);
  return read_row(store_->row(row(i)), {&from}, NonFinite::null);
}

}  // namespace ft
