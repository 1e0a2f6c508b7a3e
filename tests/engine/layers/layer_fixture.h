// Runs one layer on the CPU as a model would, with its parameters in a ParameterStore, and compares its
// results with a reference in f64: tests/reference/layers.h. The reference is a function of everything the
// layer reads, by name; its gradients are complex steps, exact to rounding.
#pragma once
#include <gtest/gtest.h>

#include <complex>
#include <list>

#include "engine/core/error.h"
#include "engine/cpu/cpu_ops.h"
#include "engine/ranks/local.h"
#include "engine/zero/parameter_store.h"
#include "lora/dora.h"
#include "lora/kinds.h"
#include "lora/oft.h"
#include "lora/shira.h"
#include "tests/reference/layers.h"
#include "tests/support/matrix.h"

namespace ft::test {

using reference::Named;
using reference::Values;

inline std::string name_of_type(const testing::TestParamInfo<DType>& info) { return name_of(info.param); }
template <class Case>
std::string name_of_case(const testing::TestParamInfo<std::tuple<Case, DType>>& info) {
  return str(std::get<0>(info.param).name, "_", name_of(std::get<1>(info.param)));
}
inline const auto kTypes = testing::Values(DType::f32, DType::bf16, DType::f16);

// Copies between a dense tensor of any type and doubles.
inline Values<double> values_of(const Tensor& t) {
  const Matrix copy(1, t.numel(), t.dtype);
  std::memcpy(copy.tensor.data, t.data, static_cast<std::size_t>(t.bytes()));
  return copy.values();
}
inline void assign(const Tensor& t, const Values<double>& values) {
  Matrix copy(1, t.numel(), t.dtype);
  copy.assign(values);
  std::memcpy(t.data, copy.tensor.data, static_cast<std::size_t>(t.bytes()));
}
// A vector that has the memory of the Matrix.
inline Tensor as_vector(const Matrix& m) { return m.tensor.view({m.tensor.numel()}); }
// Returns uniform numbers in [-1, 1].
inline Values<double> random_values(const std::string& name, std::int64_t count) {
  Values<double> all;
  for (std::int64_t i = 0; i < count; ++i)
    all.push_back(2 * double(to_uniform(Random{5}.with(name).at(static_cast<std::uint64_t>(i))[0])) - 1);
  return all;
}

// Returns the gradient of sum(dy * f(in)) with respect to in[name].
template <class F>
Values<double> complex_step(F f, const Named<double>& in, const std::string& name, const Values<double>& dy) {
  using C = std::complex<double>;
  constexpr double h = 1e-20;
  Named<C> moved;
  for (const auto& [each, values] : in) moved[each] = {values.begin(), values.end()};
  Values<double> gradient;
  for (C& element : moved.at(name)) {
    element += C(0, h);
    const Values<C> y = f(moved);
    element = element.real();
    double slope = 0;
    for (std::size_t i = 0; i < y.size(); ++i) slope += dy[i] * y[i].imag() / h;
    gradient.push_back(slope);
  }
  return gradient;
}

class LayerRun {
 public:
  explicit LayerRun(DType dtype, bool train = true) : c{ops, saved, scratch, {dtype, Random{11}, train}} {}
  ~LayerRun() {
    if (bound_ >= 0) store.release(bound_);
    EXPECT_EQ(scratch.mark(), 0) << "a layer keeps scratch memory";
    for (const Matrix& m : made_) EXPECT_TRUE(m.intact()) << "bytes outside a tensor changed";
  }
  LayerRun(const LayerRun&) = delete;

  cpu::CpuOps ops{2};
  LocalCommunicator comm{ops};
  ParameterStore store{ops, comm, ZeroStage::of(0)};
  Arena saved = arena(), scratch = arena();
  Ctx c;
  Named<double> in;      // inputs of the reference, by name
  Named<double> stored;  // values of parameters that should not be random

