#include "data/batches/batcher.h"

#include <algorithm>
#include <numeric>

#include "data/classify/batch.h"
#include "data/shuffle.h"
#include "engine/core/require.h"

namespace ft {
namespace {

std::span<const std::int32_t> part_of(std::span<const std::int32_t> sample, const Stretch& stretch) {
  return sample.subspan(static_cast<std::size_t>(stretch.begin), static_cast<std::size_t>(stretch.length));
}

}  // namespace

BatcherOptions batcher_options(const DataConfig& config, std::int64_t batch_size, bool shuffle,
                               std::uint64_t seed, std::int32_t pad_id) {
  const auto seed_used = config.data_seed ? static_cast<std::uint64_t>(*config.data_seed) : seed;
  BatcherOptions options{.batch_size = batch_size, .shuffle = shuffle, .seed = seed_used, .pad_id = pad_id};
  if (config.packing) options.pack_to = config.max_seq_length;
  options.packing = config.packing_strategy;
  const std::int64_t step = config.pad_to_multiple_of;
  if (config.pad_to_max_length) options.pad_to = (config.max_seq_length + step - 1) / step * step;
  return options;
}

Batcher::Batcher(Dataset data, const BatcherOptions& options) : data_(std::move(data)), options_(options) {
  require(options_.batch_size > 0 && options_.pack_to >= 0 && options_.pad_to >= 0, "no such batches");
  require(!options_.chosen || options_.pack_to == 0, "samples are chosen, packs are not");
  require(!data_.seq2seq() || (options_.pack_to == 0 && options_.pad_to == 0), "no such pairs");
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < data_.size(); ++i) {
    lengths.push_back(static_cast<std::int64_t>(data_[i].input_ids.size()));
    targets_.push_back(count_targets(data_[i].labels, data_.seq2seq()));
    if (data_.kind() != RowKind::example) answers_.push_back(sizes(i));
  }
  const bool whole = options_.pack_to == 0 || options_.packing == PackingStrategy::bfd;
  pieces_ = cut_samples(lengths,
                        whole || options_.packing == PackingStrategy::wrapped ? INT64_MAX : options_.pack_to);
  const std::int64_t longest = whole ? data_.longest() : 0;
  require(options_.pad_to == 0 || std::max(longest, options_.pack_to) <= options_.pad_to,
          "rows are longer than their padded length");
  rows_ = static_cast<std::int64_t>(plan(0)->size());
}

std::int64_t Batcher::batches_per_epoch() const {
  return (rows_ + options_.batch_size - 1) / options_.batch_size;
}

// Makes an epoch's rows. With best fit, pieces of equal length change places from epoch to epoch, and the
// packs change their order; the number of packs stays.
Batcher::Plan Batcher::make_plan(std::int64_t epoch) const {
  const Random random = Random{options_.seed}.with("shuffle").with(static_cast<std::uint64_t>(epoch));
  const auto count = static_cast<std::int64_t>(pieces_.size());
  std::vector<std::int64_t> order(pieces_.size());
  std::iota(order.begin(), order.end(), 0);
  if (options_.shuffle) {
    order.clear();
    for (const std::int64_t g : permutation((count + options_.group - 1) / options_.group, random))
      for (std::int64_t i = g * options_.group; i < std::min(count, (g + 1) * options_.group); ++i)
        order.push_back(i);
  }
  if (options_.chosen) order = options_.chosen(epoch);
  if (options_.pack_to > 0) return pack(order, random);
  Plan rows;
  for (const std::int64_t i : order) rows.push_back({pieces_[static_cast<std::size_t>(i)]});
  return rows;
}

Batcher::Plan Batcher::pack(const std::vector<std::int64_t>& order, Random random) const {
  std::vector<std::int64_t> lengths;
  for (const Stretch& piece : pieces_) lengths.push_back(piece.length);
  if (options_.packing == PackingStrategy::wrapped) return wrap(lengths, order, options_.pack_to);
  Plan packs;
  for (const auto& places : pack_best_fit(lengths, order, options_.pack_to)) {
    Row& row = packs.emplace_back();
    for (const std::int64_t i : places) row.push_back(pieces_[static_cast<std::size_t>(i)]);
    std::sort(row.begin(), row.end());
  }
  if (!options_.shuffle) {
    std::sort(packs.begin(), packs.end());
    return packs;
  }
  Plan rows;
  for (const std::int64_t i : permutation(static_cast<std::int64_t>(packs.size()), random.with("packs")))
    rows.push_back(std::move(packs[static_cast<std::size_t>(i)]));
  return rows;
}

