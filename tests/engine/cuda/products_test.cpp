// Sums of products of the CUDA backend against the CPU's: every transposition, several terms, residuals,
// biases, the loss of small terms in rounding, weights in 4 bits in parts.
#include "engine/formats/four_bit.h"
#include "engine/formats/fp8.h"
#include "tests/engine/cuda/both.h"
#include "tests/support/adapter_share.h"

namespace ft::cuda {
namespace {

struct Dims {
  std::int64_t m, n, k;
};
const std::vector<Dims> kDims{{1, 1, 1}, {3, 5, 7}, {16, 8, 32}, {33, 70, 19}};

template <class Test>
void each_shape(Test run) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const Dims d : kDims)
      for (const Trans ta : {Trans::no, Trans::yes})
        for (const Trans tb : {Trans::no, Trans::yes})
          for (const auto& [pad, offset] : {std::pair{0, 0}, {3, 1}}) {
            SCOPED_TRACE(str(name_of(type), " ", d.m, " ", d.n, " ", d.k, " ta ", int(ta), " tb ", int(tb),
                             " pad ", pad));
            Trial t{type, d.m, d.n, pad, offset};
            run(t, d, ta, tb);
            if (testing::Test::HasFailure()) return;
          }
}

void operands(Trial& t, Dims d, Trans ta, Trans tb, std::uint64_t seed) {
  const bool a = ta == Trans::yes, b = tb == Trans::yes;
  t.matrix(a ? d.k : d.m, a ? d.m : d.k, t.type).randomize(seed);
  t.matrix(b ? d.n : d.k, b ? d.k : d.n, t.type).randomize(seed + 1);
}

TEST(CudaProducts, OneTerm) {
  each_shape([](Trial& t, Dims d, Trans ta, Trans tb) {
    t.matrix(1);
    operands(t, d, ta, tb, 2);
    t.expect_same([=](Ops& ops, const Tensors& x) { product(ops, x[0], {x[1], ta, x[2], tb}, 0.5f); });
  });
}

TEST(CudaProducts, SeveralTermsAndAResidual) {
  each_shape([](Trial& t, Dims d, Trans ta, Trans tb) {
    t.matrix(1);
    operands(t, d, ta, tb, 2);
    operands(t, {d.m, d.n, 3}, tb, ta, 4);
    t.matrix(6);
    t.expect_same(
        [=](Ops& ops, const Tensors& x) {
          const Term terms[] = {{x[1], ta, x[2], tb}, {x[3], tb, x[4], ta}};
          ops.run(op::Products{.y = x[0], .terms = terms, .c = x[5]});
          ops.run(op::Products{.y = x[0], .terms = terms, .alpha = 0.25f, .c = x[0]});
        },
        10 * t.rounding(t.type));  // the sum is rounded between terms
  });
}

TEST(CudaProducts, GradientsInF32OfNarrowOperands) {
  each_shape([](Trial& t, Dims d, Trans ta, Trans tb) {
    t.matrix(d.m, d.n, DType::f32).randomize(1);
    operands(t, d, ta, tb, 2);
    t.expect_same(
        [=](Ops& ops, const Tensors& x) {
          product(ops, x[0], {x[1], ta, x[2], tb}, 1, x[0]);
        },
        1e-12);
  });
}

TEST(CudaProducts, NoRowsAddNothing) {
  Trial t{DType::bf16};
  t.matrix(5, 7, DType::f32).randomize(1);
  t.matrix(5, 7, DType::f32);
  t.matrix(5, 7, DType::f32).randomize(2);
  t.matrix(5, 7, DType::f32);
  t.expect_same(
      [](Ops& ops, const Tensors& x) {
        const Tensor dy(x[0].data, DType::bf16, {0, 5}), in(x[0].data, DType::bf16, {0, 7});
        product(ops, x[0], {dy, Trans::yes, in, Trans::no}, 1, x[0]);
        product(ops, x[1], {dy, Trans::yes, in, Trans::no}, 1, x[2]);
        product(ops, x[3], {dy, Trans::yes, in, Trans::no});
      },
      0);
}

