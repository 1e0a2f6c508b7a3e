#include "app/models/random_weights.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/files/parallel.h"

namespace ft {
namespace {

// Fills in normal numbers by Box and Muller: two pairs from each four random numbers.
void fill_normal(std::vector<float>& values, Random random, double deviation) {
  constexpr std::size_t kChunk = 1 << 16;  // a multiple of four
  const std::size_t numel = values.size();
  in_parallel(static_cast<std::int64_t>((numel + kChunk - 1) / kChunk), [&](std::int64_t chunk) {
    const std::size_t begin = static_cast<std::size_t>(chunk) * kChunk, end = std::min(numel, begin + kChunk);
    for (std::size_t i = begin; i < end; i += 4) {
      const Philox4 bits = random.at(i / 4);
      for (std::size_t pair = 0; pair < 4; pair += 2) {
        const double radius = deviation * std::sqrt(-2 * std::log(double{to_uniform(bits[pair])}));
        const double angle = 2 * std::numbers::pi * double{to_uniform(bits[pair + 1])};
        if (i + pair < end) values[i + pair] = static_cast<float>(radius * std::cos(angle));
        if (i + pair + 1 < end) values[i + pair + 1] = static_cast<float>(radius * std::sin(angle));
      }
    }
  });
}

// Fills in logarithms of numbers between 0.01 and 16: rates of decay.
void fill_logarithms(std::vector<float>& values, Random random) {
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::log(0.01f + (16 - 0.01f) * to_uniform(random.at(i / 4)[i % 4]));
}

}  // namespace

RandomWeights::RandomWeights(const MadeModel& made, std::uint64_t seed, std::int64_t padding)
    : random_(Random{seed}.with("init")), info_(made.info), padding_(padding) {
  EachParameter each([&](Parameter& p) {
    tensors_.emplace_back(p.name, p.shape);
    if (p.initial != Initial::usual) initial_[p.name] = p.initial;
    if (p.wide) wide_.insert(p.name);
    if (p.deviation) deviations_[p.name] = *p.deviation;
  });
  made.model->visit(each);
}

double RandomWeights::parameters() const {
  double sum = 0;
  for (const auto& [name, shape] : tensors_) sum += static_cast<double>(shape.numel());
  return sum;
}

Tensor RandomWeights::operator()(const std::string& name, const Shape& shape) {
  values_.resize(static_cast<std::size_t>(shape.numel()));
  const Initial initial = initial_.contains(name) ? initial_.at(name) : Initial::usual;
  if (initial == Initial::normal || (initial == Initial::usual && shape.rank > 1))
    fill_normal(values_, random_.with(name),
                deviations_.contains(name) ? deviations_.at(name) : info_.initializer_range);
  else if (initial == Initial::log_rates)
    fill_logarithms(values_, random_.with(name));
  else if (initial != Initial::usual)
    std::ranges::fill(values_, initial == Initial::ones ? 1.0f : 0.0f);
  else
    std::ranges::fill(values_, name.ends_with(".bias") ? 0.0f : 1 - info_.norm_offset);
  if (!info_.decoder && name == info_.embedding && 0 <= padding_ && padding_ < shape[0])
    std::fill_n(values_.begin() + padding_ * shape[1], shape[1], 0.0f);
  return {reinterpret_cast<std::byte*>(values_.data()), DType::f32, shape};
}

}  // namespace ft
