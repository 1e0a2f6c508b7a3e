// The short convolution and the gated delta rule of the CUDA backend against the CPU's.
#include "engine/ops/delta_room.h"
#include "tests/engine/cuda/both.h"

namespace ft::cuda {
namespace {

using Starts = std::vector<std::int64_t>;

// Sequences shorter and longer than a convolution and a chunk.
const std::vector<Starts> kSequences{{0, 1}, {0, 2, 3, 9}, {0, 3, 75}};

void add_first_rows(Trial& t, const Starts& starts) {
  Matrix& first = t.vector(starts.back(), DType::i32);
  for (std::size_t i = 0; i + 1 < starts.size(); ++i)
    for (std::int64_t r = starts[i]; r < starts[i + 1]; ++r) first.set(0, r, double(starts[i]));
}

template <class Test>
void each_packing(std::int64_t cols, const Test& run) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const Starts& starts : kSequences)
      for (const std::int64_t pad : {0, 3}) {
        SCOPED_TRACE(str(name_of(type), " ", starts.back(), " rows, pad ", pad));
        Trial t{type, starts.back(), cols, pad};
        run(t, starts);
      }
}

TEST(CudaRecurrent, CausalConv) {
  constexpr std::int64_t kTaps = 4, kColumns = 37;
  each_packing(kColumns, [](Trial& t, const Starts& starts) {
    t.matrix(1);
    t.matrix(2);
    t.vector(kColumns * kTaps, t.type).randomize(3);
    add_first_rows(t, starts);
    t.matrix(4);  // dx
    t.matrix(5);  // dy
    t.vector(kColumns * kTaps, DType::f32).randomize(6);
    t.expect_same([](Ops& ops, const Tensors& x) {
      const Tensor w = x[2].view({kColumns, kTaps});
      ops.run(op::CausalConv{.y = x[0], .x = x[1], .w = w, .first = x[3]});
      ops.run(op::CausalConvGrad{
          .dx = x[4], .dw = x[6].view({kColumns, kTaps}), .dy = x[5], .x = x[1], .w = w, .first = x[3]});
    });
  });
}

TEST(CudaRecurrent, CausalConvGoesOnFromItsMemory) {
  constexpr std::int64_t kTaps = 4, kColumns = 37;
  each_packing(kColumns, [](Trial& t, const Starts& starts) {
    t.matrix(1);
    t.matrix(2);
    t.vector(kColumns * kTaps, t.type).randomize(3);
    add_first_rows(t, starts);
    t.matrix(5, (kTaps - 1) * kColumns, t.type).randomize(4);
    Matrix &slot = t.vector(t.rows, DType::i32), &past = t.vector(t.rows, DType::i32);
    for (std::size_t i = 0; i + 1 < starts.size(); ++i)
      for (std::int64_t r = starts[i]; r < starts[i + 1]; ++r) {
        slot.set(0, r, double(4 - i));
        past.set(0, r, double(i % 2 * 7));
      }
    t.expect_same([](Ops& ops, const Tensors& x) {
      ops.run(op::CausalConv{.y = x[0],
                             .memory = x[4],
                             .x = x[1],
                             .w = x[2].view({kColumns, kTaps}),
                             .first = x[3],
                             .slot = x[5],
                             .past = x[6]});
    });
  });
}

TEST(CudaRecurrent, DeltaGates) {
  each_packing(5, [](Trial& t, const Starts&) {
    for (const std::uint64_t seed : {1, 2, 3, 4}) t.matrix(seed);
    for (const std::uint64_t seed : {5, 6, 7, 8}) t.matrix(t.rows, t.cols, DType::f32).randomize(seed);
    for (const std::uint64_t seed : {9, 10, 11, 12}) t.vector(t.cols, DType::f32).randomize(seed);
    t.expect_same([](Ops& ops, const Tensors& x) {
      ops.run(op::DeltaGates{.g = x[4], .beta = x[5], .a = x[0], .b = x[1], .a_log = x[8], .dt_bias = x[9]});
      ops.run(op::DeltaGatesGrad{.da = x[2],
                                 .db = x[3],
                                 .da_log = x[10],
                                 .ddt_bias = x[11],
                                 .dg = x[6],
                                 .dbeta = x[7],
                                 .a = x[0],
                                 .b = x[1],
                                 .a_log = x[8],
                                 .dt_bias = x[9]});
    });
  });
}