TEST(CudaProducts, ABiasForEveryRow) {
  for (const bool narrow : {false, true})
    each_shape([narrow](Trial& t, Dims d, Trans ta, Trans tb) {
      if (t.type == DType::f32 && narrow) return;
      const DType bias = narrow ? t.type : DType::f32;
      t.matrix(d.m, d.n, bias);
      operands(t, d, ta, tb, 2);
      t.vector(d.n, bias).randomize(4);
      t.expect_same(
          [=](Ops& ops, const Tensors& x) {
            product(ops, x[0], {x[1], ta, x[2], tb}, 1, x[3].view({x[3].cols()}));
          },
          10 * t.rounding(t.type));
    });
}

// cuBLASLt rounds a product before it adds y to it. With an adapter of 0.001 in bf16, 0.80 to 0.82 of it
// arrived on an H200.
TEST(CudaProducts, AsMuchOfAnAdapterArrivesAsInPeftsOrder) {
  for (const DType type : {DType::bf16, DType::f16})
    for (const bool bias : {false, true})
      for (const double c : {1.0, 4.0})
        for (const double adapter : {1e-3, 3e-3}) {
          SCOPED_TRACE(str(name_of(type), " c ", c, " adapter ", adapter, " bias ", bias));
          test::AdapterShare share({.c = c, .adapter = adapter, .type = type, .bias = bias});
          auto ops = make_cuda_ops(0, kSmall);
          std::list<OnGpu> gpu;
          Tensors tensors;
          for (const Matrix* m : share.matrices()) tensors.push_back(gpu.emplace_back(*ops, *m, 0).tensor);
          share.run(tensors, [&](const op::Products& products) { ops->run(products); });
          gpu.front().download(*share.matrices()[0]);
          EXPECT_GE(share.of_y(), share.in_pefts_order() - 0.01);
        }
}

// `room`: bytes for a dense matrix; 0: as in kSmall.
void multiply_in_four_bits(const std::vector<std::pair<std::int64_t, std::int64_t>>& shapes,
                           std::int64_t room) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const auto& [out, in] : shapes)
      for (const FourBitBook book : {FourBitBook::nf4, FourBitBook::fp4})
        for (const bool nested : {false, true})
          for (const Trans tb : {Trans::yes, Trans::no}) {
            SCOPED_TRACE(str(name_of(type), " ", out, " x ", in, " ", name_of(book), " nested ", nested,
                             " tb ", int(tb)));
            Matrix w(out, in, DType::f32);
            w.randomize(3);
            std::vector<float> values;
            for (const double v : w.values()) values.push_back(static_cast<float>(v));
            const FourBitForm form{book, 32, nested};
            const FourBitData q = quantize(values, form);
            Trial t{type, 9, tb == Trans::yes ? out : in};
            t.matrix(1);
            t.matrix(9, tb == Trans::yes ? in : out, type).randomize(2);
            const auto bytes = [&](const auto& from, DType as) {
              const auto n = static_cast<std::int64_t>(from.size());
              Matrix& m = t.vector(n, as);
              if (n > 0) std::memcpy(m.tensor.data, from.data(), from.size() * sizeof from[0]);
            };
            bytes(q.codes, DType::u8);
            if (nested)
              bytes(q.absmax_codes, DType::u8);
            else
              bytes(q.absmax, DType::f32);
            bytes(q.nested_absmax, DType::f32);
            bytes(std::vector<float>{q.nested_offset}, DType::f32);
            t.expect_same([=, shape = Shape{out, in}](Ops& ops, const Tensors& x) {
              ops.reserve_dense(room);
              const auto flat = [](const Tensor& v) { return v.view({v.numel()}); };
              const FourBitMatrix m{form,
                                    shape,
                                    flat(x[2]),
                                    flat(x[3]),
                                    nested ? flat(x[4]) : Tensor{},
                                    nested ? flat(x[5]) : Tensor{}};
              product(ops, x[0], {x[1], Trans::no, {}, tb, m});
            });
          }
}

TEST(CudaProducts, WeightsInFourBitsAreMadeDenseInParts) {
  multiply_in_four_bits({{40, 96}, {33, 71}, {7, 200}}, 0);
  multiply_in_four_bits({{40, 1056}}, 8 * 1056 * 4);  // parts of columns begin with a block
}

