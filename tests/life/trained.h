// What comes of a training, to compare where sums may have another order.
#pragma once
#include <cmath>

#include "engine/io/safetensors.h"
#include "tests/life/ranks.h"

namespace ft::test {

using Words = std::vector<std::string>;

inline Words with(Words all, const Words& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

inline std::vector<float> all_weights(const fs::path& path) {
  const SafetensorsFile file(path.string());
  std::vector<float> all;
  for (const StoredTensor& t : file.tensors()) {
    const std::size_t at = all.size();
    all.resize(at + static_cast<std::size_t>(t.numel));
    file.read(t, Tensor(reinterpret_cast<std::byte*>(all.data() + at), DType::f32, {t.numel}));
  }
  return all;
}

inline double nmse(const std::vector<float>& got, const std::vector<float>& want) {
  double top = 0, bottom = 0;
  EXPECT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    top += std::pow(double{got[i]} - want[i], 2);
    bottom += std::pow(double{want[i]}, 2);
  }
  return top / bottom;
}

struct Trained {
  std::vector<double> losses;
  std::vector<float> weights;
};

inline Trained train_on(const std::string& golden, const Json& config, int ranks, int stage, int accumulation,
                        const Words& more) {
  const Workplace w(golden, config);
  EXPECT_EQ(w.run(command(ranks, stage, accumulation, more)), 0) << w.says();
  return {losses(w / "out"), all_weights(w / file_of(config))};
}

inline void expect_same(const Trained& got, const Trained& want) {
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (std::size_t i = 0; i < want.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], want.losses[i], 2e-6 * want.losses[i]) << "step " << i;
  EXPECT_LT(nmse(got.weights, want.weights), 1e-9);
}

}  // namespace ft::test
