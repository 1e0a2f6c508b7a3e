// Ranks that share rows exchange them for columns and back, in the sequences' order: with contiguous rows,
// and with the two runs of rows that a rank of a ring has.
#include "engine/parallel/columns_by_rank.h"

#include <gtest/gtest.h>

#include "tests/support/ranks.h"

namespace ft {
namespace {

constexpr std::int64_t kOwn = 4, kRoom = 1 << 16;

// Value of an element of tensor `t`, exact in bf16.
float value(std::int64_t t, std::int64_t row, std::int64_t column) {
  return static_cast<float>(100 * t + 8 * row + column % 8);
}
void set(const Tensor& t, std::int64_t r, std::int64_t c, float v) {
  if (t.dtype == DType::f32)
    t.as<float>()[r * t.stride + c] = v;
  else
    from_float(t.as<bf16>()[r * t.stride + c], v);
}
float get(const Tensor& t, std::int64_t r, std::int64_t c) {
  return t.dtype == DType::f32 ? t.as<float>()[r * t.stride + c] : to_float(t.as<bf16>()[r * t.stride + c]);
}
// Calls f(row of this rank, its number among all rows).
void each_row(const RowShare& share, const auto& f) {
  share.numbers(kOwn).each_run(kOwn, [&](std::int64_t begin, std::int64_t end, std::int64_t number) {
    for (std::int64_t r = begin; r < end; ++r) f(r, number + r - begin);
  });
}

void exchange(Ops& ops, Communicator& comm, SequenceSharing by, DType dtype) {
  Arena saved(ops.allocate(kRoom), kRoom), scratch(ops.allocate(kRoom), kRoom);
  Ctx c{ops, saved, scratch};
  const std::int64_t ranks = comm.size(), rank = comm.rank();
  const RowShare share{comm.rank(), comm.size(), by};
  // Two parts of one tensor, with 2 and 3 columns for each rank.
  const Tensor both = saved.take({kOwn, 5 * ranks}, dtype);
  const std::array parts{both.columns(0, 2 * ranks), both.columns(2 * ranks, 5 * ranks)};
  for (std::int64_t t = 0; t < 2; ++t)
    each_row(share, [&](std::int64_t r, std::int64_t number) {
      for (std::int64_t j = 0; j < parts[std::size_t(t)].cols(); ++j)
        set(parts[std::size_t(t)], r, j, value(t, number, j));
    });
  const ColumnsByRank columns(comm, by);
  const Tensor all = saved.take({columns.rows(both), 5}, dtype);
  columns.gather(c, all, parts);
  for (std::int64_t r = 0; r < all.rows(); ++r)
    for (std::int64_t j = 0; j < 5; ++j)
      EXPECT_EQ(get(all, r, j), j < 2 ? value(0, r, 2 * rank + j) : value(1, r, 3 * rank + j - 2));
  const Tensor again = saved.take({kOwn, 5 * ranks}, dtype);
  columns.give_back(c, std::array{again.columns(0, 2 * ranks), again.columns(2 * ranks, 5 * ranks)}, all);
  for (std::int64_t r = 0; r < kOwn; ++r)
    for (std::int64_t j = 0; j < 5 * ranks; ++j) EXPECT_EQ(get(again, r, j), get(both, r, j));
  EXPECT_EQ(scratch.mark(), 0);
}

TEST(ColumnsByRank, ExchangeRowsForColumns) {
  for (const int ranks : {2, 3})
    for (const SequenceSharing by : {SequenceSharing::ulysses, SequenceSharing::ring})
      for (const DType dtype : {DType::f32, DType::bf16})
        rethrow_first(on_threads(ranks, [&](Ops& ops, Mesh mesh) {
          MeshCommunicator comm(ops, std::move(mesh), 20);
          exchange(ops, comm, by, dtype);
        }));
}

}  // namespace
}  // namespace ft
