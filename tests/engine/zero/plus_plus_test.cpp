// ZeRO++ under a toy model of matrices: rounding errors of sent values, second copies that change no bit,
// bytes sent as in the formula, memory as planned.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "engine/ops/null_ops.h"
#include "engine/ranks/coded.h"
#include "engine/zero/formula.h"
#include "engine/zero/parameter_store.h"
#include "engine/zero/planned.h"
#include "tests/support/ranks.h"

namespace ft {
namespace {

constexpr int kUnits = 3, kRanks = 4;
constexpr std::int64_t kRows = 12, kColumns = 512;  // full blocks of codes for every rank
constexpr std::int64_t kEach = kRows * kColumns;

// Each unit has a trained matrix and a frozen one, and on request a trained vector.
struct Toy {
  Toy(DType dtype, bool vectors) {
    all.reserve(3 * kUnits);
    for (int u = 0; u < kUnits; ++u) {
      auto& parameters = units.emplace_back();
      const auto add = [&](const char* what, Shape shape, bool trained) {
        all.push_back({.name = str(what, u), .shape = shape, .dtype = dtype, .trainable = trained});
        parameters.push_back(&all.back());
      };
      add("w", {kRows, kColumns}, true);
      add("f", {kRows, kColumns}, false);
      if (vectors) add("v", {kColumns}, true);
    }
  }
  void add_units(ParameterStore& store) {
    for (int u = 0; u < kUnits; ++u) store.add_unit(str("unit ", u), units[static_cast<std::size_t>(u)]);
  }
  std::vector<Parameter> all;
  std::vector<std::vector<Parameter*>> units;
};

double start(const Parameter& p, std::int64_t i) {
  return std::cos(0.37 * double(i * i % 1009) + double(p.name.back()) + double(p.name.front()));
}
double gradient(int rank, std::int64_t i) { return std::sin(0.61 * double(i * i % 997) + 2.0 * rank); }

double value(const Tensor& t, std::int64_t i) {
  return t.dtype == DType::f32 ? t.as<float>()[i] : to_float(t.as<bf16>()[i]);
}

struct Seen {  // by one rank
  std::map<std::string, std::vector<double>> values, backward, masters, grads;
  std::int64_t sent = 0;  // in the last step
  StoreMemory memory;
};

// Runs a forward and a backward pass with invented gradients.
void micro_step(ParameterStore& store, Toy& toy, Seen* seen, int rank, bool last) {
  store.begin_micro_step(last);
  std::vector<int> order;
  for (int u = 0; u < kUnits; ++u) order.push_back(u);
  for (int u = kUnits; u-- > 0;) order.push_back(u);
  store.expect(order);
  const auto look = [](const Parameter& p) {
    std::vector<double> all;
    for (std::int64_t i = 0; i < p.shape.numel(); ++i) all.push_back(value(p.value, i));
    return all;
  };
  for (int u = 0; u < kUnits; ++u) {
    const Use use(store, u, false);
    for (const Parameter* p : toy.units[static_cast<std::size_t>(u)])
      if (seen) seen->values[p->name] = look(*p);
  }
  for (int u = kUnits; u-- > 0;) {
    const Use use(store, u, true);
    for (const Parameter* p : toy.units[static_cast<std::size_t>(u)]) {
      if (seen) seen->backward[p->name] = look(*p);
      for (std::int64_t i = 0; seen && p->trainable && i < p->shape.numel(); ++i)
        p->grad.as<float>()[i] += static_cast<float>(gradient(rank, i) + 0.1 * value(p->value, i));
    }
    store.reduce(u, true);
  }
}

TransientMemory planned(const ZeroOptions& options, DType dtype, bool vectors) {
  NullOps null;
  PlannedCommunicator comm(kRanks, 0);
  ParameterStore store(null, comm, options);
  Toy toy(dtype, vectors);
  toy.add_units(store);
  store.reserve(kMeasured);
  store.begin_step();
  for (int m = 0; m < 2; ++m) micro_step(store, toy, nullptr, -1, m == 1);
  store.stepping().each_run([](const FlatRun&) {});
  return store.transient();
}

ZeroOptions options(bool values, bool grads, int near, bool overlap = true) {
  return {.stage = ZeroStage::of(3),
          .persist = 0,
          .prefetch = 4 * kEach,
          .overlap = overlap,
          .coded_values = values,
          .coded_grads = grads,
          .near = near};
}

// Returns the values that each rank used in two steps of gradient descent, each of some micro-steps.
std::vector<Seen> train(const ZeroOptions& options, DType dtype = DType::f32, int micro_steps = 1,
                        bool vectors = false) {
  std::vector<Seen> all(kRanks);
  run_ranks(kRanks, options.overlap, [&](Communicator& comm) {
    cpu::CpuOps ops(1);
    Toy toy(dtype, vectors);
    ParameterStore store(ops, comm, options);
    toy.add_units(store);
    store.reserve(planned(options, dtype, vectors));
    store.load([](const Parameter& p, Tensor y, std::int64_t first) {
      for (std::int64_t i = 0; i < y.numel(); ++i)
        if (y.dtype == DType::f32)
          y.as<float>()[i] = static_cast<float>(start(p, first + i));
        else
          from_float(y.as<bf16>()[i], static_cast<float>(start(p, first + i)));
    });
    Seen& seen = all[static_cast<std::size_t>(comm.rank())];
    for (int step = 0; step < 2; ++step) {
      const std::int64_t before = comm.sent();
      store.begin_step();
      for (int m = 0; m < micro_steps; ++m)
        micro_step(store, toy, &seen, comm.rank() + m, m + 1 == micro_steps);
      store.stepping().each_slice([&](const Slice& s) {
        auto& grads = seen.grads[s.parameter->name];
        grads.resize(static_cast<std::size_t>(s.parameter->shape.numel()));
        for (std::int64_t i = 0; i < s.count; ++i)
          grads[static_cast<std::size_t>(s.first + i)] = s.grad.as<float>()[i];
      });
      store.stepping().each_run([&](const FlatRun& r) {
        for (std::int64_t i = 0; i < r.master.numel(); ++i)
          r.master.as<float>()[i] -= 0.01f * r.grad.as<float>()[i];
        if (r.value) ops.run(op::Cast{r.value, r.master});
      });
      store.publish();
      seen.sent = comm.sent() - before;
    }
    store.stepping().each_slice([&](const Slice& s) {
      auto& masters = seen.masters[s.parameter->name];
      for (std::int64_t i = 0; i < s.count; ++i) masters.push_back(s.master.as<float>()[i]);
    });
    seen.memory = store.memory();
  });
  return all;
}

double nmse(const std::vector<double>& got, const std::vector<double>& want) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    off += (got[i] - want[i]) * (got[i] - want[i]);
    all += want[i] * want[i];
  }
  return off / all;
}

