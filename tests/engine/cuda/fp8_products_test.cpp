// Products of rows in FP8 on the CUDA backend: against the definition in double, at edges, in parts of rows.
#include "engine/cuda/gpu.h"
#include "engine/ops/fp8_room.h"
#include "engine/ops/null_ops.h"
#include "tests/engine/cuda/both.h"
#include "tests/support/fp8_product.h"

namespace ft::cuda {
namespace {

using test::Fp8Fault;
using test::Fp8Product;

// True on a GPU that has the products; on the host the GPU is made Hopper.
bool on_hopper() {
  set_capability(9);
  return gpu_of(*make_cuda_ops(0, kSmall)).capability() == 9;
}

class CudaFp8Products : public testing::Test {
 protected:
  void SetUp() override {
    if (!on_hopper()) GTEST_SKIP() << "needs a GPU of compute capability 9.0";
  }
  void TearDown() override { set_capability(8); }

  // Computes y on the GPU in every order of threads, which must not matter, with this much room; 0: as
  // planned.
  static std::vector<double> compute(Fp8Product& p, std::int64_t room = 0) {
    std::vector<Matrix> results;
    for (int order = 0; order < kOrders; ++order) {
      set_order(order);
      auto ops = make_cuda_ops(0, kSmall);
      std::list<OnGpu> gpu;
      Tensors t;
      for (const Matrix* m : p.matrices()) t.push_back(gpu.emplace_back(*ops, *m, 0).tensor);
      ops->reserve_dense(room > 0 ? room : Fp8Room(p.base(t)).bytes);
      p.run(t, [&](const op::Products& op) { ops->run(op); });
      const Tensor& y = p.y().tensor;
      gpu.front().download(results.emplace_back(y.rows(), y.cols(), y.dtype, y.stride - y.cols()));
      EXPECT_TRUE(results.back().intact()) << "bytes between rows changed";
      EXPECT_TRUE(results.back().same_bytes(results.front())) << "the order of threads matters";
    }
    set_order(0);
    return results.front().values();
  }
  // Squared error that rounding to the type of y may give: y is rounded once for each term, and c. Sums of
  // the forward pass have at least 14 bits.
  static double tolerance(DType type) { return type == DType::bf16 ? 3e-5 : 1e-6; }
};

TEST_F(CudaFp8Products, AreThoseOfTheDefinition) {
  for (const Trans tb : {Trans::yes, Trans::no})
    for (const bool one_scale : {false, true})
      for (const std::int64_t rank : {0, 8})
        for (const std::int64_t pad : {0, 8, 24}) {
          SCOPED_TRACE(str("tb ", int(tb), " one scale ", one_scale, " rank ", rank, " pad ", pad));
          Fp8Product p({37, 48, 80, tb, rank, rank > 0, one_scale, pad});
          EXPECT_LE(nmse(compute(p), p.expected()), tolerance(DType::bf16));
        }
}

TEST_F(CudaFp8Products, OfADenseMatrixAreThoseOfTheDefinitionAndOfItsCodes) {
  for (const Trans tb : {Trans::yes, Trans::no})
    for (const std::int64_t pad : {0, 8}) {
      SCOPED_TRACE(str("tb ", int(tb), " pad ", pad));
      Fp8Product p({37, 48, 144, tb, 8, true, false, pad, DType::bf16, true});
      const std::vector<double> dense = compute(p);
      EXPECT_LE(nmse(dense, p.expected()), tolerance(DType::bf16));
      p.give_codes();
      EXPECT_EQ(compute(p), dense);
    }
}

TEST_F(CudaFp8Products, InF32OnlyFaultsShow) {
  for (const Trans tb : {Trans::yes, Trans::no}) {
    Fp8Product p({37, 48, 80, tb, 0, true, false, 4, DType::f32});
    EXPECT_LE(nmse(compute(p), p.expected()), tolerance(DType::f32));
    for (const Fp8Fault fault : {Fp8Fault::scales_swapped, Fp8Fault::scale_of_next_row,
                                 Fp8Fault::no_saturation, Fp8Fault::no_scales, Fp8Fault::no_codes}) {
      if (fault == Fp8Fault::no_scales && tb == Trans::no) continue;  // they are in dy
      EXPECT_GT(nmse(compute(p), p.expected(fault)), 10 * tolerance(DType::f32)) << int(fault);
    }
  }
}

TEST_F(CudaFp8Products, OfRandomShapes) {
  for (std::uint64_t i = 0; i < 60; ++i) {
    const auto draw = [&](std::uint64_t which, std::int64_t most) {
      return 1 + static_cast<std::int64_t>(Random{11}.at(8 * i + which)[0] % most);
    };
    const Fp8Product::Size size{
        draw(0, 70),    16 * draw(1, 9), 16 * draw(2, 9), draw(3, 2) == 1 ? Trans::yes : Trans::no,
        draw(4, 3) - 1, draw(5, 2) == 1, draw(6, 2) == 1, 8 * (draw(7, 3) - 1)};
    SCOPED_TRACE(str(size.rows, " ", size.out, " ", size.in, " tb ", int(size.tb)));
    Fp8Product p(size, 100 + i);
    EXPECT_LE(nmse(compute(p), p.expected()), tolerance(DType::bf16));
    if (HasFailure()) return;
  }
}

// Rows of zeros, of one huge value, of subnormal numbers; matrices wider and higher than a tile.
TEST_F(CudaFp8Products, OfRowsAtTheEdges) {
  for (const Trans tb : {Trans::yes, Trans::no}) {
    Fp8Product p({6, 272, 144, tb, 0, false});
    for (std::int64_t k = 0; k < p.depth(); ++k) {
      p.x().set(0, k, 0);
      p.x().set(1, k, k == 3 ? 1e30 : p.x().get(1, k));
      p.x().set(2, k, std::ldexp(p.x().get(2, k), -133));
      p.x().set(3, k, std::ldexp(p.x().get(3, k), -120));
    }
    const std::vector<double> got = compute(p), want = p.expected();
    const auto row = [&](const std::vector<double>& all, std::int64_t r) {
      const auto begin = all.begin() + r * p.columns();
      return std::vector<double>(begin, begin + p.columns());
    };
    for (const double v : row(got, 0)) EXPECT_EQ(v, 0);
    for (const std::int64_t r : {1, 4, 5})
      EXPECT_LE(nmse(row(got, r), row(want, r)), tolerance(DType::bf16)) << r;
    for (const std::int64_t r : {2, 3})
      for (const double v : row(got, r)) EXPECT_LT(std::fabs(v), 1e-30);
  }
}

TEST_F(CudaFp8Products, RowsThatAreNotFiniteBecomeNaN) {
  for (const Trans tb : {Trans::yes, Trans::no})
    for (const double bad : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
      Fp8Product p({3, 16, 32, tb, 0, false});
      p.x().set(1, 5, bad);
      const std::vector<double> got = compute(p);
      for (std::int64_t i = 0; i < std::ssize(got); ++i)
        EXPECT_EQ(std::isnan(got[static_cast<std::size_t>(i)]), i / p.columns() == 1);
    }
}

TEST_F(CudaFp8Products, WideRowsAreReadInSeveralStretches) {
  Fp8Product p({2, 16, 16 * 1100, Trans::yes, 0, false});
  EXPECT_LE(nmse(compute(p), p.expected()), tolerance(DType::bf16));
}

TEST_F(CudaFp8Products, MoreRowsThanThereIsRoomForAreComputedInParts) {
  Fp8Product p({Fp8Room::kRows + 3, 16, 16, Trans::no, 0, false});
  EXPECT_LE(nmse(compute(p), p.expected()), tolerance(DType::bf16));
}

// An expert may get more rows than the even share that a plan counts.
TEST_F(CudaFp8Products, MoreRowsThanPlannedHaveRoom) {
  for (const Trans tb : {Trans::yes, Trans::no}) {
    Fp8Product planned({2, 48, 80, tb, 0, false}), p({70, 48, 80, tb, 0, false});
    NullOps plan({Device::Kind::cuda, 0});
    Tensors t;
    for (const Matrix* m : planned.matrices()) t.push_back(*m);
    planned.run(t, [&](const op::Products& op) { plan.run(op); });
    EXPECT_LE(nmse(compute(p, plan.dense()), p.expected()), tolerance(DType::bf16));
  }
}

TEST_F(CudaFp8Products, AreRefusedForOtherSizes) {
  for (const auto& [out, in] : {std::pair{24, 16}, {16, 40}}) {
    Fp8Product p({3, out, in, Trans::yes, 0, false});
    try {
      compute(p);
      ADD_FAILURE() << "not refused";
    } catch (const UserError& e) {
      EXPECT_EQ(std::string(e.what()), str("training.fp8: products in FP8 of this GPU need sizes that are "
                                           "multiples of 16, and a weight is ",
                                           out, " x ", in, "; set training.fp8=false"));
    }
  }
}

TEST(CudaFp8Refusal, OtherGpusThanHopperHaveNoSuchProducts) {
  set_capability(8);
  if (gpu_of(*make_cuda_ops(0, kSmall)).capability() == 9) GTEST_SKIP() << "this GPU has them";
  CudaWorkspace workspace = kSmall;
  workspace.fp8_rows = true;
  try {
    make_cuda_ops(0, workspace);
    ADD_FAILURE() << "not refused";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::hardware);
    EXPECT_NE(std::string(e.what()).find("need a GPU of compute capability 9.0 (Hopper)"), std::string::npos);
  }
}

}  // namespace
}  // namespace ft::cuda
