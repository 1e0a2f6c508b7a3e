// Lists of attention's tiles that are kept on the GPU.
#include <gtest/gtest.h>

#include "engine/cuda/gpu_attention.h"

namespace ft::cuda {
namespace {

const std::vector<std::int32_t> kSource{0, 200, 230}, kTarget{0, 5, 140};

// Counts uploads of lists, and records their place.
class Lists : public testing::Test {
 protected:
  const TileLists::List& of(TileLists& lists, const Mask& mask, std::int32_t step = 128) {
    return lists.of(mask, step, [&](std::int64_t first, std::span<const Tile> tiles) {
      ++uploads;
      place = first;
      last.assign(tiles.begin(), tiles.end());
    });
  }
  int uploads = 0;
  std::int64_t place = -1;
  std::vector<Tile> last;
};

TEST_F(Lists, ThoseThatTakeTurnsAreUploadedOnce) {
  TileLists lists(100);
  const Mask encoder{kSource, false}, self{kTarget, true}, cross{kTarget, false, 0, kSource};
  for (int layer = 0; layer < 24; ++layer) of(lists, encoder);
  for (int layer = 0; layer < 24; ++layer) {
    EXPECT_EQ(of(lists, self).first,
              6);                           // behind the encoder's three tiles of queries and three of keys
    EXPECT_EQ(of(lists, cross).first, 12);  // behind six more
  }
  EXPECT_EQ(uploads, 3);
  EXPECT_EQ(place, 12);
  EXPECT_EQ(of(lists, cross).queries, 3);
  EXPECT_EQ(of(lists, cross).keys, 3);
}

TEST_F(Lists, OtherSequencesMasksOrTilesAreOtherLists) {
  TileLists lists(1000);
  of(lists, {kSource, false});
  of(lists, {kSource, true});
  of(lists, {kTarget, true});
  of(lists, {kTarget, false, 0, kSource});
  of(lists, {kSource, true}, 64);
  EXPECT_EQ(uploads, 5);
  of(lists, {kSource, true, 17});  // a window does not change the tiles
  EXPECT_EQ(uploads, 5);
}

TEST_F(Lists, MakeRoomForEachOther) {
  TileLists lists(7);
  EXPECT_EQ(of(lists, {kSource, true}).first, 0);
  EXPECT_EQ(of(lists, {kTarget, true}).first, 0);  // six more do not fit
  EXPECT_EQ(last.size(), 6u);
  EXPECT_EQ(of(lists, {kSource, true}).first, 0);
  EXPECT_EQ(uploads, 3);
  EXPECT_ANY_THROW(of(lists, {kSource, true}, 32));
  TileLists few(1000);
  std::vector<std::vector<std::int32_t>> batches;
  for (std::int32_t n = 1; n < 20; ++n) batches.push_back({0, n});
  for (const auto& batch : batches)
    EXPECT_LT(of(few, {batch, true}).first, 2 * std::int64_t{TileLists::kMost});
  EXPECT_EQ(of(few, {batches.back(), true}).first, place);
}

TEST_F(Lists, TheLongestComeFirst) {
  TileLists lists(100);
  of(lists, {kSource, true});
  ASSERT_EQ(last.size(), 6u);
  EXPECT_EQ(last[0].first, 128);  // queries: the last tile of the longer sequence
  EXPECT_EQ(last[3].first, 0);    // keys: its first tile
  EXPECT_EQ(last[0].end, 200);
}

}  // namespace
}  // namespace ft::cuda