TEST(PlusPlus, SecondCopiesChangeNoBit) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool values : {false, true})
      for (const int micro_steps : {1, 2}) {
        const auto want = train(options(values, false, 0), dtype, micro_steps, true);
        for (const bool overlap : {true, false}) {
          const auto got = train(options(values, false, 2, overlap), dtype, micro_steps, true);
          for (std::size_t r = 0; r < kRanks; ++r) {
            EXPECT_EQ(got[r].values, want[r].values);
            EXPECT_EQ(got[r].backward, want[r].backward);
            EXPECT_EQ(got[r].masters, want[r].masters);
          }
        }
      }
}

TEST(PlusPlus, ValuesIn8BitsAreNearAndTheSameEverywhere) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto exact = train(options(false, false, 0), dtype, 1, true);
    const auto got = train(options(true, false, 0), dtype, 1, true);
    for (const auto& [name, values] : got[0].values) {
      for (std::size_t r = 1; r < kRanks; ++r) EXPECT_EQ(got[r].values.at(name), values) << name;
      EXPECT_EQ(got[0].backward.at(name), values) << name;
      const std::vector<double>& want = exact[0].values.at(name);
      EXPECT_LT(nmse(values, want), 1e-4) << name;
      if (name.front() == 'v') continue;  // sent without rounding
      EXPECT_GT(nmse(values, want), 1e-6) << name;
    }
    EXPECT_LT(nmse(got[0].values.at("v0"), exact[0].values.at("v0")), 1e-9);
  }
}

