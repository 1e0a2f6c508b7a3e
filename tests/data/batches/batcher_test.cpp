// Micro-batches contain every sample once per epoch, in an order that depends on seed and epoch alone; packs
// are full, targets are the next tokens, and batches have the promised shapes.
#include "data/batches/batcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "data/batches/packing.h"
#include "data/batches/statistics.h"
#include "data/shuffle.h"

namespace ft {
namespace {

// Makes a dataset in which sample i has lengths[i] tokens, all of them 100 + i. The second half of each is
// trained.
Dataset samples_of(const std::vector<std::int64_t>& lengths) {
  auto store = std::make_shared<SampleStore>();
  store->start_file("made.jsonl");
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto n = static_cast<std::size_t>(lengths[i]);
    Sample s{std::vector<std::int32_t>(n, 100 + static_cast<std::int32_t>(i)), {}};
    s.labels = s.input_ids;
    std::fill_n(s.labels.begin(), n / 2, kIgnored);
    store->add(s, static_cast<std::int64_t>(i) + 1);
    rows.push_back(static_cast<std::int64_t>(i));
  }
  return {store, rows};
}

std::vector<std::int64_t> many_lengths(std::int64_t n, std::int64_t most) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < n; ++i) lengths.push_back(1 + (i * 7919) % most);
  return lengths;
}

// Counts the tokens of each sample in an epoch, and checks that all batches are valid and have the promised
// shape.
std::map<std::int32_t, std::int64_t> check_pass(const Batcher& b, std::int64_t epoch, std::int32_t pad = -1) {
  std::map<std::int32_t, std::int64_t> tokens;
  for (std::int64_t i = 0; i < b.batches_per_epoch(); ++i) {
    const Batch batch = b.batch(epoch, i);
    const BatchShape shape = b.shape(epoch, i);
    EXPECT_EQ(batch.tokens(), shape.tokens);
    EXPECT_EQ(static_cast<std::int64_t>(batch.targets.size()), shape.targets);
    EXPECT_EQ(batch.target_rows.size(), batch.targets.size());
    EXPECT_EQ(static_cast<std::int64_t>(batch.starts.size()) - 1, shape.sequences);
    EXPECT_EQ(batch.starts.front(), 0);
    EXPECT_EQ(batch.starts.back(), batch.tokens());
    std::int64_t longest = 0;
    for (std::size_t s = 0; s + 1 < batch.starts.size(); ++s) {
      longest = std::max<std::int64_t>(longest, batch.starts[s + 1] - batch.starts[s]);
      const std::int32_t id = batch.input_ids[static_cast<std::size_t>(batch.starts[s])];
      for (std::int32_t t = batch.starts[s]; t < batch.starts[s + 1]; ++t) {
        const auto at = static_cast<std::size_t>(t);
        EXPECT_EQ(batch.positions[at], t - batch.starts[s]);
        if (batch.input_ids[at] == pad) continue;
        EXPECT_EQ(batch.input_ids[at], id);
        ++tokens[id];
      }
    }
    EXPECT_EQ(longest, shape.longest);
    EXPECT_TRUE(std::is_sorted(batch.target_rows.begin(), batch.target_rows.end()));
    for (std::size_t t = 0; t < batch.targets.size(); ++t)
      EXPECT_EQ(batch.targets[t], batch.input_ids[static_cast<std::size_t>(batch.target_rows[t]) + 1]);
  }
  return tokens;
}

void expect_whole(const std::map<std::int32_t, std::int64_t>& tokens,
                  const std::vector<std::int64_t>& lengths) {
  ASSERT_EQ(tokens.size(), lengths.size());
  for (const auto& [id, count] : tokens) EXPECT_EQ(count, lengths[static_cast<std::size_t>(id - 100)]);
}

TEST(Batcher, FileOrderAndASmallerLastBatch) {
  const Batcher b(samples_of({3, 5, 2, 4, 6}), {.batch_size = 2});
  ASSERT_EQ(b.batches_per_epoch(), 3);
  const Batch first = b.batch(0, 0);
  EXPECT_EQ(first.input_ids, (std::vector<std::int32_t>{100, 100, 100, 101, 101, 101, 101, 101}));
  EXPECT_EQ(first.starts, (std::vector<std::int32_t>{0, 3, 8}));
  EXPECT_EQ(first.positions, (std::vector<std::int32_t>{0, 1, 2, 0, 1, 2, 3, 4}));
  // labels: - 100 100 and - - 101 101 101; the row before a label predicts it
  EXPECT_EQ(first.target_rows, (std::vector<std::int32_t>{0, 1, 4, 5, 6}));
  EXPECT_EQ(first.targets, (std::vector<std::int32_t>{100, 100, 101, 101, 101}));
  EXPECT_EQ(b.batch(7, 2).input_ids, std::vector<std::int32_t>(6, 104));
}

