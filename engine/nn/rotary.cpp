#include "engine/nn/rotary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ft {

// Angles are rounded to f32, as transformers does.
void Rotary::add_position(RotaryTable& t, const std::vector<float>& frequencies,
                          std::int64_t position) const {
  for (const float f : frequencies) {
    const double angle = static_cast<float>(position) * f;
    t.cos.push_back(static_cast<float>(std::cos(angle) * factor_));
    t.sin.push_back(static_cast<float>(std::sin(angle) * factor_));
  }
}

const RotaryTable& Rotary::cover(std::int64_t positions) {
  std::vector<float> frequencies = frequencies_(positions);
  RotaryTable& t = table_;
  if (frequencies != t.frequencies) t = {.cos = {}, .sin = {}, .frequencies = std::move(frequencies)};
  const auto width = static_cast<std::int64_t>(t.frequencies.size());
  t.cos.reserve(static_cast<std::size_t>(positions * width));
  t.sin.reserve(static_cast<std::size_t>(positions * width));
  for (auto p = static_cast<std::int64_t>(t.cos.size()) / width; p < positions; ++p)
    add_position(t, t.frequencies, p);
  return t;
}

RotaryTable Rotary::rows(const Continuation& next) const {
  RotaryTable t;
  for (std::size_t i = 0; i < next.slots.size(); ++i) {
    const std::int64_t past = next.past[i], length = past + next.starts[i + 1] - next.starts[i];
    t.frequencies = frequencies_(length);
    for (std::int64_t p = past; p < length; ++p) add_position(t, t.frequencies, p);
  }
  return t;
}

Positions Rotary::upload(Ctx& c, const Batch& b) {
  const std::int64_t length = 1 + *std::max_element(b.positions.begin(), b.positions.end());
  const RotaryTable& table = cover(length);
  const Shape shape{length, static_cast<std::int64_t>(table.frequencies.size())};
  Positions p{ft::upload(c, b.positions), c.saved.take(shape, DType::f32), c.saved.take(shape, DType::f32),
              b.starts};
  c.ops.upload(p.cos, table.cos.data());
  c.ops.upload(p.sin, table.sin.data());
  return p;
}

Positions Rotary::upload(Ctx& c, const Continuation& next, const CachedRows& cached) const {
  const RotaryTable table = rows(next);
  // Every token has a row of its own in the tables.
  std::vector<std::int32_t> own(next.input_ids.size());
  std::iota(own.begin(), own.end(), 0);
  const Shape shape{next.rows(), static_cast<std::int64_t>(table.frequencies.size())};
  Positions p{ft::upload(c, own), c.saved.take(shape, DType::f32), c.saved.take(shape, DType::f32),
              next.starts, &cached};
  c.ops.upload(p.cos, table.cos.data());
  c.ops.upload(p.sin, table.sin.data());
  return p;
}

}  // namespace ft
