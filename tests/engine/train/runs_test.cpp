// Every optimizer updates a unit in runs of parameters with the same weight decay. The result has the bits of
// an update of one parameter at a time on one rank, in every stage and with any number of ranks. The padding
// between parameters stays zero.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "engine/ranks/local.h"
#include "engine/train/optimizers/list.h"
#include "engine/train/optimizers/optimizer.h"
#include "engine/zero/host_pieces.h"
#include "tests/support/ranks.h"

namespace ft {
namespace {

struct Toy {
  explicit Toy(DType dtype) {
    for (const auto& [name, shape, decays] : {std::tuple{"q", Shape{301}, true},
                                              {"k", {7, 11}, true},
                                              {"bias", {5}, false},
                                              {"norm", {131}, false},
                                              {"up", {2, 5, 19}, true},
                                              {"tall", {40, 6}, true}}) {
      Parameter& p = parameters.emplace_back();
      p.name = name;
      p.shape = shape;
      p.dtype = dtype;
      p.trainable = true;
      p.decays = decays;
    }
  }
  std::vector<Parameter*> pointers() {
    std::vector<Parameter*> all;
    for (Parameter& p : parameters) all.push_back(&p);
    return all;
  }
  std::vector<Parameter> parameters;
};

using Trained = std::map<std::string, std::vector<float>>;  // masters and states

// Steps one parameter at a time.
void step_each(Ops& ops, ParameterStore& store, const Optimizer& optimizer, const StepScalars& scalars) {
  store.stepping().each_slice([&](const Slice& s) {
    optimizer.step(ops, {s, s.parameter->name, s.parameter->decays}, scalars);
  });
  store.publish();
}

// Counts elements that belong to no parameter, and expects that they are zero.
std::int64_t padding_of(ParameterStore& store) {
  std::int64_t padding = 0;
  store.stepping().each_run([&](const FlatRun& run) {
    std::vector<bool> used(static_cast<std::size_t>(run.master.numel()));
    store.stepping().each_slice([&](const Slice& s) {
      const std::int64_t first = s.master.as<float>() - run.master.as<float>();
      if (first >= 0 && first < run.master.numel()) std::fill_n(used.begin() + first, s.count, true);
    });
    std::vector<Tensor> arrays{run.master, run.grad};
    arrays.insert(arrays.end(), run.states.begin(), run.states.end());
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (used[i]) continue;
      ++padding;
      for (const Tensor& a : arrays) {
        if (!a || a.dtype != DType::f32 || a.numel() != run.master.numel()) continue;
        EXPECT_EQ(a.as<float>()[i], 0) << run.unit << " " << i;
      }
    }
  });
  return padding;
}

struct Layouts {
  int ranks = 1, stage = 0;
  std::int64_t persist = 0;
  DType dtype = DType::f32;
};

using Step = void (*)(Ops&, ParameterStore&, const Optimizer&, const StepScalars&);

void step_all(Ops& ops, ParameterStore& store, const Optimizer& optimizer, const StepScalars& scalars) {
  Arena scratch(ops.allocate(1 << 16), 1 << 16);
  take_step(ops, store, optimizer, scalars, &scratch);
}

Trained train(const TrainingConfig& config, const Layouts& l, Step step) {
  Trained all;
  std::int64_t padding = 0;
  std::mutex together;  // ranks are threads
  run_ranks(l.ranks, false, [&](Communicator& comm) {
    cpu::CpuOps ops(1);
    Toy toy(l.dtype);
    const auto optimizer = make_optimizer(config);
    ParameterStore store(ops, comm, {.stage = ZeroStage::of(l.stage), .persist = l.persist},
                         states_of(config));
    store.add_unit("block", toy.pointers());
    store.reserve({.values = 1 << 16, .grads = 1 << 16});
    store.load([](const Parameter& p, Tensor y, std::int64_t first) {
      for (std::int64_t i = 0; i < y.numel(); ++i)
        y.as<float>()[i] = static_cast<float>(std::sin(double(first + i) + double(p.name.size())));
    });
    for (std::int64_t number = 1; number <= 4; ++number) {
      store.begin_step();
      store.stepping().each_slice([&](const Slice& s) {
        for (std::int64_t i = 0; i < s.count; ++i)
          s.grad.as<float>()[i] = static_cast<float>(std::cos(0.7 * double(s.first + i) + double(number)));
      });
      step(ops, store, *optimizer, {.rate = 1e-2, .grad_scale = 0.7, .step = number});
    }
    const std::lock_guard lock(together);
    padding += padding_of(store);
    store.parts().each_part([&](const Slice& s, HostPieces&) {
      const auto put = [&](const std::string& name, const Tensor& t, std::int64_t first) {
        std::vector<float>& to = all[name];
        to.resize(static_cast<std::size_t>(s.parameter->shape.numel()));
        for (std::int64_t i = 0; i < t.numel(); ++i)
          to[static_cast<std::size_t>(first + i)] =
              t.dtype == DType::u8 ? t.as<std::uint8_t>()[i] : t.as<float>()[i];
      };
      put(s.parameter->name, s.master, s.first);
      const auto specs = store.layout().states(*s.parameter);
      for (std::size_t k = 0; k < specs.size(); ++k)
        if (s.states[k])
          put(str(s.parameter->name, ".", specs[k].name), s.states[k],
              specs[k].unsharded() ? 0 : s.first / specs[k].block);
    });
  });
  EXPECT_GT(padding, 0);
  return all;
}

struct Choice {
  Optim optim;
  const char* args;
};
class Runs : public testing::TestWithParam<Choice> {};

TEST_P(Runs, AreBitwiseOneParameterAtATime) {
  TrainingConfig config;
  config.optim = GetParam().optim;
  config.optim_args = GetParam().args;
  config.ema_decay = 0.9;
  config.weight_decay = 0.1;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Trained want = train(config, {.dtype = dtype}, step_each);
    for (int ranks = 1; ranks <= 3; ++ranks)
      for (int stage = 0; stage < 4; ++stage)
        for (const std::int64_t persist : {0, 100})
          EXPECT_TRUE(train(config, {ranks, stage, persist, dtype}, step_all) == want)
              << ranks << " ranks, stage " << stage << ", persist " << persist;
  }
}

