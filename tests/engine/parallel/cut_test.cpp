// Shards of parameters: every element belongs to one rank, and each shard knows its place in the full
// parameter.
#include "engine/parallel/cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/core/error.h"
#include "engine/layers/weight.h"

namespace ft {
namespace {

// Returns the elements of the full parameter that a rank's parameter holds, in its order.
std::vector<std::int64_t> elements_of(const Parameter& p) {
  std::vector<std::int64_t> all;
  each_piece(p, 0, p.shape.numel(), [&](std::int64_t here, std::int64_t at, std::int64_t n) {
    EXPECT_EQ(here, std::ssize(all));
    for (std::int64_t i = 0; i < n; ++i) all.push_back(at + i);
  });
  EXPECT_EQ(std::ssize(all), p.shape.numel());
  return all;
}

TEST(Cut, OfATensorIsItsRowsOrColumns) {
  for (const int size : {2, 3, 4})
    for (const int axis : {0, 1, 2}) {
      const Shape whole{7, 5, 6};
      std::vector<int> seen(static_cast<std::size_t>(whole.numel()));
      std::int64_t before = 0;
      for (int r = 0; r < size; ++r) {
        Parameter p{.name = "p", .shape = whole};
        cut(p, axis, {r, size});
        EXPECT_EQ(p.whole_shape(), whole);
        const std::vector<std::int64_t> own = elements_of(p);
        std::int64_t inner = 1;
        for (int i = axis + 1; i < 3; ++i) inner *= whole[i];
        for (const std::int64_t e : own) {
          const std::int64_t place = e / inner % whole[axis];
          EXPECT_TRUE(before <= place && place < before + p.shape[axis]);
          ++seen[static_cast<std::size_t>(e)];
        }
        EXPECT_TRUE(std::is_sorted(own.begin(), own.end()));
        // Ranges of the shard, from any element on.
        for (const std::int64_t first : {std::int64_t{1}, p.shape.numel() / 2})
          each_piece(p, first, p.shape.numel() - first - 1,
                     [&](std::int64_t here, std::int64_t at, std::int64_t n) {
                       for (std::int64_t i = 0; i < n; ++i)
                         EXPECT_EQ(own[static_cast<std::size_t>(here + i)], at + i);
                     });
        before += p.shape[axis];
      }
      for (const int times : seen) EXPECT_EQ(times, 1);
    }
}

// A linear that makes queries, keys and values: each of the three is sharded, along either axis.
TEST(Cut, OfPartsHasSomeOfEach) {
  const Parts parts{4, 2, 2};
  for (const int axis : {0, 1}) {
    std::vector<int> seen(8 * 3);
    for (int r = 0; r < 2; ++r) {
      Parameter p{.name = "p", .shape = axis == 0 ? Shape{8, 3} : Shape{3, 8}, .stored = {}};
      cut(p, axis, {r, 2}, parts);
      EXPECT_EQ(p.shape[axis], 4);
      std::vector<std::int64_t> places;
      for (const std::int64_t e : elements_of(p)) {
        ++seen[static_cast<std::size_t>(e)];
        const std::int64_t place = axis == 0 ? e / 3 : e % 8;
        if (axis == 0 ? e % 3 == 0 : e < 8) places.push_back(place);
      }
      EXPECT_EQ(places,
                r == 0 ? (std::vector<std::int64_t>{0, 1, 4, 6}) : (std::vector<std::int64_t>{2, 3, 5, 7}));
      each_piece(p, 3, 5, [&](std::int64_t here, std::int64_t at, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i)
          EXPECT_EQ(at + i, elements_of(p)[static_cast<std::size_t>(here + i)]);
      });
    }
    for (const int times : seen) EXPECT_EQ(times, 1);
  }
  FourBitWeight w("w", {8, 64}, {});
  w.cut(0, {1, 2}, parts);
  EXPECT_EQ(w.shape, (Shape{4, 64}));
  EXPECT_EQ(elements_of(w.absmax), (std::vector<std::int64_t>{2, 3, 5, 7}));
  EXPECT_EQ(elements_of(w.codes)[32], 3 * 32);
}

TEST(Cut, TheFirstRankHasTheMost) {
  for (std::int64_t n = 1; n < 30; ++n)
    for (int size = 1; size <= n && size < 9; ++size) {
      std::int64_t next = 0, most = TensorRank{0, size}.count_of(n);
      for (int r = 0; r < size; ++r) {
        const TensorRank t{r, size};
        EXPECT_EQ(t.first_of(n), next);
        EXPECT_GE(t.count_of(n), 1);
        EXPECT_LE(t.count_of(n), most);
        next += t.count_of(n);
      }
      EXPECT_EQ(next, n);
    }
}

TEST(Cut, OfAWeightInFourBitsIsWholeBlocks) {
  for (const bool nested : {false, true})
    for (const int axis : {0, 1}) {
      std::vector<int> codes(6 * 256 / 2), scales(6 * 256 / 64);
      for (int r = 0; r < 2; ++r) {
        FourBitWeight w("w", {6, 256}, {.nested = nested});
        w.cut(axis, {r, 2}, {});
        EXPECT_EQ(w.shape, axis == 0 ? (Shape{3, 256}) : (Shape{6, 128}));
        EXPECT_EQ(w.codes.shape.numel(), 6 * 128 / 2);
        EXPECT_FALSE(w.form.nested);
        EXPECT_EQ(w.absmax.dtype, DType::f32);
        for (const std::int64_t e : elements_of(w.codes)) ++codes[static_cast<std::size_t>(e)];
        for (const std::int64_t e : elements_of(w.absmax)) ++scales[static_cast<std::size_t>(e)];
        // The shard of the scales belongs to the same elements as the shard of the codes.
        const auto own = elements_of(w.codes), of = elements_of(w.absmax);
        for (std::size_t i = 0; i < own.size(); ++i) EXPECT_EQ(own[i] / 32, of[i / 32]);
      }
      for (const int times : codes) EXPECT_EQ(times, 1);
      for (const int times : scales) EXPECT_EQ(times, 1);
    }
  FourBitWeight small("small", {6, 192}, {});
  try {
    small.cut(1, {0, 2}, {});
    ADD_FAILURE() << "96 columns are one block and a half";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::config);
    EXPECT_NE(std::string(e.what()).find("sizes that would do: 1, 3"), std::string::npos) << e.what();
  }
}

