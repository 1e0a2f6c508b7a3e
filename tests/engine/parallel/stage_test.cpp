// The split of blocks among stages.
#include "engine/parallel/stage.h"

#include <gtest/gtest.h>

namespace ft {
namespace {

std::vector<std::int64_t> shares(const std::vector<double>& blocks, EndCosts ends, int stages) {
  std::vector<std::int64_t> all;
  std::int64_t end = 0;
  for (const Stage& s : deal_blocks(blocks, ends, stages)) {
    EXPECT_EQ(s.begin, end);
    EXPECT_EQ(s.rank, std::ssize(all));
    EXPECT_EQ(s.size, stages);
    end = s.end;
    all.push_back(s.end - s.begin);
  }
  EXPECT_EQ(end, std::ssize(blocks));
  return all;
}

using Shares = std::vector<std::int64_t>;

TEST(DealBlocks, GivesEachStageAsMuchAsTheOthers) {
  const std::vector<double> eight(8, 1);
  EXPECT_EQ(shares(eight, {}, 1), (Shares{8}));
  EXPECT_EQ(shares(eight, {}, 2), (Shares{4, 4}));
  EXPECT_EQ(shares(eight, {}, 8), Shares(8, 1));
  EXPECT_EQ(shares(eight, {.head = 2}, 2), (Shares{5, 3}));
  EXPECT_EQ(shares(eight, {.embedding = 1, .head = 3}, 4), (Shares{1, 3, 3, 1}));
  EXPECT_EQ(shares({1, 1, 4, 1, 1}, {}, 3), (Shares{2, 1, 2}));
}

// Among equal splits, the one with more blocks in later stages is chosen: these have fewer micro-batches in
// flight.
TEST(DealBlocks, GivesTheRestToTheLast) {
  EXPECT_EQ(shares(std::vector<double>(5, 1), {}, 2), (Shares{2, 3}));
  EXPECT_EQ(shares(std::vector<double>(7, 1), {}, 3), (Shares{2, 2, 3}));
}

TEST(DealBlocks, LeavesNoStageWithoutABlock) {
  EXPECT_EQ(shares({1, 1, 1}, {.head = 100}, 3), (Shares{1, 1, 1}));
  EXPECT_EQ(shares({0, 0, 0}, {}, 2), (Shares{1, 2}));
  EXPECT_THROW(deal_blocks({1, 1}, {}, 3), InternalError);
}

}  // namespace
}  // namespace ft
