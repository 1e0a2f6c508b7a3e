// The sequences that cuDNN computes together, and the offsets that it gets.
#include "engine/cuda/cudnn/cudnn_runs.h"

#include <gtest/gtest.h>

#include <set>

namespace ft::cuda {
namespace {

using Starts = std::vector<std::int32_t>;
using Told = std::vector<std::int64_t>;

// Returns runs as {ragged, batch, rows, keys, sequences ...}. `room`: highest number of scores of all of a
// run's sequences.
std::vector<Told> runs_of(const Starts& starts, std::int64_t room = 1 << 30, const Starts& key_starts = {}) {
  std::vector<Told> all;
  const auto fits = [&](const CudnnRun& r) { return r.batch * r.rows * r.keys <= room; };
  for (const CudnnRun& r : cudnn_runs({.starts = starts, .key_starts = key_starts}, fits)) {
    all.push_back({r.ragged, r.batch, r.rows, r.keys});
    all.back().insert(all.back().end(), r.sequences.begin(), r.sequences.end());
  }
  return all;
}

TEST(CudnnRuns, SequencesOfOneLengthRunTogether) {
  EXPECT_EQ(runs_of({0, 384}), (std::vector<Told>{{0, 1, 384, 384, 0}}));
  // Seven sequences of one length make runs of 4, 2 and 1, so that no run contains an empty sequence.
  EXPECT_EQ(runs_of({0, 128, 256, 384, 512, 640, 768, 896}),
            (std::vector<Told>{{0, 4, 128, 128, 0, 1, 2, 3}, {0, 2, 128, 128, 4, 5}, {0, 1, 128, 128, 6}}));
  EXPECT_EQ(runs_of({0, 256, 512}, 1 << 30, {0, 128, 256}), (std::vector<Told>{{0, 2, 256, 128, 0, 1}}));
}

TEST(CudnnRuns, OthersRunWithThoseOfLikeLength) {
  EXPECT_EQ(runs_of({0, 1000}), (std::vector<Told>{{1, 1, 1024, 1024, 0}}));
  EXPECT_EQ(runs_of({0, 5, 305, 433, 933}),
            (std::vector<Told>{{1, 2, 128, 128, 0, 2}, {1, 2, 512, 512, 1, 3}}));
  EXPECT_EQ(runs_of({0, 5, 9, 10}), (std::vector<Told>{{1, 4, 128, 128, 0, 1, 2}}));
  EXPECT_EQ(runs_of({0, 5, 10, 15}, 1 << 30, {0, 300, 310, 650}),
            (std::vector<Told>{{1, 1, 128, 128, 1}, {1, 2, 128, 512, 0, 2}}));
}

TEST(CudnnRuns, AreAsLargeAsFits) {
  EXPECT_EQ(runs_of({0, 130, 260, 390}, 2 * 256 * 256),
            (std::vector<Told>{{1, 2, 256, 256, 0, 1}, {1, 1, 256, 256, 2}}));
  EXPECT_TRUE(runs_of({0, 130, 260, 390}, 256 * 256 - 1).empty());
  EXPECT_TRUE(runs_of({0, 130, 1000}, 256 * 256).empty()) << "one that does not fit leaves all to others";
}

TEST(CudnnRuns, EmptySequencesAreLeftToOthers) {
  EXPECT_TRUE(runs_of({0}).empty());
  EXPECT_TRUE(runs_of({0, 0, 128}).empty());
  EXPECT_TRUE(runs_of({0, 4, 8}, 1 << 30, {0, 0, 9}).empty());
}

TEST(CudnnRuns, BoundsOfPackedBatchesAreFew) {
  std::set<Told> shapes;
  std::uint64_t random = 1;
  for (int batch = 0; batch < 2000; ++batch) {
    Starts starts{0};
    while (starts.back() < 4096) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      const auto length = static_cast<std::int32_t>(1 + (random >> 33) % 2000);
      starts.push_back(std::min(starts.back() + length, 4096));
    }
    for (const Told& run : runs_of(starts)) shapes.insert({run[0], run[1], run[2]});
  }
  EXPECT_LE(shapes.size(), 20u);
}

TEST(CudnnWordsTest, SayWhereSequencesLie) {
  const Starts starts{0, 5, 305, 433, 933}, key_starts{0, 7, 8, 20, 100};
  const CudnnRun run{.batch = 4, .rows = 512, .keys = 128, .ragged = true, .sequences = {1, 3}};
  const Mask mask{.starts = starts, .causal = false, .key_starts = key_starts};
  const CudnnWords words(run, mask, std::vector<CudnnWords::Rows>{{64, false}, {8, true}});
  const auto list = [&](std::size_t n) {
    const auto first = words.all().begin() + static_cast<std::ptrdiff_t>(words.at(n));
    return Starts(first, first + 5);
  };
  EXPECT_EQ(list(CudnnWords::kFirstRow), (Starts{5, 433, 933, 933, 933}));
  EXPECT_EQ(list(CudnnWords::kRows), (Starts{300, 500, 0, 0, 0}));
  EXPECT_EQ(list(CudnnWords::kKeys), (Starts{1, 80, 0, 0, 0}));
  EXPECT_EQ(list(CudnnWords::kOffsets), (Starts{5 * 64, 433 * 64, 933 * 64, 933 * 64, 933 * 64}));
  EXPECT_EQ(list(CudnnWords::kOffsets + 1), (Starts{7 * 8, 20 * 8, 100 * 8, 100 * 8, 100 * 8}));
  EXPECT_EQ(words.at(1) % 4, 0u) << "lists begin at multiples of 16 bytes";
  EXPECT_EQ(words.all().size(), words.at(CudnnWords::kOffsets + 2));
}

}  // namespace
}  // namespace ft::cuda