  // Adds the layer as one unit, gives all parameters values and the trained ones gradients that are not 0,
  // and acquires the unit.
  template <class Layer>
  void bind(Layer& layer) {
    bound_ = add(layer);
    start();
    store.acquire(bound_, true);
  }
  // For layers that acquire their own units: add() each, then start().
  template <class Layer>
  int add(Layer& layer) {
    return store.add_unit(str("unit ", store.layout().units()), remember(layer));
  }
  // For layers that add their own units: remember() each, then start().
  template <class Layer>
  std::vector<Parameter*> remember(Layer& layer) {
    const std::vector<Parameter*> own = parameters_of(layer);
    parameters_.insert(parameters_.end(), own.begin(), own.end());
    return own;
  }
  void start() {
    store.reserve();
    for (const Parameter* p : parameters_) {
      const double spread = p->shape.rank == 1 ? 1 : 0.5;  // less for matrices: scores stay small
      const Values<double> random = reference::times(random_values(p->name, p->shape.numel()), spread);
      Matrix rounded(1, p->shape.numel(), p->dtype);
      in[p->name] = rounded.assign(stored.contains(p->name) ? stored[p->name] : random).values();
    }
    store.load([&](const Parameter& p, Tensor y, std::int64_t first) {
      require(first == 0 && y.numel() == p.shape.numel(), "a world of one loads whole parameters");
      assign(y, in.at(p.name));
    });
    store.begin_step();
    store.begin_micro_step(true);
    store.stepping().each_slice([&](const Slice& s) {
      before_[s.parameter->name] = random_values(s.parameter->name + ".grad", s.count);
      assign(s.grad, before_[s.parameter->name]);
    });
  }
  // Returns random activations with gaps between rows.
  Matrix& matrix(std::int64_t rows, std::int64_t cols, const std::string& name) {
    return made_.emplace_back(rows, cols, c.dtype, 3).randomize(hash_name(name), 1);
  }
  // Returns random activations that the reference reads too.
  Matrix& input(std::int64_t rows, std::int64_t cols, const std::string& name) {
    Matrix& m = matrix(rows, cols, name);
    in[name] = m.values();
    return m;
  }

  // Bound on mean squared error over mean square. In f32 only arithmetic rounds: 1e-13 is usual. In 16 bits
  // each value that a layer writes is rounded by up to u = 2^-8 (bf16) or 2^-11 (f16) of itself: u^2 at most,
  // a sixth of it on average, for every rounding on the way.
  double bound(int roundings) const {
    if (c.dtype == DType::f32 || roundings == 0) return 1e-12;
    const double u = c.dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
    return roundings * u * u;
  }
  void expect_near(const Values<double>& got, const Values<double>& want, int roundings,
                   const std::string& what) const {
    EXPECT_LT(nmse(got, want), bound(roundings)) << what;
  }
  // Returns the current gradients of all trained parameters.
  Named<double> gradients() {
    Named<double> all;
    store.stepping().each_slice([&](const Slice& s) { all[s.parameter->name] = values_of(s.grad); });
    return all;
  }
  // Expects that the layer has added the gradient of sum(dy * f(in)) to each of them.
  template <class F>
  void expect_gradients(F f, const Values<double>& dy, int roundings) {
    for (const auto& [name, got] : gradients())
      expect_near(got, reference::add(before_.at(name), complex_step(f, in, name, dy)), roundings, name);
  }

 private:
  // Filled with NaNs, so that a read before the first write shows.
  Arena arena() {
    constexpr std::int64_t size = 1 << 20;
    Buffer memory = ops.allocate(size);
    std::memset(memory.get(), 0xff, size);
    return {std::move(memory), size};
  }

  int bound_ = -1;  // the acquired unit
  std::vector<Parameter*> parameters_;
  Named<double> before_;  // gradients before the layer ran
  std::list<Matrix> made_;
};

// Options of a Linear with random values; frozen unless `trained`.
struct LinearForm {
  bool bias = false, trained = false;
  std::int64_t rank = 0;  // 0: no adapter
  float scale = 2, dropout = 0;
  bool dora = false;  // with magnitudes
  bool lora_bias = false;
  const lora::AdapterKind* kind = &lora::kinds::kLora;
  bool shared = false;  // OFT, whose blocks have at least `rank` inputs
  std::int64_t terms = 5;
};
inline Linear linear(const std::string& name, std::int64_t in, std::int64_t out, LinearForm form,
                     DType dtype) {
  Linear l = make_linear(name, in, out, form.bias, dtype);
  for (Parameter* p : parameters_of(l)) p->trainable = form.trained;
  lora::LoraConfig config;
  config.use_dora = form.dora;
  config.lora_bias = form.lora_bias;
  config.block_share = form.shared;
  config.num_cayley_neumann_terms = form.terms;
  config.oft_block_size = std::min(in, std::max<std::int64_t>(2, form.rank));
  while (in % config.oft_block_size != 0) ++config.oft_block_size;
  if (form.rank > 0)
    l.adapter = form.kind->make(config, {name, in, out, form.rank, form.scale, form.dropout, dtype});
  return l;
}
inline reference::Lora lora_of(const LinearForm& form, const Ctx& c) {
  return {form.scale, c.train ? form.dropout : 0, c.random, form.shared, std::size_t(form.terms)};
}

}  // namespace ft::test
