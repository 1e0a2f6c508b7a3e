// Mixed adapters against PEFT's add_weighted_adapter, and random pruning.
#include "lora/mix.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lora/combine.h"
#include "lora/peft.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft::lora {
namespace {

const std::string kMixes = source_path("tests/golden/mix/");

std::vector<float> stored_values(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor& t = *file.find(name);
  std::vector<float> all(std::size_t(t.numel));
  file.read(t, Tensor(reinterpret_cast<std::byte*>(all.data()), DType::f32, {t.numel}));
  return all;
}

// Returns scale B A of a module of an adapter.
std::vector<double> product_of(const std::string& folder, const std::string& module) {
  const AdapterFolder adapter(folder);
  const double scale = adapter.config().lora_alpha / double(adapter.config().r);
  const SafetensorsFile file(folder + "/adapter_model.safetensors");
  const std::string name = "base_model.model." + module;
  const auto a = stored_values(file, name + ".lora_A.weight"),
             b = stored_values(file, name + ".lora_B.weight");
  const auto r = std::size_t(adapter.config().r), in = a.size() / r, out = b.size() / r;
  std::vector<double> y(out * in);
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t i = 0; i < in; ++i)
      for (std::size_t k = 0; k < r; ++k) y[o * in + i] += scale * b[o * r + k] * a[k * in + i];
  return y;
}

std::string mixed(const test::TempFolder& folder, const MixRule& rule) {
  write_mix(folder.path(), {{kMixes + "a", 0.7}, {kMixes + "b", -0.4}}, rule);
  return folder.path();
}

TEST(Mix, IsPefts) {
  const SafetensorsFile golden(kMixes + "expected.safetensors");
  using enum Combination;
  const std::pair<const char*, MixRule> cases[] = {
      {"cat", {}},
      {"svd", {.combination = svd, .rank = 2}},
      {"linear", {.combination = linear}},
      {"ties", {.combination = ties, .density = 0.5}},
      {"ties_frequency", {.combination = ties, .density = 0.5, .by_frequency = true}},
      {"magnitude_prune", {.combination = magnitude_prune, .density = 0.3}}};
  for (const auto& [name, rule] : cases) {
    const test::TempFolder folder;
    const std::string adapter = mixed(folder, rule);
    for (const std::string module : {"model.q_proj", "model.k_proj"}) {
      const auto got = product_of(adapter, module);
      const auto want = stored_values(golden, str(name, ".", module));
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(got[i], double(want[i]), 2e-5) << name << " " << module << " " << i;
    }
  }
}

TEST(Mix, DarePrunesByTheSeed) {
  const MixRule rule{.combination = Combination::dare_linear, .density = 0.5, .seed = 3};
  const test::TempFolder one, two, three;
  MixRule other = rule;
  other.seed = 4;
  EXPECT_EQ(product_of(mixed(one, rule), "model.q_proj"), product_of(mixed(two, rule), "model.q_proj"));
  EXPECT_NE(product_of(mixed(three, other), "model.q_proj"), product_of(one.path(), "model.q_proj"));
}

TEST(Combine, RandomPruningKeepsTheMean) {
  const std::vector<float> ones(10000, 1.0f);
  const CombineRule rule{.pruning = Pruning::random, .density = 0.25};
  double sum = 0;
  for (const float v : combine({ones}, {1}, rule, Random{1})) {
    EXPECT_TRUE(v == 0 || v == 4);
    sum += v;
  }
  EXPECT_NEAR(sum / 10000, 1, 0.1);
}

TEST(Mix, IncompatibleAdaptersAreRefused) {
  const test::TempFolder folder, rank;
  MixRule rule{.combination = Combination::svd, .rank = 2};
  const std::string two = mixed(rank, rule);  // of rank 2
  rule.combination = Combination::linear;
  const auto error = test::error_of([&] { write_mix(folder.path(), {{kMixes + "a", 1}, {two, 1}}, rule); });
  EXPECT_NE(error.find("ranks 3 and 2: linear is for equal ranks"), error.npos) << error;
  const std::string dora = source_path("tests/golden/models/lora-dora/adapter");
  const auto more = test::error_of([&] { write_mix(folder.path(), {{dora, 1}, {two, 1}}, rule); });
  EXPECT_NE(more.find("use_dora: magnitudes cannot be mixed"), more.npos) << more;
  const std::string bias = source_path("tests/golden/models/lora-b-bias/adapter");
  const auto of_bias = test::error_of([&] { write_mix(folder.path(), {{bias, 1}, {two, 1}}, rule); });
  EXPECT_NE(of_bias.find("lora_bias: biases of B are not mixed"), of_bias.npos) << of_bias;
  const std::string late = source_path("tests/golden/models/lora-activated/adapter");
  const auto of_late = test::error_of([&] { write_mix(folder.path(), {{late, 1}, {two, 1}}, rule); });
  EXPECT_NE(of_late.find("alora_invocation_tokens: adapters that act from tokens on are neither mixed"),
            of_late.npos)
      << of_late;
}

}  // namespace
}  // namespace ft::lora
