#include "engine/formats/gguf/ggml_scale_search.h"

#include <algorithm>
#include <cmath>

#include "engine/formats/gguf/ggml_numbers.h"

namespace ft {
namespace {

// The sums of a weighted least squares fit of x = scale * code + low.
struct RangeFit {
  const float *x, *weights;
  float weight = 0, sum_x = 0, low = 0, high = 0;

  RangeFit(const float* values, const float* w)
      : x(values), weights(w), weight(w[0]), sum_x(weight * x[0]), low(x[0]), high(x[0]) {
    for (int i = 1; i < kRangeBlock; ++i) {
      low = std::min(low, x[i]);
      high = std::max(high, x[i]);
      weight += w[i];
      sum_x += w[i] * x[i];
    }
    low = std::min(low, 0.0f);
  }
  void choose_codes(float inverse, float zero, int most, std::uint8_t* codes) const {
    for (int i = 0; i < kRangeBlock; ++i)
      codes[i] = static_cast<std::uint8_t>(std::clamp(nearest(inverse * (x[i] - zero)), 0, most));
  }
  float error(float scale, float min, const std::uint8_t* codes) const {
    float sum = 0;
    for (int i = 0; i < kRangeBlock; ++i) {
      const float off = scale * codes[i] + min - x[i];
      sum += weights[i] * (off * off);
    }
    return sum;
  }
  // Returns false if the codes do not determine a scale.
  bool solve(const std::uint8_t* codes, float& scale, float& min) const {
    float l = 0, l2 = 0, xl = 0;
    for (int i = 0; i < kRangeBlock; ++i) {
      const float code = codes[i], w = weights[i];
      l += w * code;
      l2 += w * code * code;
      xl += w * code * x[i];
    }
    const float determinant = weight * l2 - l * l;
    if (!(determinant > 0)) return false;
    scale = (weight * xl - sum_x * l) / determinant;
    min = (l2 * sum_x - l * xl) / determinant;
    if (min > 0) {
      min = 0;
      scale = xl / l2;
    }
    return true;
  }
};

// The sums of a least squares fit of x = scale * code, weighted by x^2, for codes around zero.
struct CentredFit {
  static constexpr int kMost = 32;
  float xl = 0, l2 = 0;

  static int code(float inverse, float x) { return std::clamp(nearest(inverse * x), -kMost, kMost - 1); }
  CentredFit(const float* x, float inverse) {
    for (int i = 0; i < kCentredBlock; ++i) {
      const auto l = static_cast<float>(code(inverse, x[i]));
      const float w = x[i] * x[i];
      xl += w * x[i] * l;
      l2 += w * l * l;
    }
  }
};

}  // namespace

ScaleAndMin search_range(const float* x, const float* weights, const RangeSearch& s, std::uint8_t* codes) {
  const RangeFit fit(x, weights);
  float min = fit.low;
  if (fit.high == min) {
    std::fill_n(codes, kRangeBlock, std::uint8_t{0});
    return {0, -min};
  }
  const auto most = static_cast<float>(s.most);
  const float inverse = most / (fit.high - min);
  float scale = 1 / inverse;
  fit.choose_codes(inverse, min, s.most, codes);
  float best = fit.error(scale, min, codes);
  for (int step = 0; step <= s.steps; ++step) {
    std::uint8_t tried[kRangeBlock];
    float this_scale = 0, this_min = 0;
    const float nudged = (s.first + 0.1f * static_cast<float>(step) + most) / (fit.high - min);
    fit.choose_codes(nudged, min, s.most, tried);
    if (!fit.solve(tried, this_scale, this_min)) continue;
    const float error = fit.error(this_scale, this_min, tried);
    if (!(error < best)) continue;
    std::copy_n(tried, kRangeBlock, codes);
    best = error;
    scale = this_scale;
    min = this_min;
  }
  return {scale, -min};
}

float search_centred(const float* x, std::uint8_t* codes) {
  constexpr int kMost = CentredFit::kMost;
  float most = 0;
  for (int i = 0; i < kCentredBlock; ++i)
    if (std::fabs(x[i]) > std::fabs(most)) most = x[i];
  if (std::fabs(most) < kGgmlSmallest) {
    std::fill_n(codes, kCentredBlock, std::uint8_t{0});
    return 0;
  }
  const auto take = [&](float inverse) {
    for (int i = 0; i < kCentredBlock; ++i)
      codes[i] = static_cast<std::uint8_t>(CentredFit::code(inverse, x[i]) + kMost);
  };
  const float first = -static_cast<float>(kMost) / most;
  const CentredFit fit(x, first);
  take(first);
  float scale = fit.l2 != 0 ? fit.xl / fit.l2 : 0, best = scale * fit.xl;
  for (int step = -9; step <= 9; ++step) {
    if (step == 0) continue;
    const float inverse = -(static_cast<float>(kMost) + 0.1f * static_cast<float>(step)) / most;
    const CentredFit other(x, inverse);
    if (!(other.l2 > 0 && other.xl * other.xl > best * other.l2)) continue;
    take(inverse);
    scale = other.xl / other.l2;
    best = scale * other.xl;
  }
  return scale;
}

}  // namespace ft
