// Rows of tokens that are sent to the ranks of their experts and back: their owners, their order, and the
// bytes sent.
#include "engine/parallel/expert_rows.h"

#include <gtest/gtest.h>

#include "engine/cpu/cpu_ops.h"
#include "engine/ops/null_ops.h"
#include "engine/zero/planned.h"
#include "tests/support/ranks.h"

namespace ft {
namespace {

constexpr std::int64_t kColumns = 3, kRoom = 1 << 20;

// Number of rows that rank r's tokens have for expert e; may be 0.
std::int32_t count(int r, int e) { return (r * 5 + e * 3) % 4; }
std::int64_t tokens(int r) { return 3 + r; }
// Column `column` of row i of rank r's rows for expert e.
float value(int r, int e, std::int32_t i, std::int64_t column) {
  return static_cast<float>(((r * 16 + e) * 16 + i) * 16 + static_cast<int>(column));
}

struct Memory {
  explicit Memory(Ops& ops)
      : saved(ops.allocate(kRoom), kRoom), scratch(ops.allocate(kRoom), kRoom), c{ops, saved, scratch} {}
  Arena saved, scratch;
  Ctx c;
};

void travel(Communicator& ranks, int own) {
  const int size = ranks.size(), rank = ranks.rank(), experts = own * size;
  cpu::CpuOps ops(1);
  Memory m(ops);
  std::vector<std::int32_t> starts{0}, counts;
  for (int e = 0; e < experts; ++e) {
    counts.push_back(count(rank, e));
    starts.push_back(starts.back() + counts.back());
  }
  const std::int64_t before = ranks.sent();
  const ExpertRows rows = ExpertRows::among(m.c, ranks, starts, counts, tokens(rank), {experts, 2}, "layer");
  const Tensor mine = m.scratch.take({starts.back(), kColumns}, DType::f32);
  for (int e = 0; e < experts; ++e)
    for (std::int32_t i = 0; i < count(rank, e); ++i)
      for (std::int64_t j = 0; j < kColumns; ++j)
        mine.as<float>()[(starts[std::size_t(e)] + i) * kColumns + j] = value(rank, e, i, j);
  const Tensor here = m.scratch.take_padded(rows.room(), kColumns, DType::f32).slice(0, rows.rows());
  rows.there(m.c, here, mine);

  // Rows are sorted by expert, then by rank.
  std::int64_t at = 0, leave = 0, come = 0, most = 0;
  for (int e = 0; e < own; ++e) {
    EXPECT_EQ(rows.starts()[std::size_t(e)], at);
    for (int r = 0; r < size; ++r)
      for (std::int32_t i = 0; i < count(r, rank * own + e); ++i, ++at)
        for (std::int64_t j = 0; j < kColumns; ++j)
          EXPECT_EQ(here.as<float>()[at * here.stride + j], value(r, rank * own + e, i, j));
  }
  EXPECT_EQ(rows.rows(), at);
  for (int r = 0; r < size; ++r) {
    most += std::min<std::int64_t>(2, own) * tokens(r);
    for (int e = 0; e < own && r != rank; ++e) {
      leave += count(rank, r * own + e);
      come += count(r, rank * own + e);
    }
  }
  EXPECT_EQ(rows.room(), most);

  for (std::int64_t i = 0; i < rows.rows(); ++i)
    for (std::int64_t j = 0; j < kColumns; ++j) here.as<float>()[i * here.stride + j] *= 2;
  const Tensor back = m.scratch.take({starts.back(), kColumns}, DType::f32);
  rows.back(m.c, back, here);
  for (std::int64_t i = 0; i < back.numel(); ++i) EXPECT_EQ(back.as<float>()[i], 2 * mine.as<float>()[i]);

  const std::int64_t told = (experts + 1) * 4 * (size - 1);
  EXPECT_EQ(ranks.sent() - before, told + (leave + come) * kColumns * 4);
}

TEST(ExpertRows, TravelThereAndBack) {
  for (const int size : {1, 2, 3})
    for (const bool overlap : {false, true})
      for (const int own : {1, 3}) run_ranks(size, overlap, [&](Communicator& ranks) { travel(ranks, own); });
}

// All tokens of all ranks choose the experts of the first rank, as far as they have choices.
TEST(ExpertRows, ThereIsRoomForTheWorst) {
  NullOps ops;
  for (const double factor : {0.0, 1.25}) {
    Memory m(ops);
    PlannedCommunicator ranks(4, 0);
    const ExpertRoom room{8, 3, factor};
    const std::int64_t one = factor == 0 ? 16 : 8;  // 16 x 3 / 8 = 6 rows of each expert, times 1.25
    EXPECT_EQ(room.of_one(16), one);
    std::vector<std::int32_t> starts{0}, counts(8, static_cast<std::int32_t>(one));
    for (int e = 0; e < 8; ++e) starts.push_back(starts.back() + 6);
    const ExpertRows rows = ExpertRows::among(m.c, ranks, starts, counts, 16, room, "layer");
    EXPECT_EQ(rows.rows(), 4 * 2 * one);
    EXPECT_EQ(rows.room(), 4 * 2 * one);
  }
  EXPECT_TRUE((ExpertRoom{8, 3, 1.25}.drops(16)));
  EXPECT_FALSE((ExpertRoom{8, 3, 100}.drops(16)));
  EXPECT_FALSE((ExpertRoom{8, 3, 0}.drops(16)));
  EXPECT_EQ((ExpertRoom{8, 3, 0.01}.of_one(16)), 1);
}

}  // namespace
}  // namespace ft
