// Optimizers and clipping, step by step, against torch and transformers (tests/golden/optimizers.*).
#include "engine/train/optimizers/optimizer.h"
#include "engine/zero/host_pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "engine/files/json.h"
#include "engine/files/safetensors/safetensors.h"
#include "engine/ops/ops.h"
#include "engine/ranks/local.h"
#include "engine/zero/file_depot.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using Floats = std::vector<float>;

Tensor view(Floats& x) {
  return {reinterpret_cast<std::byte*>(x.data()), DType::f32, {static_cast<std::int64_t>(x.size())}};
}

class Torch : public testing::TestWithParam<std::string> {
 protected:
  Floats tensor(const std::string& name) const {
    const StoredTensor* t = file_.find(name);
    if (!t) throw std::runtime_error("no golden " + name);
    Floats out(static_cast<std::size_t>(t->numel));
    file_.read(*t, view(out));
    return out;
  }
  Json json_ = read_json(source_path("tests/golden/optimizers.json"));

 private:
  SafetensorsFile file_{source_path("tests/golden/optimizers.safetensors")};
};

TrainingConfig config_of(const Json& run) {
  TrainingConfig t;
  t.optim = value_of<Optim>(run["optim"].get<std::string>()).value();
  t.weight_decay = run["weight_decay"];
  t.adam_beta1 = run["adam_beta1"];
  t.adam_beta2 = run["adam_beta2"];
  t.adam_epsilon = run["adam_epsilon"];
  t.max_grad_norm = run["max_grad_norm"];
  t.adam_w_mode = run.value("adam_w_mode", true);
  if (run.contains("optim_args")) t.optim_args = run["optim_args"];
  return t;
}