// Adds up the pieces of all ranks.
std::map<std::string, std::vector<double>> whole_grads(const std::vector<Seen>& ranks) {
  std::map<std::string, std::vector<double>> all;
  for (const Seen& seen : ranks)
    for (const auto& [name, piece] : seen.grads) {
      all[name].resize(piece.size());
      for (std::size_t i = 0; i < piece.size(); ++i) all[name][i] += piece[i];
    }
  return all;
}

// Each rank gets its piece of the sum within the bounds; groups of near ranks cause one more rounding.
TEST(PlusPlus, GradientsIn4BitsAreWithinTheirBounds) {
  const auto exact = whole_grads(train(options(false, false, 0), DType::f32, 1, true));
  double before = 0;
  for (const int near : {0, 2}) {
    const auto got = whole_grads(train(options(false, true, near), DType::f32, 1, true));
    double worst = 0;
    for (int u = 0; u < kUnits; ++u)
      worst = std::max(worst, nmse(got.at(str("w", u)), exact.at(str("w", u))));
    EXPECT_LT(worst, near == 0 ? 0.03 : 0.06) << near;
    EXPECT_GT(worst, before) << near;
    EXPECT_LT(nmse(got.at("v0"), exact.at("v0")), 1e-4);  // sent without rounding; the values differ
    before = worst;
  }
}

TEST(PlusPlus, OverlapChangesNothing) {
  const auto want = train(options(true, true, 2, true), DType::bf16, 2, true),
             got = train(options(true, true, 2, false), DType::bf16, 2, true);
  for (std::size_t r = 0; r < kRanks; ++r) {
    EXPECT_EQ(got[r].masters, want[r].masters);
    EXPECT_EQ(got[r].sent, want[r].sent);
  }
}

TEST(PlusPlus, BytesOnTheWireAreThoseOfTheFormula) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool values : {false, true})
      for (const bool grads : {false, true})
        for (const int near : {0, 2})
          for (const int micro_steps : {1, 3}) {
            const double trained = kUnits * kEach,
                         frozen = trained * (values ? coded_size(8) : double(size_of(dtype)));
            const double want = sent_bytes(
                PlusPlus{.values = values, .gradients = grads, .near = std::max(1.0, double(near))}, kRanks,
                trained, frozen, bytes_of(dtype, {}), micro_steps);
            for (const Seen& seen : train(options(values, grads, near), dtype, micro_steps))
              EXPECT_EQ(double(seen.sent), want) << values << grads << near << micro_steps;
          }
}

TEST(PlusPlus, ASecondCopyTakesItsShare) {
  const auto without = train(options(false, false, 0), DType::bf16),
             with = train(options(false, false, 2), DType::bf16);
  EXPECT_EQ(with[0].memory.communication - without[0].memory.communication, 2 * kUnits * kEach * 2 / 2);
  const auto coded = train(options(true, false, 2), DType::bf16),
             alone = train(options(true, false, 0), DType::bf16);
  EXPECT_EQ(coded[0].memory.communication - alone[0].memory.communication,
            2 * kUnits * kRanks * coded_bytes(kEach / kRanks, 8) / 2);
}

// Infinity stays infinite or NaN. The norm then stops the run or skips the step.
TEST(PlusPlus, AGradientThatIsNotFiniteStaysSo) {
  run_ranks(2, true, [](Communicator& comm) {
    cpu::CpuOps ops(1);
    std::vector<float> all(1024, 1), mine(512);
    if (comm.rank() == 1) all[700] = INFINITY;
    const Buffer memory = ops.allocate(CodedSum::bytes(1024, 2, 1));
    CodedSum sum(ops, memory.get(), 1024, 2, 1);
    sum.encode({reinterpret_cast<std::byte*>(all.data()), DType::f32, {1024}});
    sum.first(comm);
    sum.add_to({reinterpret_cast<std::byte*>(mine.data()), DType::f32, {512}});
    for (std::size_t i = 0; i < 256; ++i) {
      const bool bad = comm.rank() == 1;
      EXPECT_EQ(std::isnan(mine[i]), bad);
      if (!bad) {
        EXPECT_NEAR(mine[i], 2, 1e-6);
      }
      EXPECT_NEAR(mine[256 + i], 2, 1e-6);
    }
  });
}

}  // namespace
}  // namespace ft
