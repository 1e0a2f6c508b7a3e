// A small model, and the parts of a store over it, for tests of one part at a time. Values and gradients are
// small integers, so that sums over ranks are exact in any order.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/ops/ops.h"
#include "engine/ops/trace_ops.h"
#include "engine/zero/memory_depot.h"
#include "engine/zero/store/parts.h"
#include "tests/support/ranks.h"

namespace ft::zero {

// Value of element i of a parameter before training.
inline float initial(const Parameter& p, std::int64_t i) {
  return static_cast<float>(i % 13 + p.name.front() % 5 + p.name.back() % 7);
}
// Gradient of element i, made on a rank in a micro-step.
inline float gradient(const Parameter& p, std::int64_t i, int rank, int micro_step = 0) {
  return static_cast<float>(i % 7 + p.name.front() % 3 + 10 * rank + 2 * micro_step);
}
inline void read_initial(const Parameter& p, const Tensor& y, std::int64_t first) {
  for (std::int64_t i = 0; i < y.numel(); ++i)
    if (y.dtype == DType::f32)
      y.as<float>()[i] = initial(p, first + i);
    else
      from_float(y.as<bf16>()[i], initial(p, first + i));
}
inline float element(const Tensor& t, std::int64_t i) {
  return t.dtype == DType::f32 ? t.as<float>()[i] : to_float(t.as<bf16>()[i]);
}

// Three units, each with a trained matrix "w", whose gradient products make, a small trained vector "n" and a
// frozen matrix "f".
struct SmallModel {
  static constexpr int kUnits = 3;
  static constexpr std::int64_t kSmall = 9;

  explicit SmallModel(DType dtype = DType::f32) {
    for (int u = 0; u < kUnits; ++u) {
      const auto add = [&](const char* what, Shape shape, bool trained) {
        all.push_back({.name = str(what, u),
                       .shape = shape,
                       .dtype = dtype,
                       .trainable = trained,
                       .from_products = *what == 'w'});
      };
      add("w", {6, 512 + 64 * u}, true);
      add("n", {kSmall}, true);
      add("f", {5, 512}, false);
    }
  }
  void add_to(Layout& layout, bool on_demand = false) {
    for (int u = 0; u < kUnits; ++u)
      layout.add_unit(str("unit ", u), {&at(u, 0), &at(u, 1), &at(u, 2)}, on_demand);
  }
  Parameter& at(int unit, int which) { return all[static_cast<std::size_t>(3 * unit + which)]; }
  // Adds gradients to all trained parameters of a unit.
  void make_gradients(int unit, int rank, int micro_step = 0) {
    for (const int which : {0, 1}) {
      Parameter& p = at(unit, which);
      const bool overwrites = std::exchange(p.grad_unset, false);
      for (std::int64_t i = 0; i < p.shape.numel(); ++i) {
        float& element = p.grad.as<float>()[i];
        element = (overwrites ? 0 : element) + gradient(p, i, rank, micro_step);
      }
    }
  }

  std::vector<Parameter> all;
};

// The parts of a store, as ParameterStore puts them together.
struct SmallStore {
  static constexpr std::int64_t kRoom = std::int64_t{1} << 20;  // bytes of each kind of temporary memory

  SmallStore(Communicator& comm, const ZeroOptions& options, const StatesOf& states = no_states,
             Homes given = {}, DType dtype = DType::f32, bool on_demand = false)
      : model(dtype),
        homes(std::move(given)),
        ranks(comm, options, nullptr),
        layout(ranks, options, states, homes.params != nullptr),
        residency(ops, layout, homes.params),
        reduction(ops, layout, homes.states),
        stepping(ops, layout, homes, residency, reduction),
        parts(ops, layout, stepping, reduction.home()) {
    model.add_to(layout, on_demand);
    layout.each_group([&](const Group& g) {
      residency.reserve(g);
      if (!g.trained) return;
      stepping.reserve(g);
      reduction.reserve(g);
    });
    residency.reserve_gathered(kRoom);
    reduction.reserve_complete(kRoom);
    stepping.reserve_windows(kRoom);
    homes.each_depot([](Depot& d) { d.open(); });
    layout.each_group([&](const Group& g) {
      if (!g.trained) residency.load(g, read_initial);
    });
    parts.restore_masters(read_initial);
    stepping.publish();
  }
  ~SmallStore() {
    stepping.stop();
    if (residency.pending() || reduction.pending()) ranks.all.abandon();
  }

  // Runs a forward and a backward pass.
  void micro_step(int number, bool last) {
    reduction.begin_micro_step(last);
    for (int u = SmallModel::kUnits; u-- > 0;) {
      residency.acquire(u);
      reduction.acquire(u);
      model.make_gradients(u, ranks.all.rank(), number);
      reduction.reduce(u, true);
      if (residency.release(u)) reduction.release(u);
    }
  }
  void step(int micro_steps, std::optional<EarlyStep> early = {}, bool own = false) {
    stepping.finish_early();
    reduction.begin_step(own);
    stepping.begin_step(std::move(early));
    residency.forget_copies();
    for (int m = 0; m < micro_steps; ++m) micro_step(m, m + 1 == micro_steps);
  }
  double norm() {
    return reduction.norm(1, [&](const std::function<void(const Slice&)>& visit) {
      stepping.each_slice(Placement::sharded, {.grads = true}, visit);
    });
  }
  // Returns the sum of an element's gradients over all ranks and `micro_steps`.
  float summed(const Parameter& p, std::int64_t i, int micro_steps) const {
    float sum = 0;
    for (int r = 0; r < ranks.all.size(); ++r)
      for (int m = 0; m < micro_steps; ++m) sum += gradient(p, i, r, m);
    return sum;
  }

  cpu::CpuOps device{1};
  TraceOps ops{device};
  SmallModel model;
  const Homes homes;
  const StoreRanks ranks;
  Layout layout;
  Residency residency;
  Reduction reduction;
  Stepping stepping;
  Parts parts;
};

inline ZeroOptions of_stage(int stage, bool overlap = false) {
  return {.stage = ZeroStage::of(stage), .persist = SmallModel::kSmall, .overlap = overlap};
}

}  // namespace ft::zero
