// Codes in 8 bits by the kernels against the search that defines them, for all numbers where they might
// differ.
#include "engine/cuda/kernels/dynamic_codes.cuh"

#include <cmath>
#include <limits>

#include "tests/engine/cuda/planted.h"

namespace ft::cuda {
namespace {

// y holds the numbers before, and their codes afterwards.
__global__ void find_codes(float* y, const float* map, int n) {
  auto& codes = shared_memory<DynamicCodes>();
  codes.make(map);
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x))
    y[i] = static_cast<float>(codes.code_of(y[i]));
}

__global__ void divide(float* y, const float* by, int n) {
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x))
    y[i] = Divisor(by[i]).under(y[i]);
}

// Returns a kernel's results for numbers x and `others`.
std::vector<float> computed(void (*kernel)(float*, const float*, int), const std::vector<float>& x,
                            const std::vector<float>& others) {
  const Stream s;
  const Memory y(x.size()), more(others.size());
  const auto upload = [&](const Memory& to, const std::vector<float>& from) {
    check(cudaMemcpyAsync(to.get(), from.data(), 4 * from.size(), cudaMemcpyHostToDevice, s), "test");
  };
  upload(y, x);
  upload(more, others);
  launch("test", {s, dim3(1), 64, sizeof(DynamicCodes)}, kernel, y.get(), more.get(),
         static_cast<int>(x.size()));
  return y.values(s);
}

float uniform(std::uint64_t i) { return to_uniform(Random{11}.at(i)[0]); }

TEST(DynamicCodes, AreThoseOfASearch) {
  for (const bool has_signs : {true, false}) {
    const DynamicMap& map = dynamic_map(has_signs);
    const DynamicBounds& bounds = dynamic_bounds(has_signs);
    std::vector<float> x{0.0f, -0.0f, 1.0f, -1.0f, 1e-30f, -1e-30f, std::nanf("")};
    const auto near = [&](float v) {
      for (const float sign : {1.0f, -1.0f})
        for (const float e : {std::nextafter(sign * v, -2.0f), sign * v, std::nextafter(sign * v, 2.0f)})
          if (std::abs(e) <= 1) x.push_back(e);
    };
    for (const float b : bounds) near(b);
    for (int cell = 0; cell < DynamicCells::kCells; ++cell) near(DynamicCells::begin(cell));
    for (std::uint64_t i = 0; i < 4000; ++i) near(uniform(2 * i) * std::pow(10.0f, -8 * uniform(2 * i + 1)));
    const std::vector<float> got = computed(find_codes, x, {map.begin(), map.end()});
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_EQ(got[i], static_cast<float>(dynamic_code(bounds.data(), x[i]))) << x[i];
  }
}

TEST(DynamicCodes, QuotientsAreRoundedLikeDivisions) {
  std::vector<float> x, by;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const float scale = std::pow(2.0f, std::floor(160 * uniform(3 * i)) - 80);
    by.push_back((1 + uniform(3 * i + 1)) * scale);
    x.push_back(by.back() * (2 * uniform(3 * i + 2) - 1));
  }
  const std::vector<float> got = computed(divide, x, by);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float want = x[i] / by[i];
    if (std::abs(want) > 0x1p-23f) {
      EXPECT_EQ(got[i], want) << x[i] << " / " << by[i];
    }
  }
}

}  // namespace
}  // namespace ft::cuda