std::shared_ptr<const Batcher::Plan> Batcher::plan(std::int64_t epoch) const {
  if (!options_.shuffle && !options_.chosen) epoch = 0;
  const std::lock_guard lock(mutex_);
  if (plan_epoch_ != epoch) {
    plan_ = std::make_shared<const Plan>(make_plan(epoch));
    plan_epoch_ = epoch;
  }
  return plan_;
}

std::span<const Batcher::Row> Batcher::rows_of(const Plan& plan, std::int64_t i) const {
  require(0 <= i && i < batches_per_epoch(), "no such batch");
  const auto begin = static_cast<std::size_t>(i * options_.batch_size);
  return std::span(plan).subspan(begin, std::min<std::size_t>(options_.batch_size, plan.size() - begin));
}

std::int64_t Batcher::padding(std::int64_t tokens) const {
  return options_.pad_to == 0 ? 0 : options_.pad_to - tokens;
}

Batch Batcher::batch(std::int64_t epoch, std::int64_t i) const {
  const auto plan_now = plan(epoch);
  Batch b;
  if (data_.kind() != RowKind::example) {
    for (const Row& row : rows_of(*plan_now, i)) add_row(b, row.front().sample);
    add_reference(b.compared);
    return b;
  }
  if (data_.seq2seq()) {
    for (const Row& row : rows_of(*plan_now, i)) {
      ft::add_pair(b, data_[row.front().sample], options_.seq2seq);
      if (data_.has_bounds()) b.dataset_of.push_back(data_.dataset_of(row.front().sample));
    }
    return b;
  }
  b.starts.push_back(0);
  for (const Row& row : rows_of(*plan_now, i)) {
    const std::int64_t row_begin = b.tokens();
    for (const Stretch& stretch : row) {
      const auto ids = part_of(data_[stretch.sample].input_ids, stretch);
      const auto labels = part_of(data_[stretch.sample].labels, stretch);
      const auto begin = static_cast<std::int32_t>(b.tokens());
      b.input_ids.insert(b.input_ids.end(), ids.begin(), ids.end());
      for (std::int32_t t = 0; t < static_cast<std::int32_t>(ids.size()); ++t) {
        b.positions.push_back(t);
        if (t == 0 || labels[static_cast<std::size_t>(t)] == kIgnored) continue;
        b.target_rows.push_back(begin + t - 1);  // the row before predicts this token
        b.targets.push_back(labels[static_cast<std::size_t>(t)]);
      }
      b.starts.push_back(static_cast<std::int32_t>(b.tokens()));
      if (data_.has_bounds()) b.dataset_of.push_back(data_.dataset_of(stretch.sample));
    }
    // Padding lengthens the row's last sequence: causal attention hides it from the tokens before.
    for (std::int64_t p = padding(b.tokens() - row_begin); p > 0; --p) {
      b.input_ids.push_back(options_.pad_id);
      b.positions.push_back(b.positions.back() + 1);
    }
    b.starts.back() = static_cast<std::int32_t>(b.tokens());
  }
  return b;
}

void Batcher::add_row(Batch& b, std::int64_t sample) const {
  if (data_.kind() == RowKind::classified) return add_classified(b, data_, sample, options_.padding);
  if (data_.kind() == RowKind::texts) return add_texts(b, data_, sample, options_.texts);
  add_answers(b, data_, sample, options_.answers, options_.seq2seq);
}

AnswerSizes Batcher::sizes(std::int64_t sample) const {
  if (data_.kind() != RowKind::classified && data_.kind() != RowKind::texts)
    return sizes_of(data_, sample, options_.answers, options_.seq2seq);
  Batch alone;
  add_row(alone, sample);
  return {.alone = shape_of(alone)};
}

