// NullOps checks arguments as every backend does, and gives memory of any size.
#include "engine/ops/null_ops.h"

#include <gtest/gtest.h>

namespace ft {
namespace {

TEST(NullOps, GivesAddressesToArenasOfAnySize) {
  NullOps ops;
  const std::int64_t petabyte = std::int64_t{1} << 50;
  Arena arena(ops.allocate(petabyte), petabyte);
  const Tensor a = arena.take({std::int64_t{1} << 40, 64}, DType::f32), b = arena.take({3}, DType::bf16);
  EXPECT_TRUE(a);
  EXPECT_NE(a.data, b.data);
  EXPECT_EQ(arena.peak(), (std::int64_t{1} << 48) + Arena::kAlign);
  EXPECT_EQ(ops.allocated(), petabyte);
}

TEST(NullOps, AnswersForTheDeviceItStandsFor) {
  EXPECT_EQ(NullOps({Device::Kind::cuda, 2}).device(), (Device{Device::Kind::cuda, 2}));
}

// A plan of experts spreads rows evenly, and a step may give one of them more: a GPU's room does not depend
// on the rows.
TEST(NullOps, RoomForRowsInFp8IsEnoughForAnyNumberOfRows) {
  constexpr std::int64_t kOut = 48, kIn = 32;
  NullOps ops({Device::Kind::cuda, 0});
  Arena arena(ops.allocate(std::int64_t{1} << 40), std::int64_t{1} << 40);
  const Fp8Matrix w{
      kFp8Tensor, {kOut, kIn}, arena.take({kOut * kIn}, DType::u8), arena.take({1}, DType::f32)};
  const auto term = [&](std::int64_t rows) {
    Term t{arena.take({rows, kOut}, DType::bf16), Trans::no, {}, Trans::no};
    t.fp8 = w;
    t.fp8_rows = true;
    return t;
  };
  product(ops, arena.take({2, kIn}, DType::bf16), term(2));
  for (const std::int64_t rows : {std::int64_t{3}, Fp8Room::kRows, 2 * Fp8Room::kRows})
    EXPECT_GE(ops.dense(), Fp8Room(term(rows)).bytes) << rows;
}

// A GPU makes the largest matrix in 4 bits dense, padded to eight rows and columns, or a part of it.
TEST(NullOps, KnowsTheLargestMatrixThatIsMadeDense) {
  const auto dense = [](Device device, std::int64_t out, std::int64_t in) {
    NullOps ops(device);
    Arena arena(ops.allocate(std::int64_t{1} << 40), std::int64_t{1} << 40);
    for (const std::int64_t rows : {out, std::int64_t{2}}) {
      const FourBitMatrix w{{FourBitBook::nf4, 64, false},
                            {rows, in},
                            arena.take({(rows * in + 1) / 2}, DType::u8),
                            arena.take({(rows * in + 63) / 64}, DType::f32),
                            {},
                            {}};
      product(ops, arena.take({3, rows}, DType::bf16),
              {arena.take({3, in}, DType::bf16), Trans::no, {}, Trans::yes, w});
    }
    return ops.dense();
  };
  const Device gpu{Device::Kind::cuda, 0};
  EXPECT_EQ(dense(gpu, 5, 9), 8 * 16 * 2);
  EXPECT_EQ(dense(gpu, 11008, 4096), 11008 * 4096 * 2);
  EXPECT_EQ(dense(gpu, 100000, 8192), 160 << 20);
  EXPECT_EQ(dense({}, 5, 9), 0);
}

// Rows in a GPU's arena begin at lines of 128 bytes.
TEST(NullOps, MakeArenasThatPadRowsAsTheirDevice) {
  NullOps cpu, gpu({Device::Kind::cuda});
  Arena of_cpu = make_arena(cpu, 1 << 20), of_gpu = make_arena(gpu, 1 << 20);
  EXPECT_EQ(of_cpu.take_padded(2, 2048, DType::bf16).stride, 2048 + 32);
  EXPECT_EQ(of_gpu.take_padded(2, 2048, DType::bf16).stride, 2048 + 64);
  EXPECT_EQ(of_gpu.take_padded(2, 2050, DType::bf16).stride, 2050);
  Arena dense(gpu.allocate(1 << 20), 1 << 20, 0);
  EXPECT_EQ(dense.take_padded(2, 2048, DType::bf16).stride, 2048);
}

// Returns the text of the error that a call throws.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const InternalError& e) {
    return std::string(e.what()).substr(0, std::string(e.what()).find(" ("));
  }
  return "";
}