// Memory that an operation works in. It comes from the device, because its values are not compared.
Tensor room(Ops& ops, std::vector<Buffer>& buffers, const Shape& shape) {
  buffers.push_back(ops.allocate(shape.numel() * size_of(DType::f32)));
  return {buffers.back().get(), DType::f32, shape};
}

// Heads, and sequences whose rows a test gives them.
struct DeltaCase {
  DeltaHeads heads;
  Starts starts;
};
constexpr DeltaHeads kNarrow{2, 4, 6, 10};
// Heads of more columns than a product takes at a time, with chunks that are full, or follow each other; and
// keys of so many columns that a chunk's do not fit shared memory.
const std::vector<DeltaCase> kLarge{{{1, 2, 72, 70}, {0, 64, 65, 200}}, {{1, 1, 200, 9}, {0, 5, 70}}};

// Makes q, k, v, g, beta, first.
void add_delta(Trial& t, const DeltaCase& c) {
  for (const std::uint64_t seed : {1, 2}) t.matrix(t.rows, c.heads.key_columns(), t.type).randomize(seed);
  t.matrix(t.rows, c.heads.value_columns(), t.type).randomize(3);
  Matrix &g = t.matrix(t.rows, c.heads.values, DType::f32).randomize(4),
         &beta = t.matrix(t.rows, c.heads.values, DType::f32).randomize(5);
  for (std::int64_t r = 0; r < t.rows; ++r)
    for (std::int64_t h = 0; h < c.heads.values; ++h) {
      g.set(r, h, -std::abs(g.get(r, h)) / 4);
      beta.set(r, h, std::abs(beta.get(r, h)) / 2);
    }
  add_first_rows(t, c.starts);
}

void expect_rule(Trial& t, const DeltaCase& c) {
  add_delta(t, c);
  t.matrix(t.rows, c.heads.value_columns(), t.type);
  t.matrix(5, c.heads.state(), DType::f32).randomize(7);
  Matrix &slot = t.vector(t.rows, DType::i32), &past = t.vector(t.rows, DType::i32);
  for (std::size_t i = 0; i + 1 < c.starts.size(); ++i)
    for (std::int64_t r = c.starts[i]; r < c.starts[i + 1]; ++r) {
      slot.set(0, r, double(4 - i));
      past.set(0, r, double(i % 2 * 7));
    }
  for (const bool cached : {false, true})
    t.expect_same(
        [&](Ops& ops, const Tensors& x) {
          std::vector<Buffer> buffers;
          const Tensor none;
          ops.run(op::DeltaRule{
              .o = x[6],
              .memory = cached ? x[7] : none,
              .work = room(ops, buffers, delta_work_shape(ops.device(), c.heads, t.rows, false)),
              .q = x[0],
              .k = x[1],
              .v = x[2],
              .g = x[3],
              .beta = x[4],
              .first = x[5],
              .slot = cached ? x[8] : none,
              .past = cached ? x[9] : none,
              .heads = c.heads});
          ops.synchronize();
        },
        std::max(Trial::rounding(t.type), 1e-11));
}

void expect_gradient(Trial& t, const DeltaCase& c) {
  add_delta(t, c);
  t.matrix(t.rows, c.heads.value_columns(), t.type).randomize(6);
  for (int i = 0; i < 2; ++i) t.matrix(t.rows, c.heads.key_columns(), t.type);
  t.matrix(t.rows, c.heads.value_columns(), t.type);
  for (int i = 0; i < 2; ++i) t.matrix(t.rows, c.heads.values, DType::f32);
  t.expect_same(
      [&](Ops& ops, const Tensors& x) {
        std::vector<Buffer> buffers;
        ops.run(op::DeltaRuleGrad{
            .dq = x[7],
            .dk = x[8],
            .dv = x[9],
            .dg = x[10],
            .dbeta = x[11],
            .states = room(ops, buffers, {1 + t.rows / kDeltaChunk, c.heads.state()}),
            .work = room(ops, buffers, delta_work_shape(ops.device(), c.heads, t.rows, true)),
            .o_grad = x[6],
            .q = x[0],
            .k = x[1],
            .v = x[2],
            .g = x[3],
            .beta = x[4],
            .first = x[5],
            .heads = c.heads});
        ops.synchronize();
      },
      std::max(Trial::rounding(t.type), 1e-11));
}

