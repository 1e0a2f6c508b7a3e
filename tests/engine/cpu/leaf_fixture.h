// Runs a test of CpuOps for every target, element type, size and gap between rows, with one thread and with
// three: the results must be the same bytes, and nothing outside the tensors may change.
#pragma once
#include <gtest/gtest.h>

#include <list>
#include <utility>

#include "engine/core/error.h"
#include "engine/cpu/cpu_ops.h"
#include "tests/engine/cpu/all_kernels.h"
#include "tests/support/matrix.h"

namespace ft::cpu {

using test::Matrix;
using test::nmse;

struct Trial {
  CpuOps& ops;
  DType type;
  std::int64_t rows, cols, pad;
  std::list<Matrix>& made;

  // Returns a matrix of the trial's type and row gap; its guard bytes are checked when the test ends.
  Matrix& matrix(std::int64_t r, std::int64_t c, DType t) const { return made.emplace_back(r, c, t, pad); }
  Matrix& matrix(std::uint64_t seed, double spread = 2) const {
    return matrix(rows, cols, type).randomize(seed, spread);
  }
  // Returns a dense vector.
  Matrix& vector(std::int64_t n, DType t) const { return made.emplace_back(1, n, t); }
  Matrix& vector(std::int64_t n, DType t, std::uint64_t seed) const { return vector(n, t).randomize(seed); }
  Matrix& indices(std::int64_t n, std::int64_t below) const {
    return vector(n, DType::i32).randomize_indices(77, below);
  }
  // Squared relative error of rounding to `t`: at most (2^-8)^2 for bf16 and (2^-11)^2 for f16; for f32 the
  // error of the arithmetic.
  static double tolerance(DType t) { return t == DType::bf16 ? 1.6e-5 : t == DType::f16 ? 2.5e-7 : 1e-12; }
  double tolerance() const { return tolerance(type); }
};

struct Size {
  std::int64_t rows, cols;
};
inline const std::vector<Size> kSizes{{1, 1}, {3, 5}, {2, 16}, {5, 63}, {79, 211}};

template <class Test>
void each_trial(const std::vector<Size>& sizes, Test run) {
  for (const NamedKernels& named : all_kernels()) {
    CpuOps one(1, named.kernels), three(3, named.kernels);
    for (const DType type : {DType::f32, DType::bf16, DType::f16})
      for (const Size size : sizes)
        for (const std::int64_t pad : {0, 3}) {
          SCOPED_TRACE(str(named.name, " ", name_of(type), " ", size.rows, " x ", size.cols, " pad ", pad));
          std::list<Matrix> first, second;
          run(Trial{one, type, size.rows, size.cols, pad, first});
          run(Trial{three, type, size.rows, size.cols, pad, second});
          auto b = second.begin();
          for (const Matrix& a : first) {
            EXPECT_TRUE(a.intact()) << "bytes outside a tensor changed";
            EXPECT_TRUE(a.same_bytes(*b++)) << "one thread and three differ";
          }
          if (testing::Test::HasFailure()) return;
        }
  }
}
template <class Test>
void each_trial(Test run) {
  each_trial(kSizes, run);
}

}  // namespace ft::cpu
