// Products with rows in FP8 on the CPU, the reference for GPUs: against the definition in double, at edges,
// in parts of rows, and with planted faults.
#include "engine/cpu/fp8_rows.h"

#include <gtest/gtest.h>

#include "engine/core/error.h"
#include "engine/cpu/cpu_ops.h"
#include "engine/ops/fp8_room.h"
#include "engine/ops/null_ops.h"
#include "tests/support/fp8_product.h"

namespace ft::cpu {
namespace {

using test::Fp8Fault;
using test::Fp8Product;
using test::nmse;

// Squared error that rounding once to the result's type may give.
double tolerance(DType type) { return type == DType::bf16 ? 6e-6 : 1e-10; }

// Returns y; `rows`: at a time.
std::vector<double> compute(Fp8Product& p, std::int64_t rows = kFp8CpuRows, int threads = 2) {
  CpuOps ops(threads);
  std::vector<Tensor> t;
  for (const test::Matrix* m : p.matrices()) t.push_back(*m);
  ops.reserve_dense(fp8_matrix_bytes(p.base(t)) + rows * fp8_row_bytes(p.depth(), p.columns()));
  p.run(t, [&](const op::Products& op) { ops.run(op); });
  EXPECT_TRUE(p.y().intact()) << "bytes between rows changed";
  return p.y().values();
}

TEST(Fp8Rows, AreThoseOfTheDefinition) {
  for (const DType type : {DType::bf16, DType::f32})
    for (const Trans tb : {Trans::yes, Trans::no})
      for (const bool one_scale : {false, true})
        for (const std::int64_t rank : {0, 8})
          for (const std::int64_t pad : {0, 3}) {
            SCOPED_TRACE(str(name_of(type), " tb ", int(tb), " one scale ", one_scale, " rank ", rank));
            Fp8Product p({37, 50, 83, tb, rank, rank > 0, one_scale, pad, type});
            EXPECT_LE(nmse(compute(p), p.expected()), tolerance(type));
          }
}

TEST(Fp8Rows, OfADenseMatrixAreThoseOfTheDefinition) {
  for (const DType type : {DType::bf16, DType::f32})
    for (const Trans tb : {Trans::yes, Trans::no})
      for (const std::int64_t pad : {0, 3}) {
        SCOPED_TRACE(str(name_of(type), " tb ", int(tb), " pad ", pad));
        Fp8Product p({37, 50, 83, tb, 8, true, false, pad, type, true});
        EXPECT_LE(nmse(compute(p), p.expected()), tolerance(type));
      }
}

TEST(Fp8Rows, OfADenseMatrixAreThoseOfItsCodes) {
  for (const Trans tb : {Trans::yes, Trans::no}) {
    Fp8Product p({37, 50, 83, tb, 0, false, false, 0, DType::f32, true});
    const std::vector<double> dense = compute(p);
    p.give_codes();
    EXPECT_EQ(compute(p), dense);
  }
}

// The inputs of q, k and v share a gradient: a product of three terms, whose matrices have room together.
TEST(Fp8Rows, OfSeveralDenseMatricesAreTheirSum) {
  constexpr std::int64_t kRows = 21, kOut = 32, kIn = 48;
  std::vector<Fp8Product> each;
  std::vector<double> want(kRows * kIn);
  for (std::uint64_t seed = 1; seed < 4; ++seed) {
    Fp8Product& p = each.emplace_back(
        Fp8Product::Size{kRows, kOut, kIn, Trans::no, 0, false, false, 0, DType::f32, true}, seed);
    const std::vector<double> one = p.expected();
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += one[i];
  }
  std::vector<Term> terms;
  for (Fp8Product& p : each) {
    std::vector<Tensor> t;
    for (const test::Matrix* m : p.matrices()) t.push_back(*m);
    terms.push_back(p.base(t));
  }
  NullOps plan;
  CpuOps ops(2);
  const op::Products sum{.y = each[0].y().tensor, .terms = terms};
  plan.run(sum);
  EXPECT_EQ(plan.dense(), 3 * fp8_matrix_bytes(terms[0]) + kRows * fp8_row_bytes(kOut, kIn));
  ops.reserve_dense(plan.dense());
  ops.run(sum);
  EXPECT_LE(nmse(each[0].y().values(), want), tolerance(DType::f32));
}

TEST(Fp8Rows, FaultsAreNoticed) {
  for (const Trans tb : {Trans::yes, Trans::no}) {
    Fp8Product p({37, 48, 80, tb, 0, true, false, 0, DType::f32});
    const std::vector<double> got = compute(p);
    for (const Fp8Fault fault : {Fp8Fault::scales_swapped, Fp8Fault::scale_of_next_row,
                                 Fp8Fault::no_saturation, Fp8Fault::no_scales, Fp8Fault::no_codes}) {
      if (fault == Fp8Fault::no_scales && tb == Trans::no) continue;  // they are in dy
      EXPECT_GT(nmse(got, p.expected(fault)), 1e-5) << int(fault);
    }
  }
}

TEST(Fp8Rows, OfRandomShapes) {
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto draw = [&](std::uint64_t which, std::int64_t most) {
      return 1 + static_cast<std::int64_t>(Random{7}.at(8 * i + which)[0] % static_cast<std::uint64_t>(most));
    };
    const Fp8Product::Size size{
        draw(0, 20),    draw(1, 40),     draw(2, 40),     draw(3, 2) == 1 ? Trans::yes : Trans::no,
        draw(4, 3) - 1, draw(5, 2) == 1, draw(6, 2) == 1, draw(7, 3) - 1};
    SCOPED_TRACE(str(size.rows, " ", size.out, " ", size.in, " tb ", int(size.tb)));
    Fp8Product p(size, 100 + i);
    EXPECT_LE(nmse(compute(p), p.expected()), 2 * tolerance(DType::bf16));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Fp8Rows, PartsOfRowsAndThreadsChangeNoBit) {
  for (const Trans tb : {Trans::yes, Trans::no}) {
    Fp8Product p({70, 96, 64, tb});
    const std::vector<double> all = compute(p);
    for (const auto& [rows, threads] : {std::pair{1, 2}, {7, 1}, {64, 3}}) {
      Fp8Product again({70, 96, 64, tb});
      EXPECT_EQ(compute(again, rows, threads), all);
    }
  }
}

// A sum that begins with y itself: the gradient of an input that several linears share.
TEST(Fp8Rows, AreAddedToY) {
  Fp8Product p({9, 32, 48, Trans::no, 0, false, false, 0, DType::f32}),
      alone({9, 32, 48, Trans::no, 0, false, false, 0, DType::f32});
  std::vector<double> want = p.y().values();
  const std::vector<double> product = alone.expected();
  for (std::size_t i = 0; i < want.size(); ++i) want[i] += 0.5 * product[i];
  CpuOps ops(1);
  std::vector<Tensor> t;
  for (const test::Matrix* m : p.matrices()) t.push_back(*m);
  ops.reserve_dense(4 * fp8_row_bytes(32, 48));
  const Term term[] = {p.base(t)};
  ops.run(op::Products{.y = t[0], .terms = term, .alpha = 0.5f, .c = t[0]});
  EXPECT_LE(nmse(p.y().values(), want), 1e-10);
}

TEST(Fp8Rows, OfRowsAtTheEdges) {
  for (const Trans tb : {Trans::yes, Trans::no}) {
    Fp8Product p({5, 20, 30, tb, 0, false});
    for (std::int64_t k = 0; k < p.depth(); ++k) {
      p.x().set(0, k, 0);
      p.x().set(1, k, k == 3 ? 1e30 : p.x().get(1, k));
      p.x().set(2, k, std::ldexp(p.x().get(2, k), -133));
      p.x().set(3, k, k == 2 ? std::nan("") : 1);
      p.x().set(4, k, k == 2 ? HUGE_VAL : 1);
    }
    const std::vector<double> got = compute(p), want = p.expected();
    const auto at = [&](std::int64_t row, std::int64_t j) {
      return static_cast<std::size_t>(row * p.columns() + j);
    };
    for (std::int64_t j = 0; j < p.columns(); ++j) {
      EXPECT_EQ(got[at(0, j)], 0);
      EXPECT_NEAR(got[at(1, j)], want[at(1, j)], std::fabs(want[at(1, j)]) / 200);
      EXPECT_LT(std::fabs(got[at(2, j)]), 1e-30);
      EXPECT_TRUE(std::isnan(got[at(3, j)]) && std::isnan(got[at(4, j)]));
    }
  }
}

// The part of dy that a row of zeros in W multiplies is huge, and costs the others no precision.
TEST(Fp8Rows, RowsOfZerosInTheMatrixDoNotCountInTheGradient) {
  constexpr std::int64_t kRows = 6, kOut = 48, kIn = 32, kZero = 7;
  Fp8Product p({kRows, kOut, kIn, Trans::no, 0, false, false, 0, DType::f32});
  for (std::int64_t k = 0; k < kIn; ++k) p.codes().set(0, kZero * kIn + k, 0);
  p.scales().set(0, kZero, fp8_scale(0));
  for (std::int64_t i = 0; i < kRows; ++i) p.x().set(i, kZero, 0x1p20);
  std::vector<double> exact;
  for (std::int64_t i = 0; i < kRows; ++i)
    for (std::int64_t k = 0; k < kIn; ++k) {
      double sum = 0;
      for (std::int64_t j = 0; j < kOut; ++j) {
        const e4m3 code{static_cast<std::uint8_t>(p.codes().get(0, j * kIn + k))};
        sum += p.x().get(i, j) * p.scales().get(0, j) * to_float(code);
      }
      exact.push_back(sum);
    }
  EXPECT_LE(nmse(compute(p), exact), 2e-3);
  p.scales().set(0, kZero, 1);
  EXPECT_GT(nmse(compute(p), exact), 0.1);  // as in folders of others
}

TEST(Fp8Rows, OtherOperandsAreMistakesOfTheProgram) {
  Fp8Product p({4, 16, 16, Trans::yes, 0, false});
  std::vector<Tensor> t;
  for (const test::Matrix* m : p.matrices()) t.push_back(*m);
  CpuOps ops(1);
  EXPECT_THROW(p.run(t, [&](const op::Products& op) { ops.run(op); }), InternalError) << "no room";
  const auto refused = [&](Term term) {
    const Term terms[] = {term};
    EXPECT_THROW((op::Products{.y = t[0], .terms = terms}).check(), InternalError);
  };
  Term term = p.base(t);
  term.fp8 = {};
  term.int8 = {{16, 16}, t[2].view({256}), Tensor(t[3].data, DType::f32, {int8_blocks(256)})};
  refused(term);
  term = p.base(t);
  term.fp8.scheme = kFp8Blocks;
  refused(term);
  term = p.base(t);
  term.ta = Trans::yes;
  refused(term);
}

}  // namespace
}  // namespace ft::cpu