// A matrix in one piece: rows of full packs and others, and matrices larger than one thread block's part.
TEST(CudaProducts, WeightsInFourBitsAreMadeDenseAtOnce) {
  multiply_in_four_bits({{40, 96}, {33, 71}, {7, 200}, {60, 160}}, 1 << 16);
}

// Weights in FP8 of every scheme: rows that are read 16 bytes at a time and others, in one piece (room 0: the
// usual) or in parts of rows or columns.
TEST(CudaProducts, WeightsInFp8AreMadeDense) {
  for (const std::int64_t room : {std::int64_t{0}, std::int64_t{8} * 160 * 4, std::int64_t{1} << 18})
    for (const DType type : {DType::f32, DType::bf16, DType::f16})
      for (const auto& [out, in] : {std::pair<std::int64_t, std::int64_t>{40, 96}, {33, 71}, {140, 160}})
        for (const Fp8Scheme scheme : {kFp8Channels, kFp8Blocks, kFp8Tensor})
          for (const Trans tb : {Trans::yes, Trans::no}) {
            SCOPED_TRACE(str(name_of(type), " ", out, " x ", in, " tiles of ", scheme.rows, " room ", room,
                             " tb ", int(tb)));
            Trial t{type, 9, tb == Trans::yes ? out : in};
            t.matrix(1);
            t.matrix(9, tb == Trans::yes ? in : out, type).randomize(2);
            auto* codes = t.vector(out * in, DType::u8).tensor.as<std::uint8_t>();
            for (std::int64_t i = 0; i < out * in; ++i) {
              codes[i] = static_cast<std::uint8_t>(Random{3}.at(std::uint64_t(i))[0]);
              if (is_nan(e4m3{codes[i]})) codes[i] = 1;
            }
            Matrix& scales = t.vector(scheme.scales(out, in), DType::f32).randomize(4);
            std::vector<double> small = scales.values();
            for (double& v : small) v /= 448;
            scales.assign(small);
            t.expect_same([=, shape = Shape{out, in}](Ops& ops, const Tensors& x) {
              ops.reserve_dense(room);
              const auto flat = [](const Tensor& v) { return v.view({v.numel()}); };
              Term term{x[1], Trans::no, {}, tb};
              term.fp8 = {scheme, shape, flat(x[2]), flat(x[3])};
              product(ops, x[0], term);
            });
          }
}

TEST(CudaProducts, GradientsOfNarrowMatrices) {
  each_shape([](Trial& t, Dims d, Trans, Trans) {
    for (const DType grad : {DType::f32, t.type}) {
      t.made.clear();
      t.matrix(d.m, d.k, t.type);
      t.matrix(d.n, d.k, grad).randomize(1);
      t.matrix(d.m, d.n, t.type).randomize(2);
      t.matrix(d.n, d.k, t.type).randomize(3);
      t.matrix(d.m, d.k, t.type).randomize(4);
      t.expect_same([](Ops& ops, const Tensors& x) {
        ops.run(op::NarrowGrad{.du = x[0], .db = x[1], .dy = x[2], .b = x[3], .u = x[4], .alpha = 0.5f});
      });
    }
  });
}

TEST(CudaProducts, GradientsOfNarrowMatricesInOneReadOnHopper) {
  for (const DType type : {DType::bf16, DType::f16})
    for (const Dims d : {Dims{200, 520, 16}, Dims{40, 72, 32}}) {
      Trial t{type, 1, 1, 8};
      t.sizes.products = ProductKernels::own;
      t.sizes.delta = 1 << 20;
      set_capability(9);
      t.matrix(d.m, d.k, type);
      t.matrix(d.n, d.k, DType::f32).randomize(1);
      t.matrix(d.m, d.n, type).randomize(2);
      t.matrix(d.n, d.k, type).randomize(3);
      t.matrix(d.m, d.k, type).randomize(4);
      t.expect_same([](Ops& ops, const Tensors& x) {
        ops.run(op::NarrowGrad{.du = x[0], .db = x[1], .dy = x[2], .b = x[3], .u = x[4], .alpha = 0.5f});
      });
      set_capability(8);
    }
}

