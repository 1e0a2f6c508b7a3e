#include "data/batcher.h"

#include <algorithm>
#include <numeric>

#include "data/packing.h"
#include "data/shuffle.h"
#include "engine/core/error.h"

namespace ft {

BatcherOptions batcher_options(const DataConfig& config, std::int64_t batch_size, bool shuffle,
                               std::uint64_t seed, std::int32_t pad_id) {
  const auto seed_used = config.data_seed ? static_cast<std::uint64_t>(*config.data_seed) : seed;
  BatcherOptions options{.batch_size = batch_size, .shuffle = shuffle, .seed = seed_used, .pad_id = pad_id};
  if (config.packing) options.pack_to = config.max_seq_length;
  const std::int64_t step = config.pad_to_multiple_of;
  if (config.pad_to_max_length) options.pad_to = (config.max_seq_length + step - 1) / step * step;
  return options;
}

Batcher::Batcher(Dataset data, const BatcherOptions& options) : data_(std::move(data)), options_(options) {
  require(options_.batch_size > 0 && options_.pack_to >= 0 && options_.pad_to >= 0, "no such batches");
  for (std::int64_t i = 0; i < data_.size(); ++i) {
    const auto sample = data_[i];
    lengths_.push_back(static_cast<std::int64_t>(sample.input_ids.size()));
    targets_.push_back(count_targets(sample.labels));
  }
  require(options_.pad_to == 0 || std::max(data_.longest(), options_.pack_to) <= options_.pad_to,
          "rows are longer than what they are padded to");
  rows_ = static_cast<std::int64_t>(plan(0)->size());
}

std::int64_t Batcher::batches_per_epoch() const {
  return (rows_ + options_.batch_size - 1) / options_.batch_size;
}

// With packing, samples of one length change places from epoch to epoch, and the packs change their order;
// the number of packs stays.
Batcher::Plan Batcher::make_plan(std::int64_t epoch) const {
  const Random random = Random{options_.seed}.with("shuffle").with(static_cast<std::uint64_t>(epoch));
  std::vector<std::int64_t> order(static_cast<std::size_t>(data_.size()));
  std::iota(order.begin(), order.end(), 0);
  if (options_.shuffle) order = permutation(data_.size(), random);
  Plan rows;
  if (options_.pack_to == 0) {
    for (const std::int64_t i : order) rows.push_back({i});
    return rows;
  }
  Plan packs = pack_best_fit(lengths_, order, options_.pack_to);
  for (Row& pack : packs) std::sort(pack.begin(), pack.end());
  if (!options_.shuffle) {
    std::sort(packs.begin(), packs.end());
    return packs;
  }
  for (const std::int64_t i : permutation(static_cast<std::int64_t>(packs.size()), random.with("packs")))
    rows.push_back(std::move(packs[static_cast<std::size_t>(i)]));
  return rows;
}

std::shared_ptr<const Batcher::Plan> Batcher::plan(std::int64_t epoch) const {
  if (!options_.shuffle) epoch = 0;
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
  b.starts.push_back(0);
  for (const Row& row : rows_of(*plan_now, i)) {
    const std::int64_t row_begin = b.tokens();
    for (const std::int64_t s : row) {
      const auto [ids, labels] = data_[s];
      const auto begin = static_cast<std::int32_t>(b.tokens());
      b.input_ids.insert(b.input_ids.end(), ids.begin(), ids.end());
      for (std::int32_t t = 0; t < static_cast<std::int32_t>(ids.size()); ++t) {
        b.positions.push_back(t);
        if (t == 0 || labels[static_cast<std::size_t>(t)] == kIgnored) continue;
        b.target_rows.push_back(begin + t - 1);  // the row before predicts this token
        b.targets.push_back(labels[static_cast<std::size_t>(t)]);
      }
      b.starts.push_back(static_cast<std::int32_t>(b.tokens()));
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

BatchShape Batcher::shape(std::int64_t epoch, std::int64_t i) const {
  const auto plan_now = plan(epoch);
  BatchShape shape;
  for (const Row& row : rows_of(*plan_now, i)) {
    std::int64_t tokens = 0, last = 0;
    for (const std::int64_t s : row) {
      last = lengths_[static_cast<std::size_t>(s)];
      tokens += last;
      shape.targets += targets_[static_cast<std::size_t>(s)];
      shape.longest = std::max(shape.longest, last);
    }
    shape.longest = std::max(shape.longest, last + padding(tokens));
    shape.tokens += tokens + padding(tokens);
    shape.sequences += static_cast<std::int64_t>(row.size());
  }
  return shape;
}

double Batcher::fill() const {
  const double room = static_cast<double>(rows_) * static_cast<double>(options_.pack_to);
  return room == 0 ? 1 : static_cast<double>(data_.tokens()) / room;
}

std::vector<BatchShape> largest_shapes(const BatchSource& source, std::int64_t epochs) {
  const auto within = [](const BatchShape& a, const BatchShape& b) {
    return a.tokens <= b.tokens && a.targets <= b.targets && a.sequences <= b.sequences &&
           a.longest <= b.longest;
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