TEST(NullOps, ChecksShapesLikeEveryBackend) {
  NullOps ops;
  Arena arena(ops.allocate(1 << 20), 1 << 20);
  const auto f32 = [&](std::int64_t r, std::int64_t c) { return arena.take({r, c}, DType::f32); };
  const auto bf = [&](std::int64_t r, std::int64_t c) { return arena.take({r, c}, DType::bf16); };
  const Tensor y = f32(4, 6), a = f32(4, 8), b = f32(6, 8), i32 = arena.take({4}, DType::i32);
  EXPECT_EQ(error_of([&] { product(ops, y, {a, Trans::no, b, Trans::yes}); }), "");
  EXPECT_EQ(error_of([&] {
              product(ops, y, {a, Trans::no, b, Trans::no});
            }),
            "products: op(b) has not the columns of y");
  EXPECT_EQ(error_of([&] {
              product(ops, y, {a, Trans::no, bf(6, 8), Trans::yes});
            }),
            "products: operands differ in type");
  EXPECT_EQ(error_of([&] {
              product(ops, bf(4, 6), {a, Trans::no, b, Trans::yes});
            }),
            "products: y is neither f32 nor of the operands' type");
  EXPECT_EQ(error_of([&] {
              product(ops, y, {a, Trans::no, b, Trans::yes}, 1, f32(4, 5));
            }),
            "products: c and y differ");
  EXPECT_EQ(error_of([&] { ops.run(op::Add{y, a}); }), "add: y and x differ in shape");
  EXPECT_EQ(error_of([&] { ops.run(op::Add{y, bf(4, 6)}); }), "");
  EXPECT_EQ(error_of([&] { ops.run(op::Gated{.f = Activation::silu, .y = y, .gate = y, .up = a}); }),
            "gated: y, gate and up differ");
  EXPECT_EQ(error_of([&] { ops.run(op::Dropout{.y = y, .x = y, .p = 1}); }), "dropout: p is not in [0, 1)");
  EXPECT_EQ(error_of([&] { ops.run(op::Add{.y = y, .x = y, .drop = {.p = 1}}); }),
            "dropout: p is not in [0, 1)");
  EXPECT_EQ(error_of([&] { ops.run(op::Add{.y = y, .x = y, .drop = {.p = 0.1f, .columns = 5}}); }),
            "dropout: columns beyond those of the whole");
  EXPECT_EQ(
      error_of([&] {
        ops.run(op::Rope{.x = y, .cos = f32(9, 1), .sin = f32(9, 1), .positions = i32, .head_width = 1});
      }),
      "rope: cos and sin are not");
  EXPECT_EQ(error_of([&] {
              ops.run(op::RmsNorm{.y = y, .rstd = f32(1, 5), .x = y, .w = f32(1, 6), .eps = 1e-5f});
            }),
            "rms_norm: rstd is not one f32 for every row");
  EXPECT_EQ(
      error_of([&] { ops.run(op::CrossEntropy{.loss = f32(1, 4), .logits = y, .targets = f32(1, 4)}); }),
      "cross_entropy: targets is not one i32 for every row");
  const std::vector<std::int32_t> starts{0, 3};
  EXPECT_EQ(error_of([&] {
              ops.run(op::Attention{.y = f32(4, 8),
                                    .lse = f32(2, 4),
                                    .q = a,
                                    .k = f32(4, 4),
                                    .v = f32(4, 4),
                                    .heads = {2, 1, 4},
                                    .mask = {.starts = starts}});
            }),
            "attention: the sequences do not cover the rows");
  EXPECT_EQ(error_of([&] { ops.download(nullptr, a.columns(0, 3)); }),
            "upload, download: the tensor is not dense");
  EXPECT_EQ(error_of([&] {
              ops.run(op::SumSquares{arena.take({1}, DType::f32), a});
            }),
            "sum, sum_squares: y is not one f64");
}

}  // namespace
}  // namespace ft
