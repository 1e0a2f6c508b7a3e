// Rows of the residual stream, split among the ranks of a tensor group: around a layer, at the ends of
// the stream, and in a batch. A rank alone computes on its tensors as they are.
#include "engine/parallel/row_shards.h"

#include <gtest/gtest.h>

#include "engine/parallel/batch_part.h"
#include "engine/parallel/layer_rows.h"
#include "tests/support/ranks.h"

namespace ft {
namespace {

constexpr std::int64_t kColumns = 128, kOwn = 2, kRoom = 1 << 16;

struct Pass {
  Pass(Ops& ops, const Grid* grid, DType dtype)
      : saved(ops.allocate(kRoom), kRoom), scratch(ops.allocate(kRoom), kRoom), c{ops, saved, scratch} {
    c.dtype = dtype;
    c.grid = grid;
  }
  Arena saved, scratch;
  Ctx c;
};

// Value of an element of all ranks' rows; its multiples are exact in bf16.
float value(std::int64_t row, std::int64_t column) { return static_cast<float>((row + column) % 8) / 4; }

void set(const Tensor& t, std::int64_t r, std::int64_t c, float v) {
  if (t.dtype == DType::f32)
    t.as<float>()[r * t.stride + c] = v;
  else
    from_float(t.as<bf16>()[r * t.stride + c], v);
}
float get(const Tensor& t, std::int64_t r, std::int64_t c) {
  return t.dtype == DType::f32 ? t.as<float>()[r * t.stride + c] : to_float(t.as<bf16>()[r * t.stride + c]);
}
// Fills t with `factor` times the values of rows from `first` on.
Tensor fill(Tensor t, std::int64_t first, float factor = 1) {
  for (std::int64_t r = 0; r < t.rows(); ++r)
    for (std::int64_t j = 0; j < t.cols(); ++j) set(t, r, j, factor * value(first + r, j));
  return t;
}
void expect_rows(const Tensor& t, std::int64_t first, float factor) {
  for (std::int64_t r = 0; r < t.rows(); ++r)
    for (std::int64_t j = 0; j < t.cols(); ++j) EXPECT_EQ(get(t, r, j), factor * value(first + r, j));
}

// Runs body(pass, rank, ranks) on 2 and 3 ranks that shard rows, in f32 and bf16.
void on_shards(const std::function<void(Pass&, int, int)>& body) {
  for (const int ranks : {2, 3})
    for (const DType dtype : {DType::f32, DType::bf16})
      rethrow_first(on_threads(ranks, [&](Ops& ops, Mesh mesh) {
        MeshCommunicator comm(ops, std::move(mesh), 20);
        GridShape shape({.pipeline = 1, .data = 1, .sequence = 1, .tensor = ranks});
        shape.shards_rows = true;
        const Grid grid(comm, shape);
        Pass pass(ops, &grid, dtype);
        {
          const ShardedStream sharded(pass.c);
          body(pass, comm.rank(), ranks);
        }
        EXPECT_FALSE(pass.c.shards);
      }));
}

TEST(LayerRows, AddUpTheRanksParts) {
  on_shards([](Pass& p, int rank, int ranks) {
    Ctx& c = p.c;
    const std::int64_t first = rank * kOwn, all = ranks * kOwn;
    const float sum = static_cast<float>(ranks * (ranks + 1)) / 2;
    const Tensor x = fill(c.save(kOwn, kColumns), first), residual = fill(c.save(kOwn, kColumns), first, 2),
                 y = c.save(kOwn, kColumns);
    c.numbers = {first};
    layer_forward(c, "layer", y, x, residual, [&](Tensor to, Tensor in, Tensor add) {
      EXPECT_TRUE(c.parts_stay);
      EXPECT_EQ(c.numbers.first, 0);
      EXPECT_FALSE(add);
      ASSERT_EQ(in.rows(), all);
      expect_rows(in, 0, 1);
      fill(to, 0, static_cast<float>(rank + 1));
    });
    expect_rows(y, first, sum + 2);
    layer_backward(c, "layer", y, x, residual, [&](Tensor dx, Tensor dy, Tensor in) {
      expect_rows(dy, 0, 1);
      expect_rows(in, 0, 2);
      fill(dx, 0, static_cast<float>(rank + 1));
    });
    expect_rows(y, first, sum);
    layer_backward(c, "layer", {}, x, {}, [&](Tensor dx, Tensor dy, Tensor in) {
      EXPECT_FALSE(dx || in);
      expect_rows(dy, 0, 1);
    });
    EXPECT_FALSE(c.parts_stay);
    EXPECT_EQ(c.numbers.first, first);
    EXPECT_EQ(p.scratch.mark(), 0);
  });
}

TEST(RowShards, AreOneRanksRowsAtTheEndsOfTheStream) {
  on_shards([](Pass& p, int rank, int ranks) {
    Ctx& c = p.c;
    const std::int64_t first = rank * kOwn, all = ranks * kOwn;
    const Tensor x = rows_of_rank(c, all, kColumns, [&] {
      EXPECT_EQ(c.numbers.first, 0);
      return fill(c.save(all, kColumns), 0);
    });
    ASSERT_EQ(x.rows(), kOwn);
    expect_rows(x, first, 1);
    EXPECT_EQ(c.numbers.first, first);
    EXPECT_EQ(c.saved.mark(), x.rows() * x.stride * size_of(c.dtype)) << "all rows are kept";
    const Tensor d = through_all_rows(c, x, "head", [&](Tensor rows) {
      EXPECT_EQ(c.numbers.first, 0);
      expect_rows(rows, 0, 1);
      return fill(c.temporary(all, kColumns), 0, 4);
    });
    ASSERT_EQ(d.rows(), kOwn);
    expect_rows(d, first, 4);
    bool called = false;
    with_all_rows(c, d, "embedding", [&](Tensor rows) {
      EXPECT_EQ(c.numbers.first, 0);
      EXPECT_EQ(rows.rows(), all);
      expect_rows(rows, 0, 4);
      called = true;
    });
    EXPECT_TRUE(called);
    EXPECT_EQ(c.numbers.first, first);
  });
}

TEST(RowShards, OfOneRankAreItsTensors) {
  cpu::CpuOps ops(1);
  Pass p(ops, nullptr, DType::f32);
  Ctx& c = p.c;
  const Tensor x = c.save(kOwn, kColumns), y = c.save(kOwn, kColumns), residual = c.save(kOwn, kColumns);
  int calls = 0;
  layer_forward(c, "layer", y, x, residual, [&](Tensor to, Tensor in, Tensor add) {
    EXPECT_TRUE(to.data == y.data && in.data == x.data && add.data == residual.data);
    EXPECT_FALSE(c.parts_stay);
    ++calls;
  });
  layer_backward(c, "layer", y, x, {}, [&](Tensor dx, Tensor dy, Tensor in) {
    EXPECT_TRUE(dx.data == y.data && dy.data == x.data && !in);
    ++calls;
  });
  with_all_rows(c, x, "embedding", [&](Tensor rows) {
    EXPECT_EQ(rows.data, x.data);
    ++calls;
  });
  EXPECT_EQ(calls, 3);
  const auto same = [](Tensor t) { return t; };
  EXPECT_EQ(through_all_rows(c, x, "head", same).data, x.data);
  EXPECT_EQ(rows_of_rank(c, kOwn, kColumns, [&] { return x; }).data, x.data);
  EXPECT_EQ(p.scratch.peak(), 0);
}

Batch five_tokens() {
  Batch b;
  b.input_ids = {3, 1, 4, 1, 5};
  b.positions = {0, 1, 2, 3, 4};
  b.starts = {0, 5};
  b.target_rows = b.targets = {4};
  return b;
}

TEST(BatchPart, IsFilledUpForShards) {
  on_shards([](Pass& p, int, int ranks) {
    const std::optional<Batch> part = part_of_rank(p.c, five_tokens());
    ASSERT_TRUE(part);
    EXPECT_EQ(part->tokens(), 6) << ranks;
    EXPECT_EQ(part->starts, (std::vector<std::int32_t>{0, 5, 6}));
    EXPECT_EQ(part->target_rows, std::vector<std::int32_t>{4});
  });
}

TEST(BatchPart, IsTheRowsOfARankOfASequenceGroup) {
  rethrow_first(on_threads(2, [](Ops& ops, Mesh mesh) {
    MeshCommunicator comm(ops, std::move(mesh), 20);
    const Grid grid(comm, GridShape({.pipeline = 1, .data = 1, .sequence = 2, .tensor = 1}));
    Pass p(ops, &grid, DType::f32);
    const std::optional<Batch> part = part_of_rank(p.c, five_tokens());
    ASSERT_TRUE(part);
    EXPECT_EQ(part->tokens(), 3);
    EXPECT_EQ(part->input_ids[0], comm.rank() == 0 ? 3 : 1);
    EXPECT_EQ(part->targets.size(), comm.rank() == 0 ? 0u : 1u);
    EXPECT_EQ(p.c.numbers.first, 3 * comm.rank());
  }));
}

TEST(BatchPart, IsNoneOfARankAlone) {
  cpu::CpuOps ops(1);
  Pass p(ops, nullptr, DType::f32);
  EXPECT_FALSE(part_of_rank(p.c, five_tokens()));
}

}  // namespace
}  // namespace ft
