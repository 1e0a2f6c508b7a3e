// Products of warps with operands in two parts (delta_tiles.cuh), and the instruction that they consist of.
#include "engine/cuda/kernels/delta_tiles.cuh"

#include "tests/engine/cuda/both.h"
#include "tests/engine/cuda/planted.h"

namespace ft::cuda {
namespace {

enum class PartTerms { all, exact };

// Element (r, c) of an operand: f32, or rounded to bf16.
__device__ float operand_at(int r, int c, int seed, bool rounded) {
  const float x = static_cast<float>((r * 29 + c * 17 + seed * 11) % 101 - 50) / 37.0f;
  bf16 narrow;
  round_to(narrow, x);
  return rounded ? widened(narrow) : x;
}

// y (64, 64) = a b, with operands of 16 bits or not, computed with or without the terms that f32 needs.
__global__ void multiplies_in_parts(float* y, bool rounded, PartTerms terms) {
  const DeltaPlace place;
  float sum[DeltaPlace::kTiles][4] = {};
  const auto a = [&](int r, int c) { return operand_at(r, c, 1, rounded); };
  const auto b = [&](int r, int c) { return operand_at(r, c, 2, rounded); };
  if (terms == PartTerms::all)
    place.add(sum, kChunk, a, b);
  else
    place.add<true, true>(sum, kChunk, a, b);
  place.each(sum, [&](int r, int c, float& s) { y[r * kChunk + c] = s; });
}

// Returns the squared error of a product, relative to its squares.
double error_of_product(bool rounded, PartTerms terms, Order order) {
  cuda_on_cpu::set_order(order);
  const Stream s;
  const Memory y(kChunk * kChunk);
  launch("test", {s, dim3(1), kDeltaThreads}, multiplies_in_parts, y.get(), rounded, terms);
  const std::vector<float> got = y.values(s);
  cuda_on_cpu::set_order(Order::forward);
  double errors = 0, squares = 0;
  for (int r = 0; r < kChunk; ++r)
    for (int c = 0; c < kChunk; ++c) {
      double want = 0;
      for (int p = 0; p < kChunk; ++p)
        want += double(operand_at(r, p, 1, rounded)) * double(operand_at(p, c, 2, rounded));
      const double error = double(got[static_cast<std::size_t>(r * kChunk + c)]) - want;
      errors += error * error;
      squares += want * want;
    }
  return errors / squares;
}

TEST(DeltaTiles, ProductsAreNearlyOfF32) {
  for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
    EXPECT_LT(error_of_product(false, PartTerms::all, order), 1e-12);
    EXPECT_LT(error_of_product(true, PartTerms::exact, order), 1e-12);
  }
}

// A single term has the accuracy of tf32, so the test above needs the others.
TEST(DeltaTiles, NumbersOfF32NeedAllTerms) {
  EXPECT_GT(error_of_product(false, PartTerms::exact, Order::forward), 1e-9);
}

TEST(DeltaTiles, NumbersAreRoundedToTheNearest) {
  EXPECT_EQ(to_tf32(1.0f), 1.0f);
  EXPECT_EQ(to_tf32(1.0f + 0x1p-11f), 1.0f + 0x1p-10f);  // a tie goes away from zero
  EXPECT_EQ(to_tf32(-1.0f - 0x1p-11f), -1.0f - 0x1p-10f);
  EXPECT_EQ(to_tf32(1.0f + 0x1p-12f), 1.0f);
}

}  // namespace
}  // namespace ft::cuda