std::vector<std::int32_t> Batcher::labels(std::int64_t epoch, std::int64_t i) const {
  require(data_.kind() == RowKind::example && !data_.seq2seq(), "labels of other rows");
  const auto plan_now = plan(epoch);
  std::vector<std::int32_t> all;
  for (const Row& row : rows_of(*plan_now, i)) {
    const std::size_t row_begin = all.size();
    for (const Stretch& stretch : row) {
      const auto part = part_of(data_[stretch.sample].labels, stretch);
      all.insert(all.end(), part.begin(), part.end());
    }
    const auto filled = padding(static_cast<std::int64_t>(all.size() - row_begin));
    all.insert(all.end(), static_cast<std::size_t>(filled), kIgnored);
  }
  return all;
}

void Batcher::add_reference(Compared& c) const {
  if (reference_.empty()) return;
  const std::int64_t each = data_.kind() == RowKind::pair ? 2 : 1;
  for (const std::int64_t sample : c.sample)
    for (std::int64_t s = sample * each; s < (sample + 1) * each; ++s)
      c.reference.push_back(reference_[static_cast<std::size_t>(s)]);
}

std::int64_t Batcher::targets(const Stretch& stretch) const {
  const auto labels = data_[stretch.sample].labels;
  const bool whole = stretch.length == static_cast<std::int64_t>(labels.size());
  return whole ? targets_[static_cast<std::size_t>(stretch.sample)] : count_targets(part_of(labels, stretch));
}

BatchShape Batcher::shape(std::int64_t epoch, std::int64_t i) const {
  const auto plan_now = plan(epoch);
  if (data_.kind() != RowKind::example) return shape_of_answers(rows_of(*plan_now, i));
  BatchShape shape;
  if (data_.seq2seq()) {
    for (const Row& row : rows_of(*plan_now, i)) add_pair(shape, row.front().sample);
    return shape;
  }
  for (const Row& row : rows_of(*plan_now, i)) {
    std::int64_t tokens = 0, last = 0;
    for (const Stretch& stretch : row) {
      last = stretch.length;
      tokens += last;
      shape.targets += targets(stretch);
      shape.longest = std::max(shape.longest, last);
    }
    shape.longest = std::max(shape.longest, last + padding(tokens));
    shape.tokens += tokens + padding(tokens);
    shape.sequences += static_cast<std::int64_t>(row.size());
  }
  return shape;
}

BatchShape Batcher::shape_of_answers(std::span<const Row> rows) const {
  std::vector<const AnswerSizes*> sizes;
  for (const Row& row : rows) sizes.push_back(&answers_[static_cast<std::size_t>(row.front().sample)]);
  return shape_of(sizes, options_.answers.mixed);
}

void Batcher::add_pair(BatchShape& shape, std::int64_t sample) const {
  const std::int64_t source = std::ssize(data_[sample].input_ids), target = std::ssize(data_[sample].labels);
  shape.tokens += target;
  shape.targets += targets_[static_cast<std::size_t>(sample)];
  shape.sequences += 1;
  shape.longest = std::max(shape.longest, target);
  shape.source_tokens += source;
  shape.longest_source = std::max(shape.longest_source, source);
}

double Batcher::fill() const {
  const double room = static_cast<double>(rows_) * static_cast<double>(options_.pack_to);
  return room == 0 ? 1 : static_cast<double>(data_.tokens()) / room;
}

std::vector<BatchShape> largest_shapes(const BatchSource& source, std::int64_t epochs) {
  // Shapes with and without dropped tokens are not compared: a block that drops few tokens may take more
  // memory than a block that drops none, because it copies the tokens that it keeps.
  const auto least = [](std::int64_t a, std::int64_t b) { return (a == 0) == (b == 0) && a <= b; };
  const auto within = [&](const BatchShape& a, const BatchShape& b) {
    return a.tokens <= b.tokens && a.targets <= b.targets && a.sequences <= b.sequences &&
           a.longest <= b.longest && a.source_tokens <= b.source_tokens &&
           a.longest_source <= b.longest_source && a.compared <= b.compared && a.whole <= b.whole &&
           least(a.kept, b.kept) && least(a.kept_source, b.kept_source);
  };
  std::vector<BatchShape> front;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    for (std::int64_t i = 0; i < source.batches_per_epoch(); ++i) {
      const BatchShape s = source.shape(epoch, i);
      if (std::any_of(front.begin(), front.end(), [&](const BatchShape& f) { return within(s, f); }))
        continue;
      std::erase_if(front, [&](const BatchShape& f) { return within(f, s); });
      front.push_back(s);
    }
  }
  return front;
}

}  // namespace ft
