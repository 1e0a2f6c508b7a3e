// Every optimizer for 200 steps with a falling rate, against torch, transformers and bitsandbytes
// (tests/golden/long_steps.safetensors): weights, and bitsandbytes' 8-bit states byte for byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>

#include "engine/files/safetensors/safetensors.h"
#include "engine/ops/ops.h"
#include "engine/quant/dynamic_map.h"
#include "engine/ranks/local.h"
#include "engine/train/optimizers/list.h"
#include "engine/train/optimizers/optimizer.h"
#include "tests/support/source.h"

namespace ft {
namespace {

constexpr std::int64_t kRows = 23, kCols = 27;
constexpr int kSteps = 200;

// Generates the same numbers as make_long_steps.py.
float noise(std::uint32_t i, int step) {
  std::uint32_t h = (i + 1) * 2654435761u ^ static_cast<std::uint32_t>(step + 1) * 2246822519u;
  h ^= h >> 15;
  h *= 2246822507u;
  h ^= h >> 13;
  const float value = static_cast<float>(h >> 8) / static_cast<float>(1 << 24) - 0.5f;
  return i % 17 == 0 ? 0 : std::ldexp(value, -static_cast<int>(i % 11) - step % 3);
}

void fill(Tensor y, std::int64_t first, int step) {
  for (std::int64_t i = 0; i < y.numel(); ++i)
    y.as<float>()[i] = noise(static_cast<std::uint32_t>(first + i), step);
}

template <class T>
std::vector<T> golden(const std::string& name) {
  const SafetensorsFile file(source_path("tests/golden/long_steps.safetensors"));
  const StoredTensor* t = file.find(name);
  if (!t) throw std::runtime_error("no golden " + name);
  std::vector<T> out(static_cast<std::size_t>(t->numel));
  file.read(*t, {reinterpret_cast<std::byte*>(out.data()), DTypeOf<T>::value, {t->numel}});
  return out;
}

TEST(DynamicMap, IsBitsandbytes) {
  for (const bool has_signs : {false, true}) {
    const DynamicMap& map = dynamic_map(has_signs);
    EXPECT_EQ(std::vector<float>(map.begin(), map.end()),
              golden<float>(has_signs ? "map.signed" : "map.unsigned"));
    const float* bounds = dynamic_bounds(has_signs).data();
    for (int code = 0; code < 256; ++code)
      EXPECT_EQ(dynamic_code(bounds, map[static_cast<std::size_t>(code)]), code);
    EXPECT_EQ(dynamic_code(bounds, 0), has_signs ? 127 : 0);
  }
}

// Returns the root mean square of the differences, relative to the root mean square of `want`.
double apart(const Tensor& got, const std::vector<float>& want) {
  double squares = 0, all = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    squares += std::pow(double(got.as<float>()[i]) - want[i], 2);
    all += std::pow(want[i], 2);
  }
  return std::sqrt(squares / all);
}

std::vector<std::uint8_t> bytes_of(const Tensor& t) {
  return {t.as<std::uint8_t>(), t.as<std::uint8_t>() + t.numel()};
}

void expect_states(const Slice& s, std::span<const StateSpec> specs, const std::string& run) {
  for (std::size_t k = 0; k < specs.size(); ++k) {
    const std::string name = run + "." + std::string(specs[k].name);
    SCOPED_TRACE(name);
    if (specs[k].dtype == DType::f32)
      EXPECT_LT(apart(s.states[k], golden<float>(name)), 1e-6);
    else
      EXPECT_EQ(bytes_of(s.states[k]), golden<std::uint8_t>(name));
  }
}

struct LongRun {
  const char* name;  // the optimizer, and its arguments after a space
  double apart = 1e-6;
};

class LongSteps : public testing::TestWithParam<LongRun> {};

TEST_P(LongSteps, EndAtTheLibrarysWeights) {
  const std::string run = GetParam().name, optim = run.substr(0, run.find(' '));
  const bool in_8_bits = optim.ends_with("8bit");
  TrainingConfig config;
  config.optim = value_of<Optim>(optim).value();
  if (optim != run) config.optim_args = run.substr(optim.size() + 1);
  config.weight_decay = 0.1;
  config.adam_beta2 = 0.99;
  const auto optimizer = make_optimizer(config);
  const auto ops = make_ops({});
  Arena scratch(ops->allocate(1 << 16), 1 << 16);
  LocalCommunicator alone(*ops);
  ParameterStore store(*ops, alone, ZeroStage::of(0), states_of(config));
  Parameter matrix;
  matrix.shape = {kRows, kCols};
  matrix.trainable = true;
  store.add_unit("all", {&matrix});
  store.reserve();
  store.load([&](const Parameter&, Tensor y, std::int64_t first) { fill(y, first, 0); });
  for (int step = 1; step <= kSteps; ++step) {
    store.begin_step();
    store.stepping().each_slice([&](const Slice& s) { fill(s.grad, s.first, step); });
    const double rate = 1e-3 * (1 - double(step - 1) / kSteps), most = in_8_bits ? 0 : 1;
    take_step(*ops, store, *optimizer, {rate, clip_coefficient(store.grad_norm(), most), step}, &scratch);
  }
  store.stepping().each_slice([&](const Slice& s) {
    EXPECT_LT(apart(s.master, golden<float>(run)), GetParam().apart);
    if (in_8_bits) expect_states(s, store.layout().states(matrix), run);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, LongSteps,
    testing::Values(LongRun{"adamw"}, LongRun{"lion"}, LongRun{"sgd"},
                    LongRun{"sgd momentum=0.9,nesterov=True"}, LongRun{"sgd momentum=0.8,dampening=0.2"},
                    LongRun{"adagrad"}, LongRun{"adagrad lr_decay=0.01,eps=1e-6"}, LongRun{"rmsprop"},
                    LongRun{"rmsprop alpha=0.9,momentum=0.8,centered=True"}, LongRun{"adafactor"},
                    LongRun{"adafactor scale_parameter=True,clip_threshold=0.5"},
                    // The library's products are in bf16 too, but add up in another order.
                    LongRun{"muon", 1e-3},
                    LongRun{"muon momentum=0.8,nesterov=False,adjust_lr_fn=match_rms_adamw", 1e-3},
                    LongRun{"adamw_8bit min_8bit_size=500"}, LongRun{"lion_8bit min_8bit_size=500"},
                    LongRun{"ademamix beta3=0.999,alpha=8"},
                    LongRun{"ademamix beta3=0.999,alpha=8,t_alpha=150,t_beta3=100"},
                    LongRun{"ademamix_8bit min_8bit_size=500,beta3=0.999,alpha=8,t_alpha=150,t_beta3=100"}),
    [](const auto& test) {
      std::string name = test.param.name;
      std::erase_if(name, [](char c) { return c != '_' && !std::isalnum(static_cast<unsigned char>(c)); });
      return name;
    });

// States of embeddings and of weights with few elements stay in 32 bits.
TEST(EightBit, StatesOfSomeWeightsStayIn32Bits) {
  for (const Optim optim : OptimizerKind::all()) {
    if (!optim->coded) continue;
    SCOPED_TRACE(optim->name);
    TrainingConfig config;
    config.optim = optim;
    const auto optimizer = make_optimizer(config);
    Parameter p;
    const auto in_8_bits = [&] { return optimizer->states(p).front().dtype == DType::u8; };
    p.shape = {64, 64};
    EXPECT_TRUE(in_8_bits());
    p.embedding = true;
    EXPECT_FALSE(in_8_bits());
    p.embedding = false;
    p.shape = {63, 65};
    EXPECT_FALSE(in_8_bits());
  }
}

}  // namespace
}  // namespace ft