TEST(CudaRecurrent, DeltaRule) {
  each_packing(1, [](Trial& t, const Starts& starts) { expect_rule(t, {kNarrow, starts}); });
}

TEST(CudaRecurrent, DeltaRuleGrad) {
  each_packing(1, [](Trial& t, const Starts& starts) { expect_gradient(t, {kNarrow, starts}); });
}

TEST(CudaRecurrent, DeltaRuleOfLargeHeads) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const DeltaCase& c : kLarge) {
      SCOPED_TRACE(str(name_of(type), ", keys of ", c.heads.key_width, " columns"));
      Trial rule{type, c.starts.back()}, gradient{type, c.starts.back()};
      expect_rule(rule, c);
      expect_gradient(gradient, c);
    }
}

TEST(CudaRecurrent, DeltaRuleRefusesKeysThatFitNoBlock) {
  const DeltaHeads heads{1, 1, 1440, 1};
  Trial t{DType::f32};
  auto ops = make_cuda_ops(0, kSmall);
  add_delta(t, {heads, {0, 1}});
  std::list<OnGpu> gpu;
  Tensors x;
  for (const Matrix& m : t.made) x.push_back(gpu.emplace_back(*ops, m, 0).tensor);
  std::vector<Buffer> buffers;
  try {
    ops->run(op::DeltaRule{.o = room(*ops, buffers, {1, 1}),
                           .work = room(*ops, buffers, delta_work_shape(ops->device(), heads, 1, false)),
                           .q = x[0],
                           .k = x[1],
                           .v = x[2],
                           .g = x[3],
                           .beta = x[4],
                           .first = x[5],
                           .heads = heads});
    ADD_FAILURE() << "not refused";
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("keys of 1440 columns are too wide"), std::string::npos) << e.what();
  }
  ops->synchronize();
}

// A sequence has the same bits wherever it lies in a batch.
TEST(CudaRecurrent, DeltaRuleDoesNotDependOnOtherSequences) {
  constexpr std::int64_t kOwn = 70, kBefore = 5, kRows = 80;
  const auto run = [&](const Starts& starts, std::int64_t from) {
    Trial t{DType::f32, kRows};
    auto ops = make_cuda_ops(0, kSmall);
    add_delta(t, {kNarrow, starts});
    for (Matrix& m : t.made)  // the same rows, from another place on
      if (m.tensor.rows() == kRows)
        for (std::int64_t r = 0; r < kOwn; ++r)
          for (std::int64_t c = 0; c < m.tensor.cols(); ++c)
            m.set(from + r, c, -0.01 * double((r * 7 + c * 3) % 50));
    Matrix& o = t.matrix(kRows, kNarrow.value_columns(), DType::f32);
    std::list<OnGpu> gpu;
    Tensors x;
    for (const Matrix& m : t.made) x.push_back(gpu.emplace_back(*ops, m, 0).tensor);
    std::vector<Buffer> buffers;
    ops->run(
        op::DeltaRule{.o = x[6],
                      .work = room(*ops, buffers, delta_work_shape(ops->device(), kNarrow, kRows, false)),
                      .q = x[0],
                      .k = x[1],
                      .v = x[2],
                      .g = x[3],
                      .beta = x[4],
                      .first = x[5],
                      .heads = kNarrow});
    gpu.back().download(o);
    const auto all = o.values();
    const auto n = kNarrow.value_columns();
    return std::vector<double>(all.begin() + from * n, all.begin() + (from + kOwn) * n);
  };
  EXPECT_EQ(run({0, kOwn, kRows}, 0), run({0, kBefore, kBefore + kOwn, kRows}, kBefore));
}

}  // namespace
}  // namespace ft::cuda
