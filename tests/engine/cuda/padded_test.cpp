// Data for cuDNN's attention: rows padded per sequence and back, and the bias of all pairs.
#include "engine/cuda/gpu.h"
#include "engine/cuda/kernels/kernels.h"
#include "tests/engine/cuda/both.h"

namespace ft::cuda {
namespace {

constexpr std::int64_t kHeads = 3, kRows = 600, kBound = 290, kBatch = 4;
const std::vector<double> kFirst{5, 40, 330, 590}, kCount{1, 290, 257, 0};  // the last sequence is empty

// Row `row` of sequence s and head h, padded to kBound rows. pad_rows fills in `padded`, unpad_rows fills in
// `packed`.
struct PaddedNumbers {
  Matrix packed{kHeads, kRows, DType::f32}, padded{kBatch * kHeads, kBound, DType::f32};
  Matrix first{1, kBatch, DType::i32}, count{1, kBatch, DType::i32};
  PaddedNumbers() {
    first.assign(kFirst);
    count.assign(kCount);
  }
  void run(int order, bool into) {
    set_order(order);
    const auto ops = make_cuda_ops(0, kSmall);
    const OnGpu a(*ops, packed, 0), b(*ops, padded, 0), c(*ops, first, 0), d(*ops, count, 0);
    (into ? pad_rows : unpad_rows)(gpu_of(*ops).stream(),
                                   {a.tensor.as<float>(), kRows, b.tensor.as<float>(), kBatch, kHeads, kBound,
                                    c.tensor.as<std::int32_t>(), d.tensor.as<std::int32_t>()});
    a.download(packed);
    b.download(padded);
    set_order(0);
  }
};

TEST(CudaPadded, RowsGoToTheirSequenceAndBack) {
  for (int order = 0; order < kOrders; ++order) {
    PaddedNumbers n;
    n.packed.randomize(1);
    const std::vector<double> all = n.packed.values();
    n.run(order, true);
    for (std::size_t s = 0; s < kBatch; ++s)
      for (std::int64_t h = 0; h < kHeads; ++h)
        for (std::int64_t row = 0; row < kBound; ++row) {
          const bool there = double(row) < kCount[s];
          const double want = there ? n.packed.get(h, std::int64_t(kFirst[s]) + row) : 0;
          ASSERT_EQ(n.padded.get(std::int64_t(s) * kHeads + h, row), want) << s << " " << h << " " << row;
        }
    // Rows that belong to no sequence stay unchanged; padding is not read.
    n.packed.randomize(2);
    const std::vector<double> before = n.packed.values();
    n.run(order, false);
    for (std::int64_t h = 0; h < kHeads; ++h)
      for (std::int64_t row = 0; row < kRows; ++row) {
        bool there = false;
        for (std::size_t s = 0; s < kBatch; ++s)
          there = there || (double(row) >= kFirst[s] && double(row) < kFirst[s] + kCount[s]);
        const auto i = static_cast<std::size_t>(h * kRows + row);
        ASSERT_EQ(n.packed.get(h, row), there ? all[i] : before[i]) << h << " " << row;
      }
  }
}

TEST(CudaPadded, BiasIsThatOfEachPairsDistance) {
  constexpr std::int64_t kReach = 20, kQueries = 70, kKeys = 136;
  for (const DType type : {DType::bf16, DType::f16})
    for (int order = 0; order < kOrders; ++order) {
      Matrix bias(2 * kReach + 1, kHeads, type, 2), y(kHeads * kQueries, kKeys, type);
      bias.randomize(7);
      set_order(order);
      const auto ops = make_cuda_ops(0, kSmall);
      const OnGpu a(*ops, bias, 0), b(*ops, y, 0);
      const Tensor& t = a.tensor;
      bias_of_pairs(gpu_of(*ops).stream(), b.tensor.data, {t.data, type, t.rows(), t.cols(), t.stride},
                    kQueries, kKeys);
      b.download(y);
      set_order(0);
      EXPECT_TRUE(y.intact());
      for (std::int64_t h = 0; h < kHeads; ++h)
        for (std::int64_t q = 0; q < kQueries; ++q)
          for (std::int64_t k = 0; k < kKeys; ++k)
            ASSERT_EQ(y.get(h * kQueries + q, k), bias.get(kReach + std::clamp(k - q, -kReach, kReach), h))
                << h << " " << q << " " << k;
    }
}

}  // namespace
}  // namespace ft::cuda