// Scales belong to the same elements as codes; a scale for all of an axis is kept by every rank.
TEST(Cut, OfAWeightInFp8IsWholeTiles) {
  for (const Fp8Scheme scheme : {kFp8Channels, kFp8Blocks, kFp8Tensor})
    for (const int axis : {0, 1})
      for (int r = 0; r < 2; ++r) {
        const std::int64_t rows = 384, cols = 512;
        Fp8Weight w("w", {rows, cols}, scheme);
        if (axis == 0 && scheme == kFp8Blocks) {
          EXPECT_THROW(w.cut(axis, {r, 2}, {}), UserError);  // 192 rows are one block and a half
          continue;
        }
        w.cut(axis, {r, 2}, {});
        EXPECT_EQ(w.shape, axis == 0 ? (Shape{rows / 2, cols}) : (Shape{rows, cols / 2}));
        const auto codes = elements_of(w.codes), scales = elements_of(w.scales);
        ASSERT_EQ(std::ssize(codes), rows * cols / 2);
        ASSERT_EQ(std::ssize(scales), scheme.scales(w.shape[0], w.shape[1]));
        for (std::int64_t i = 0; i < std::ssize(codes); ++i) {
          const std::int64_t row = i / w.shape[1], column = i % w.shape[1];
          const auto place = [&](std::int64_t x, std::int64_t y, std::int64_t width) {
            return (x >> tile_bits(scheme.rows)) * scheme.scale_cols(width) + (y >> tile_bits(scheme.cols));
          };
          const std::int64_t whole = codes[static_cast<std::size_t>(i)];
          ASSERT_EQ(scales[static_cast<std::size_t>(place(row, column, w.shape[1]))],
                    place(whole / cols, whole % cols, cols));
        }
      }
  Fp8Weight odd("odd", {4, 384}, kFp8Blocks);
  try {
    odd.cut(1, {0, 2}, {});
    ADD_FAILURE() << "192 columns are one block and a half";
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("blocks of 128 x 128 elements in FP8; sizes that would do: 1, 3"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace ft
