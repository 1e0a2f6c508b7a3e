// Tables with more rows than in the files.
#include "engine/files/safetensors/grown_weights.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "engine/files/safetensors/safetensors_write.h"
#include "tests/engine/files/temp_folder.h"

namespace ft {
namespace {

using test::TempFolder;

TEST(GrownWeights, NewRowsAreTheMean) {
  const TempFolder folder;
  std::vector<float> table(5 * 3), bias{1, 2, 4, 8, 16};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i * i) / 7;
  write_shards(folder.path(), "model",
               {{"table", DType::bf16, {5, 3}}, {"bias", DType::f32, {5}}, {"other", DType::f32, {5}}},
               [&](const TensorSpec& s) {
                 return Tensor(reinterpret_cast<std::byte*>(s.name == "table" ? table.data() : bias.data()),
                               DType::f32, s.shape);
               });
  const GrownWeights grown(std::make_unique<ModelFolder>(folder.path()), {"table", "bias", "absent"}, 8);
  EXPECT_EQ(grown.info("table").shape, (std::vector<std::int64_t>{8, 3}));
  EXPECT_EQ(grown.info("bias").shape, (std::vector<std::int64_t>{8}));
  EXPECT_EQ(grown.info("other").shape, (std::vector<std::int64_t>{5}));
  std::vector<float> all(8 * 3), stored(5 * 3);
  const auto read = [&](const WeightSource& from, std::vector<float>& to, std::int64_t first = 0) {
    from.read("table", Tensor(reinterpret_cast<std::byte*>(to.data()), DType::f32, {std::ssize(to)}), first);
  };
  read(grown, all);
  read(ModelFolder(folder.path()), stored);
  EXPECT_TRUE(std::equal(stored.begin(), stored.end(), all.begin()));
  for (std::size_t c = 0; c < 3; ++c) {
    double mean = 0;
    for (std::size_t r = 0; r < 5; ++r) mean += stored[r * 3 + c] / 5.0;
    for (std::size_t r = 5; r < 8; ++r) {
      EXPECT_NEAR(all[r * 3 + c], mean, std::fabs(mean) / 256);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(all[r * 3 + c]) & 0xFFFF, 0u) << "a value that bf16 has";
    }
  }
  for (std::int64_t first = 0; first < 24; ++first)  // any part, as ranks read them
    for (std::int64_t n = 1; first + n <= 24; ++n) {
      std::vector<float> part(static_cast<std::size_t>(n));
      read(grown, part, first);
      ASSERT_TRUE(std::equal(part.begin(), part.end(), all.begin() + first)) << first << " " << n;
    }
  std::vector<float> biases(8);
  grown.read("bias", Tensor(reinterpret_cast<std::byte*>(biases.data()), DType::f32, {8}));
  EXPECT_EQ(biases, (std::vector<float>{1, 2, 4, 8, 16, 6.2F, 6.2F, 6.2F}));
}

}  // namespace
}  // namespace ft