// Two weights in 4 bits and an adapter in one sum, computed for a few columns of the result at a time.
TEST(CudaProducts, SeveralWeightsInFourBitsInOnePassOnHopper) {
  constexpr std::int64_t kOut = 48, kIn = 96, kRows = 9, kRank = 16;
  for (const Trans tb : {Trans::yes, Trans::no}) {
    const bool rows = tb == Trans::yes;
    const Shape shape = rows ? Shape{kOut, kIn} : Shape{kIn, kOut};
    const FourBitForm form{FourBitBook::nf4, 32, false};
    Trial t{DType::bf16, kRows, kOut};
    t.sizes.products = ProductKernels::own;
    set_capability(9);
    t.matrix(1);
    for (const std::uint64_t seed : {2, 3}) {
      t.matrix(kRows, kIn, t.type).randomize(seed);
      Matrix w(shape[0], shape[1], DType::f32);
      w.randomize(seed + 2);
      std::vector<float> values;
      for (const double v : w.values()) values.push_back(static_cast<float>(v));
      const FourBitData q = quantize(values, form);
      std::memcpy(t.vector(std::ssize(q.codes), DType::u8).tensor.data, q.codes.data(), q.codes.size());
      std::memcpy(t.vector(std::ssize(q.absmax), DType::f32).tensor.data, q.absmax.data(),
                  q.absmax.size() * 4);
    }
    t.matrix(kRows, kRank, t.type).randomize(6);
    t.matrix(rows ? kOut : kRank, rows ? kRank : kOut, t.type).randomize(7);
    t.expect_same(
        [=](Ops& ops, const Tensors& x) {
          const auto flat = [](const Tensor& v) { return v.view({v.numel()}); };
          const auto weight = [&](std::size_t at) {
            return FourBitMatrix{form, shape, flat(x[at]), flat(x[at + 1]), {}, {}};
          };
          const Term terms[] = {{x[1], Trans::no, {}, tb, weight(2)},
                                {x[4], Trans::no, {}, tb, weight(5)},
                                {x[7], Trans::no, x[8], tb}};
          ops.run(op::Products{.y = x[0], .terms = terms});
        },
        10 * t.rounding(t.type));
    set_capability(8);
  }
}

// With whole numbers, sums in f32 are exact, and sums in 16 bits are rounded once.
TEST(CudaProducts, InOnePassOnHopper) {
  for (const DType type : {DType::bf16, DType::f16})
    for (const auto& [ta, tb] :
         {std::pair{Trans::no, Trans::yes}, {Trans::no, Trans::no}, {Trans::yes, Trans::no}})
      for (const Dims d : {Dims{136, 264, 80}, Dims{40, 520, 24}}) {
        SCOPED_TRACE(str(name_of(type), " ", d.m, " ", d.n, " ta ", int(ta), " tb ", int(tb)));
        Trial t{type, d.m, d.n, 8};
        t.sizes.products = ProductKernels::own;
        set_capability(9);
        t.matrix(d.m, d.n, DType::f32);
        operands(t, d, ta, tb, 2);
        operands(t, {d.m, d.n, 16}, ta, tb, 4);
        t.matrix(d.m, d.n, DType::f32).randomize(6);
        t.matrix(d.m, d.n, type);
        t.vector(d.n, type).randomize(7);
        for (Matrix& m : t.made) {
          std::vector<double> whole = m.values();
          for (double& v : whole) v = std::round(2 * v);
          m.assign(whole);
        }
        t.expect_same(
            [=, ta = ta, tb = tb](Ops& ops, const Tensors& x) {
              const Term terms[] = {{x[1], ta, x[2], tb}, {x[3], ta, x[4], tb}};
              ops.run(op::Products{.y = x[0], .terms = terms, .alpha = 0.5f, .c = x[5]});
              ops.run(op::Products{.y = x[0], .terms = terms, .c = x[0]});
              ops.run(op::Products{.y = x[6], .terms = terms, .c = x[7].view({d.n})});
            },
            t.rounding(type));
        set_capability(8);
      }
}

}  // namespace
}  // namespace ft::cuda
