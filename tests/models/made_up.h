// Random weights of any shape, without files.
#pragma once
#include "engine/core/random.h"
#include "engine/files/safetensors/weights.h"

namespace ft::test {

// Fills y with elements from `first` on of a parameter. They are a function of name and index: near 1 in the
// weight of a norm, otherwise small.
inline void make_up(const std::string& name, bool vector, double spread, Tensor y, std::int64_t first) {
  const bool norm = vector && name.find("norm") != std::string::npos;
  const Random random = Random{7}.with(name);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const double u = to_uniform(random.at(static_cast<std::uint64_t>(first + i))[0]);
    const float v = static_cast<float>((norm ? 1 : 0) + spread * (2 * u - 1));
    if (y.dtype == DType::f32)
      y.as<float>()[i] = v;
    else
      from_float(y.as<bf16>()[i], v);
  }
}

class MadeUp final : public WeightSource {
 public:
  explicit MadeUp(double spread) : spread_(spread) {}
  std::vector<std::string> names() const override { return {}; }
  bool has(const std::string&) const override { return true; }
  WeightInfo info(const std::string&) const override { return {}; }
  void read(const std::string& name, const Tensor& y, std::int64_t first) const override {
    make_up(name, false, spread_, y, first);
  }
  StoredBytes find_stored(const std::string&, DType, std::int64_t) const override { return {}; }

 private:
  double spread_;
};

}  // namespace ft::test
