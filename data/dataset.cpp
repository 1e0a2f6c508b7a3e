#include "data/dataset.h"

#include <algorithm>
#include <numeric>

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

SampleStore::SampleStore(bool seq2seq, std::vector<std::int32_t> ids, std::vector<std::int32_t> labels,
                         const Arrays& arrays, std::vector<std::string> files)
    : ids_(std::move(ids)),
      labels_(std::move(labels)),
      seq2seq_(seq2seq),
      ends_(sums(arrays.lengths)),
      label_ends_(sums(arrays.label_lengths)),
      lines_(arrays.lines),
      file_(arrays.file),
      files_(std::move(files)) {}

SampleStore::Arrays SampleStore::arrays() const {
  return {differences(ends_), differences(label_ends_), lines_, file_};
}

void SampleStore::add(const Sample& sample, std::int64_t line) {
  require((seq2seq_ || sample.input_ids.size() == sample.labels.size()) && !files_.empty(),
          "a sample without a place");
  ids_.insert(ids_.end(), sample.input_ids.begin(), sample.input_ids.end());
  labels_.insert(labels_.end(), sample.labels.begin(), sample.labels.end());
  ends_.push_back(static_cast<std::int64_t>(ids_.size()));
  if (seq2seq_) label_ends_.push_back(static_cast<std::int64_t>(labels_.size()));
  lines_.push_back(static_cast<std::int32_t>(std::min<std::int64_t>(line, INT32_MAX)));
  file_.push_back(static_cast<std::int32_t>(files_.size() - 1));
}

SampleStore::View SampleStore::operator[](std::int64_t i) const {
  const auto at = static_cast<std::size_t>(i);
  const auto of = [at](const std::vector<std::int32_t>& all, const std::vector<std::int64_t>& ends) {
    const auto begin = static_cast<std::size_t>(at == 0 ? 0 : ends[at - 1]);
    return std::span(all).subspan(begin, static_cast<std::size_t>(ends[at]) - begin);
  };
  return {of(ids_, ends_), of(labels_, seq2seq_ ? label_ends_ : ends_)};
}

std::string SampleStore::source(std::int64_t i) const {
  const auto at = static_cast<std::size_t>(i);
  return str(files_[static_cast<std::size_t>(file_[at])], ":", lines_[at]);
}

Dataset::Dataset(std::shared_ptr<const SampleStore> store, std::vector<std::int64_t> rows)
    : store_(std::move(store)), rows_(std::move(rows)) {
  for (std::int64_t i = 0; i < size(); ++i) {
    const auto sample = (*this)[i];
    const auto tokens = static_cast<std::int64_t>(sample.input_ids.size());
    const std::int64_t targets = count_targets(sample.labels, seq2seq());
    tokens_ += tokens + (seq2seq() ? std::ssize(sample.labels) : 0);
    targets_ += targets;
    longest_ = std::max(longest_, tokens);
    untrained_ += targets == 0;
  }
}

std::int64_t count_targets(std::span<const std::int32_t> labels, bool seq2seq) {
  if (labels.empty()) return 0;
  return std::count_if(labels.begin() + (seq2seq ? 0 : 1), labels.end(),
                       [](std::int32_t l) { return l != kIgnored; });
}

}  // namespace ft