TEST(Batcher, AFirstLabelIsNeverATarget) {
  auto store = std::make_shared<SampleStore>();
  store->start_file("made.jsonl");
  store->add({{5, 6}, {5, kIgnored}}, 1);
  const Dataset data(store, {0});
  EXPECT_EQ(data.targets(), 0);
  EXPECT_EQ(data.untrained(), 1);
  EXPECT_TRUE(Batcher(data, {}).batch(0, 0).targets.empty());
}

TEST(Batcher, ShufflesBySeedAndEpoch) {
  const auto lengths = many_lengths(50, 9);
  const Batcher b(samples_of(lengths), {.batch_size = 4, .shuffle = true, .seed = 3});
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) expect_whole(check_pass(b, epoch), lengths);
  EXPECT_NE(b.batch(0, 0).input_ids, b.batch(1, 0).input_ids);
  const auto later = b.batch(1, 5).input_ids;
  EXPECT_EQ(Batcher(samples_of(lengths), {.batch_size = 4, .shuffle = true, .seed = 3}).batch(1, 5).input_ids,
            later);
  EXPECT_NE(Batcher(samples_of(lengths), {.batch_size = 4, .shuffle = true, .seed = 4}).batch(1, 5).input_ids,
            later);
}

// The order is the same on every platform and in every version; resuming depends on it.
TEST(Batcher, OrderIsFrozen) {
  EXPECT_EQ(permutation(8, Random{42}.with("shuffle").with(0)),
            (std::vector<std::int64_t>{3, 4, 1, 0, 5, 7, 2, 6}));
}

TEST(Batcher, PacksAreFullAndComplete) {
  const auto lengths = many_lengths(500, 64);
  for (const bool shuffle : {false, true}) {
    const Batcher b(samples_of(lengths), {.batch_size = 3, .shuffle = shuffle, .seed = 1, .pack_to = 64});
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) expect_whole(check_pass(b, epoch), lengths);
    EXPECT_GT(b.fill(), 0.98);
    for (std::int64_t i = 0; i < b.batches_per_epoch(); ++i) EXPECT_LE(b.shape(2, i).tokens, 3 * 64);
  }
}

TEST(Batcher, PacksInFileOrderWithoutShuffling) {
  const Batcher b(samples_of({2, 6, 3, 5, 4, 4}), {.pack_to = 8});
  EXPECT_EQ(b.rows(), 3);
  EXPECT_EQ(b.batch(0, 0).starts, (std::vector<std::int32_t>{0, 2, 8}));
  EXPECT_EQ(b.batch(0, 1).starts, (std::vector<std::int32_t>{0, 3, 8}));
  EXPECT_EQ(b.batch(0, 2).starts, (std::vector<std::int32_t>{0, 4, 8}));
}

TEST(Batcher, WrappedPacksAreFullToTheLast) {
  const auto lengths = many_lengths(100, 90);
  for (const bool shuffle : {false, true}) {
    const Batcher b(
        samples_of(lengths),
        {.batch_size = 2, .shuffle = shuffle, .seed = 1, .pack_to = 32, .packing = PackingStrategy::wrapped});
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) expect_whole(check_pass(b, epoch), lengths);
    EXPECT_EQ(b.rows(), (b.data().tokens() + 31) / 32);
    EXPECT_EQ(b.shape(0, 0).tokens, 64);
  }
}

TEST(Batcher, BestFitInPiecesLosesNothing) {
  const auto lengths = many_lengths(100, 90);
  const Batcher b(samples_of(lengths),
                  {.shuffle = true, .seed = 1, .pack_to = 32, .packing = PackingStrategy::bfd_split});
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) expect_whole(check_pass(b, epoch), lengths);
  for (std::int64_t i = 0; i < b.batches_per_epoch(); ++i) EXPECT_LE(b.shape(1, i).tokens, 32);
  EXPECT_GT(b.fill(), 0.95);
}