TEST_P(Torch, StepByStep) {
  const Json& run = json_["runs"][GetParam()];
  // Muon's products are in bf16, whose last bits depend on the order of sums: a tenth of a step.
  const double tolerance = GetParam().starts_with("muon") ? 1e-3 : 5e-7;
  const TrainingConfig config = config_of(run);
  const auto optimizer = make_optimizer(config);
  const auto ops = make_ops({});
  Arena scratch(ops->allocate(1 << 16), 1 << 16);
  LocalCommunicator alone(*ops);
  ParameterStore store(*ops, alone, ZeroStage::of(0), states_of(config));
  Parameter matrix, vector;
  matrix.name = "matrix";
  matrix.shape = {7, 11};
  vector.name = "vector";
  vector.shape = {13};
  matrix.trainable = vector.trainable = true;
  vector.decays = false;
  store.add_unit("all", {&matrix, &vector});
  store.reserve();
  store.load([&](const Parameter& p, Tensor y, std::int64_t first) {
    const Floats start = tensor("start." + p.name);
    std::copy_n(start.begin() + first, y.numel(), y.as<float>());
  });
  for (std::int64_t step = 0; step < json_["steps"].get<std::int64_t>(); ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    const auto i = static_cast<std::size_t>(step);
    store.begin_step();
    store.stepping().each_slice([&](const Slice& s) {
      Floats grad = tensor("grad." + std::to_string(step) + "." + s.parameter->name);
      ops->upload(s.grad, grad.data());
    });
    const double norm = store.grad_norm(), want_norm = run["grad_norms"][i];
    EXPECT_NEAR(norm, want_norm, 1e-6 * want_norm);
    take_step(*ops, store, *optimizer,
              {run["rates"][i], clip_coefficient(norm, config.max_grad_norm), step + 1}, &scratch);
    for (const Parameter* p : {&matrix, &vector}) {
      Floats got;
      store.parts().each_part([&](const Slice& s, HostPieces& pieces) {
        if (s.parameter != p) return;
        pieces.out_of(s.master, [&](const Tensor& v, std::int64_t) {
          got.insert(got.end(), v.as<float>(), v.as<float>() + v.numel());
        });
      });
      const Floats want = tensor(GetParam() + "." + std::to_string(step) + "." + p->name);
      for (std::size_t k = 0; k < want.size(); ++k)
        EXPECT_NEAR(got[k], want[k], tolerance * std::max(1.0f, std::abs(want[k]))) << p->name << " " << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Torch,
                         testing::Values("adamw", "adamw-decay", "adamw-betas", "adamw-clip",
                                         "adamw-schedule", "adam-decay", "sgd", "sgd-decay", "sgd-clip",
                                         "sgd-momentum", "sgd-nesterov", "adagrad", "adagrad-args", "rmsprop",
                                         "rmsprop-centered", "rmsprop-momentum", "rmsprop-both", "ademamix",
                                         "ademamix-warmups", "adafactor", "adafactor-clip",
                                         "adafactor-relative", "muon", "muon-rms"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Expects that computations read the masters of this pass, rounded.
void expect_rounded_masters(Ops& ops, ParameterStore& store, DType type) {
  store.acquire(0, false);
  store.stepping().each_slice(Placement::sharded, {}, [&](const Slice& s) {
    const auto n = static_cast<std::size_t>(s.count);
    Floats got(n), want(n);
    std::vector<std::byte> narrow(n * 2);
    const Tensor rounded(narrow.data(), type, {s.count});
    ops.run(op::Cast{view(got), Tensor(s.parameter->value.data, type, {s.count})});
    ops.run(op::Cast{rounded, s.master});
    ops.run(op::Cast{view(want), rounded});
    EXPECT_EQ(got, want) << s.parameter->name;
  });
  store.release(0);
}

// Trains two parameters, and a third one from step 3 on.
void expect_values_follow(const OptimizerKind* kind, DType type, bool offloads) {
  TrainingConfig config;
  config.optim = kind;
  config.weight_decay = 0.1;
  const auto optimizer = make_optimizer(config);
  const auto ops = make_ops({});
  Arena scratch(ops->allocate(1 << 20), 1 << 20);
  LocalCommunicator alone(*ops);
  Homes homes;
  if (offloads) homes.params = std::make_shared<FileDepot>(std::filesystem::temp_directory_path(), "test");
  ParameterStore store(*ops, alone, ZeroOptions{.stage = ZeroStage::of(0)}, states_of(config), homes);
  Parameter matrix{.name = "matrix", .shape = {70, 110}, .dtype = type, .trainable = true};
  Parameter vector{.name = "vector", .shape = {13}, .dtype = type, .trainable = true, .decays = false};
  Parameter late{
      .name = "late", .shape = {30, 7}, .dtype = type, .trainable = true, .rule = {.frozen_steps = 2}};
  store.add_unit("all", {&matrix, &vector, &late});
  constexpr std::int64_t kRoom = std::int64_t{1} << 20;
  store.reserve({kRoom, kRoom, kRoom});
  store.load([&](const Parameter&, Tensor y, std::int64_t) { ops->run(op::Fill{y, 1.0f / 3}); });
  expect_rounded_masters(*ops, store, type);
  for (int step = 1; step <= 3; ++step) {
    store.begin_step();
    store.stepping().each_slice([&](const Slice& s) {
      ops->run(op::Fill{s.grad, 0.01f * static_cast<float>(step)});
    });
    take_step(*ops, store, *optimizer, {.rate = 0.05, .grad_scale = 1, .step = step}, &scratch);
    expect_rounded_masters(*ops, store, type);
  }
}

TEST(Optimizers, ValuesFollowMasters) {
  for (const OptimizerKind* kind : OptimizerKind::all())
    for (const DType type : {DType::bf16, DType::f16})
      for (const bool offloads : {false, true}) {
        if (offloads && kind->complete) continue;
        SCOPED_TRACE(str(kind->name, " ", name_of(type), offloads ? " in a file" : ""));
        expect_values_follow(kind, type, offloads);
      }
}

TEST(Optimizers, PagedOnesDifferOnlyInTheirHome) {
  int paged = 0;
  for (const OptimizerKind* kind : OptimizerKind::all()) {
    const OptimizerKind* home = kind->unpaged();
    EXPECT_EQ(home->paged_of, nullptr) << kind->name;
    EXPECT_EQ(std::tie(kind->make, kind->betas, kind->coded, kind->complete, kind->last_stage),
              std::tie(home->make, home->betas, home->coded, home->complete, home->last_stage))
        << kind->name;
    paged += kind != home;
  }
  EXPECT_EQ(paged, 6);
}

}  // namespace
}  // namespace ft
