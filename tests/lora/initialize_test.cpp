// Initial LoRA weights have the distribution of PEFT's (tests/golden/lora_init.json), and are functions of
// seed, name and index.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/files/json.h"
#include "lora/starts/starts.h"
#include "tests/support/source.h"

namespace ft::lora {
namespace {

std::vector<float> values_of(const Parameter& p, LoraInit init, std::uint64_t seed, std::int64_t first,
                             std::int64_t count) {
  std::vector<float> out(static_cast<std::size_t>(count));
  initialize(p, init, Random{seed}, Tensor(reinterpret_cast<std::byte*>(out.data()), DType::f32, {count}),
             first);
  return out;
}

struct Moments {
  double mean = 0, deviation = 0, largest = 0, kurtosis = 0;
};
Moments moments(const std::vector<float>& x) {
  const auto n = static_cast<double>(x.size());
  Moments m;
  for (const float v : x) m.mean += v / n;
  double square = 0, fourth = 0;
  for (const double v : x) {
    square += v * v / n;
    fourth += v * v * v * v / n;
    m.largest = std::max(m.largest, std::abs(v));
  }
  m.deviation = std::sqrt(square);
  m.kurtosis = square > 0 ? fourth / (square * square) : 0;
  return m;
}

TEST(Initialize, HasPeftsDistribution) {
  const Json golden = read_json(source_path("tests/golden/lora_init.json"));
  for (const Json& row : golden["inits"]) {
    const Json& name = row["init_lora_weights"];
    const std::string word = name.is_string() ? name.get<std::string>() : name.dump();
    const LoraInit init = value_of<LoraInit>(word).value();
    const std::int64_t in = row["in"], out = row["out"], r = row["r"];
    for (const bool is_a : {true, false}) {
      const char* which = is_a ? "lora_A" : "lora_B";
      SCOPED_TRACE(word + " " + which + " " + std::to_string(in));
      const Parameter p{.name = std::string("base_model.model.x.") + which + ".weight",
                        .shape = is_a ? Shape{r, in} : Shape{out, r}};
      std::vector<float> all;
      for (std::uint64_t seed = 0; seed < 40; ++seed) {
        const auto some = values_of(p, init, seed, 0, p.shape.numel());
        all.insert(all.end(), some.begin(), some.end());
      }
      const Json& want = row[which];
      ASSERT_EQ(all.size(), want["count"].get<std::size_t>());
      const Moments got = moments(all);
      const double deviation = want["std"];
      // Both are samples: four standard errors of each.
      const double error = 8 / std::sqrt(static_cast<double>(all.size()));
      EXPECT_NEAR(got.mean, want["mean"].get<double>(), deviation * error);
      EXPECT_NEAR(got.deviation, deviation, deviation * error);
      EXPECT_NEAR(got.kurtosis, want["kurtosis"].get<double>(), 12 * error);
      if (init == LoraInit::gaussian) continue;
      // the bound of the distribution
      EXPECT_NEAR(got.largest, want["largest"].get<double>(), 0.002 * got.largest);
    }
  }
}

TEST(Initialize, IsAFunctionOfSeedNameAndIndex) {
  const Parameter a{.name = "m.q_proj.lora_A.weight", .shape = {8, 33}};
  const Parameter other{.name = "m.k_proj.lora_A.weight", .shape = {8, 33}};
  const auto whole = values_of(a, LoraInit::kaiming, 5, 0, 264),
             part = values_of(a, LoraInit::kaiming, 5, 100, 50);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 100));
  EXPECT_NE(whole, values_of(a, LoraInit::kaiming, 6, 0, 264));
  EXPECT_NE(whole, values_of(other, LoraInit::kaiming, 5, 0, 264));
}

}  // namespace
}  // namespace ft::lora