TEST(Packing, CutAndWrapped) {
  const std::vector<std::int64_t> lengths{5, 2, 4}, order{1, 0, 2};
  EXPECT_EQ(cut_samples(lengths, 4), (std::vector<Stretch>{{0, 0, 4}, {0, 4, 1}, {1, 0, 2}, {2, 0, 4}}));
  EXPECT_EQ(wrap(lengths, order, 4),
            (std::vector<std::vector<Stretch>>{{{1, 0, 2}, {0, 0, 2}}, {{0, 2, 3}, {2, 0, 1}}, {{2, 1, 3}}}));
}

TEST(Statistics, TokensLostToALimit) {
  const Dataset data = samples_of({3, 20, 40, 64});  // the second half of each is trained
  const std::vector<std::int64_t> limits{32, 64};
  const DataStatistics s = data_statistics(data, limits, Truncation::keep_start);
  EXPECT_EQ(s.samples, 4);
  EXPECT_EQ(s.lengths.tokens, 127);
  EXPECT_EQ(s.lengths.median, 40);
  EXPECT_EQ(s.lengths.longest, 64);
  ASSERT_EQ(s.lengths.histogram.size(), 3U);  // up to 16, 32, 64
  EXPECT_EQ(s.lengths.histogram[0].samples, 1);
  EXPECT_EQ(s.lengths.histogram[2].samples, 2);
  EXPECT_EQ(s.limits[0].longer, 2);
  EXPECT_EQ(s.limits[0].lost, 40);
  EXPECT_EQ(s.limits[0].untrained, 1);  // of the sample of 64 tokens, the first 32 are not trained
  EXPECT_EQ(s.limits[0].packs, 3);
  EXPECT_EQ(s.limits[1].lost, 0);
  EXPECT_EQ(s.limits[1].packs, 2);
  EXPECT_DOUBLE_EQ(s.limits[1].fill, 127.0 / 128);
  EXPECT_EQ(data_statistics(data, limits, Truncation::keep_end).limits[0].untrained, 0);
  EXPECT_EQ(data_statistics(data, limits, Truncation::drop).limits[0].lost, 104);
}

TEST(Packing, BestFitDecreasing) {
  const std::vector<std::int64_t> lengths{4, 7, 3, 6, 10, 1}, order{0, 1, 2, 3, 4, 5};
  EXPECT_EQ(pack_best_fit(lengths, order, 10),
            (std::vector<std::vector<std::int64_t>>{{4}, {1, 2}, {3, 0}, {5}}));
}

TEST(Batcher, PaddingOnlyWhenAskedFor) {
  const std::vector<std::int64_t> lengths{3, 5, 2};
  DataConfig config;
  config.max_seq_length = 6;
  EXPECT_EQ(batcher_options(config, 2, false, 0).pad_to, 0);
  config.pad_to_max_length = true;
  EXPECT_EQ(batcher_options(config, 2, false, 0).pad_to, 8);  // pad_to_multiple_of is 8
  config.pad_to_multiple_of = 1;
  const Batcher b(samples_of(lengths), batcher_options(config, 2, false, 0, 7));
  expect_whole(check_pass(b, 0, 7), lengths);
  EXPECT_EQ(b.shape(0, 0).tokens, 12);
  EXPECT_EQ(b.shape(0, 1).tokens, 6);
  EXPECT_EQ(b.shape(0, 1).longest, 6);
  EXPECT_EQ(b.batch(0, 1).input_ids, (std::vector<std::int32_t>{102, 102, 7, 7, 7, 7}));
  config.packing = true;
  const Batcher packed(samples_of(lengths), batcher_options(config, 1, false, 0, 7));
  expect_whole(check_pass(packed, 0, 7), lengths);
  EXPECT_EQ(packed.rows(), 2);
  EXPECT_EQ(packed.shape(0, 0).tokens, 6);
}

TEST(Batcher, LargestShapesCoverAllAndOccur) {
  const Batcher b(samples_of(many_lengths(60, 40)), {.batch_size = 3, .shuffle = true, .seed = 9});
  const auto front = largest_shapes(b, 3);
  const auto within = [](const BatchShape& a, const BatchShape& f) {
    return a.tokens <= f.tokens && a.targets <= f.targets && a.sequences <= f.sequences &&
           a.longest <= f.longest;
  };
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch)
    for (std::int64_t i = 0; i < b.batches_per_epoch(); ++i) {
      const BatchShape s = b.shape(epoch, i);
      seen.emplace(s.tokens, s.targets);
      EXPECT_TRUE(std::any_of(front.begin(), front.end(), [&](const BatchShape& f) { return within(s, f); }));
    }
  for (const BatchShape& f : front) EXPECT_TRUE(seen.contains({f.tokens, f.targets}));
}

}  // namespace
}  // namespace ft