// Adafactor and Muon need a complete parameter: the same bits as on one rank.
TEST(CompleteParameters, HaveTheSameBitsUnderEveryStage) {
  for (const auto& [optim, args] : {std::pair{&optimizers::kAdafactor, "clip_threshold=0.5"},
                                    {&optimizers::kAdafactor, "scale_parameter=True"},
                                    {&optimizers::kMuon, ""}}) {
    TrainingConfig config;
    config.optim = optim;
    config.optim_args = args;
    config.ema_decay = 0.9;
    config.weight_decay = 0.1;
    const Trained want = train(config, {}, step_all);
    for (int ranks = 2; ranks <= 3; ++ranks)
      for (int stage = 0; stage < 4; ++stage)
        EXPECT_TRUE(train(config, {ranks, stage, 100}, step_all) == want)
            << optim->name << " " << args << ": " << ranks << " ranks, stage " << stage;
  }
}

// q and k are one launch, bias and norm another, up and tall a third: six parameters, three launches.
TEST(Units, HaveARunForParametersThatDecayAlike) {
  cpu::CpuOps ops(1);
  LocalCommunicator alone(ops);
  Toy toy(DType::f32);
  ParameterStore store(ops, alone, ZeroStage::of(0));
  store.add_unit("block", toy.pointers());
  store.reserve();
  std::vector<std::pair<std::int64_t, bool>> runs;
  store.stepping().each_run([&](const FlatRun& r) {
    EXPECT_EQ(r.unit, "block");
    runs.emplace_back(r.master.numel(), r.decays);
  });
  // Each parameter begins at a multiple of 64 elements.
  const std::vector<std::pair<std::int64_t, bool>> want{
      {320 + 128, true}, {64 + 192, false}, {192 + 256, true}};
  EXPECT_EQ(runs, want);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Runs,
                         testing::Values(Choice{&optimizers::kAdamW, ""}, Choice{&optimizers::kLion, ""},
                                         Choice{&optimizers::kSgd, ""},
                                         Choice{&optimizers::kSgd, "momentum=0.9"},
                                         Choice{&optimizers::kAdagrad, ""},
                                         Choice{&optimizers::kRmsProp, "momentum=0.9,centered=True"},
                                         Choice{&optimizers::kAdamW8bit, "min_8bit_size=100"},
                                         Choice{&optimizers::kLion8bit, "min_8bit_size=100"},
                                         Choice{&optimizers::kAdEMAMix, "t_alpha=3,t_beta3=3"},
                                         Choice{&optimizers::kAdEMAMix8bit, "min_8bit_size=100"}));

}  // namespace
}  // namespace ft
