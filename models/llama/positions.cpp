#include "models/llama/positions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ft::llama {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// llama3: long waves are stretched by the factor, short ones kept, those between blended.
float llama3(const Rope& r, double inv) {
  const double wave = kTwoPi / inv;
  if (wave < r.original_max_position / r.high_freq_factor) return static_cast<float>(inv);
  if (wave > r.original_max_position / r.low_freq_factor) return static_cast<float>(inv / r.factor);
  const double smooth =
      (r.original_max_position / wave - r.low_freq_factor) / (r.high_freq_factor - r.low_freq_factor);
  return static_cast<float>((1 - smooth) * inv / r.factor + smooth * inv);
}

// YaRN (Peng et al. 2023): a ramp over the dimensions between those that turn often and those that hardly
// turn.
class Yarn {
 public:
  Yarn(const Rope& r, double dim) : factor_(r.factor) {
    auto dimension_of = [&](double turns) {
      return dim * std::log(r.original_max_position / (turns * kTwoPi)) / (2 * std::log(r.theta));
    };
    low_ = dimension_of(r.beta_fast);
    high_ = dimension_of(r.beta_slow);
    if (r.truncate) low_ = std::floor(low_), high_ = std::ceil(high_);
    low_ = std::max(low_, 0.0);
    high_ = std::min(high_, dim - 1);
    if (low_ == high_) high_ += 0.001;
  }
  float operator()(double inv, double i) const {
    const double ramp = std::clamp((i - low_) / (high_ - low_), 0.0, 1.0);
    return static_cast<float>(inv / factor_ * ramp + inv * (1 - ramp));
  }

 private:
  double factor_, low_ = 0, high_ = 0;
};

}  // namespace

std::vector<float> inverse_frequencies(const Config& c, std::int64_t length) {
  const Rope& r = c.rope;
  const auto dim = static_cast<double>(c.head_dim);
  double base = r.theta;
  if (r.type == Rope::Type::dynamic && length > c.max_position_embeddings) {
    const double stretch =
        r.factor * static_cast<double>(length) / static_cast<double>(c.max_position_embeddings);
    base *= std::pow(stretch - (r.factor - 1), dim / (dim - 2));
  }
  const Yarn yarn(r, dim);
  std::vector<float> out;
  for (std::int64_t i = 0; i < c.head_dim / 2; ++i) {
    const float inv =
        1 / std::pow(static_cast<float>(base), static_cast<float>(2 * i) / static_cast<float>(dim));
    switch (r.type) {
      case Rope::Type::normal:
      case Rope::Type::dynamic:
        out.push_back(inv);
        break;
      case Rope::Type::linear:
        out.push_back(inv / static_cast<float>(r.factor));
        break;
      case Rope::Type::llama3:
        out.push_back(llama3(r, inv));
        break;
      case Rope::Type::yarn:
        out.push_back(yarn(inv, static_cast<double>(i)));
        break;
    }
  }
  return out;
}

namespace {

// Angles are rounded to f32, as transformers does.
void add_position(RopeTable& t, const std::vector<float>& inv, std::int64_t position, double factor) {
  for (const float f : inv) {
    const double angle = static_cast<float>(position) * f;
    t.cos.push_back(static_cast<float>(std::cos(angle) * factor));
    t.sin.push_back(static_cast<float>(std::sin(angle) * factor));
  }
}

}  // namespace

void cover(RopeTable& t, const Config& c, std::int64_t positions) {
  std::vector<float> frequencies = inverse_frequencies(c, positions);
  if (frequencies != t.frequencies) t = {.cos = {}, .sin = {}, .frequencies = std::move(frequencies)};
  const auto width = static_cast<std::int64_t>(t.frequencies.size());
  t.cos.reserve(static_cast<std::size_t>(positions * width));
  t.sin.reserve(static_cast<std::size_t>(positions * width));
  for (auto p = static_cast<std::int64_t>(t.cos.size()) / width; p < positions; ++p)
    add_position(t, t.frequencies, p, c.rope.attention_factor);
}

RopeTable rope_rows(const Config& c, const Continuation& next) {
  RopeTable t;
  std::vector<float> inv = inverse_frequencies(c, 0);
  for (std::size_t i = 0; i < next.slots.size(); ++i) {
    const std::int64_t past = next.past[i], length = past + next.starts[i + 1] - next.starts[i];
    if (c.rope.type == Rope::Type::dynamic) inv = inverse_frequencies(c, length);
    for (std::int64_t p = past; p < length; ++p) add_position(t, inv, p, c.rope.attention_factor);
  }
  return t;
}

}  // namespace ft::llama
