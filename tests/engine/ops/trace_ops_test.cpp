// TraceOps: exact FLOPs, a timeline that parses, and the name of the first NaN.
#include "engine/ops/trace_ops.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/cpu/cpu_ops.h"
#include "engine/ops/null_ops.h"
#include "tests/support/matrix.h"

namespace ft {
namespace {

using test::Matrix;

TEST(TraceOps, CountsTheFlopsOfProductsExactly) {
  NullOps null;
  TraceOps ops(null);
  const Matrix y(5, 7, DType::f32), x(5, 11, DType::f32), w(7, 11, DType::f32), u(5, 2, DType::f32),
      b(2, 7, DType::f32);
  const Term terms[]{{x, Trans::no, w, Trans::yes}, {u, Trans::no, b, Trans::no}};
  ops.run(op::Products{.y = y, .terms = terms});
  EXPECT_EQ(ops.flops(), 2 * 5 * 7 * (11 + 2));
  product(ops, y, terms[0], 1, y);
  ASSERT_EQ(ops.totals().size(), 1u);
  EXPECT_EQ(ops.totals()[0].op, "products");
  EXPECT_EQ(ops.totals()[0].calls, 2);
  EXPECT_EQ(ops.totals()[0].bytes, 4 * ((35 + 55 + 77 + 10 + 14) + (35 + 55 + 77 + 35)));
  ops.clear();
  EXPECT_EQ(ops.flops(), 0);
}

TEST(TraceOps, StoppedItOnlyPassesCallsOn) {
  cpu::CpuOps cpu(1);
  TraceOps ops(cpu, {.calls = true});
  const Matrix y(1, 1, DType::f32);
  ops.run(op::Fill{y, 1});
  ops.stop();
  ops.run(op::Fill{y, 2});
  EXPECT_EQ(ops.calls().size(), 1u);
  EXPECT_EQ(ops.totals()[0].calls, 1);
  EXPECT_EQ(y.get(0, 0), 2);
}

// Counts the pairs one by one.
double pairs(const Mask& mask) {
  double n = 0;
  for (std::size_t s = 1; s < mask.starts.size(); ++s)
    for (int q = mask.starts[s - 1]; q < mask.starts[s]; ++q)
      for (int k = mask.starts[s - 1]; k < mask.starts[s]; ++k)
        n += (!mask.causal || k <= q) && (mask.window == 0 || k > q - mask.window);
  return n;
}

TEST(TraceOps, CountsOnlyPairsThatTheMaskShows) {
  const std::vector<std::int32_t> starts{0, 1, 8, 8, 21};
  for (const bool causal : {true, false})
    for (const std::int64_t window : {0, 1, 3, 7, 100}) {
      const Mask mask{starts, causal, window};
      EXPECT_EQ(visible_pairs(mask), pairs(mask)) << causal << " " << window;
      NullOps null;
      TraceOps ops(null);
      const Matrix q(21, 24, DType::bf16), k(21, 12, DType::bf16), lse(4, 21, DType::f32);
      ops.run(op::Attention{.y = q, .lse = lse, .q = q, .k = k, .v = k, .heads = {4, 2, 6}, .mask = mask});
      EXPECT_EQ(ops.flops(), 4 * 24 * pairs(mask));
      ops.run(op::AttentionGrad{.dq = q,
                                .dk = k,
                                .dv = k,
                                .dy = q,
                                .y = q,
                                .lse = lse,
                                .q = q,
                                .k = k,
                                .v = k,
                                .heads = {4, 2, 6},
                                .mask = mask});
      EXPECT_EQ(ops.flops(), 14 * 24 * pairs(mask));
    }
}

TEST(TraceOps, CountsAllPairsOfCrossAttention) {
  const std::vector<std::int32_t> starts{0, 2, 2, 5}, keys{0, 3, 7, 8};
  EXPECT_EQ(visible_pairs({starts, false, 0, keys}), 2 * 3 + 0 * 4 + 3 * 1);
}

TEST(TraceOps, CountsOnlyBlocksThatAreKept) {
  BlockLayout layout(2, 40, 16);
  for (std::int64_t h = 0; h < 2; ++h)
    for (std::int64_t r = 0; r < 40; ++r)
      for (std::int64_t c = 0; c < 40; ++c)
        if (r == c || (r * 7 + c * 3 + h) % 5 == 0) layout.keep(h, r, c);
  for (const std::int64_t n : {1, 16, 21, 32, 513, 640})
    for (const bool causal : {true, false})
      for (const std::int64_t window : {0, 1, 40, 700}) {
        double want = 0;
        for (int h = 0; h < 2; ++h)
          for (int q = 0; q < n; ++q)
            for (int k = 0; k < n; ++k)
              want +=
                  (!causal || k <= q) && (window == 0 || k > q - window) && layout.keeps(h, q / 16, k / 16);
        EXPECT_EQ(layout.pairs(n, causal, window), want / 2) << n << " " << causal << " " << window;
      }
  std::vector<std::int32_t> bits(2 * 40 * 2);
  const Tensor words(reinterpret_cast<std::byte*>(bits.data()), DType::i32, {80, 2});
  const std::vector<std::int32_t> starts{0, 5, 21};
  EXPECT_EQ(visible_pairs({.starts = starts, .blocks = {&layout, words}}),
            layout.pairs(5, true, 0) + layout.pairs(16, true, 0));
}

TEST(TraceOps, ElementwiseWorkHasBytesButNoFlops) {
  NullOps null;
  TraceOps ops(null);
  const Matrix a(3, 5, DType::bf16), b(3, 5, DType::f32);
  ops.run(op::Add{a, b});
  EXPECT_EQ(ops.flops(), 0);
  EXPECT_EQ(ops.totals().at(0).bytes, 15 * (2 + 2 + 4));
}

TEST(TraceOps, TheTimelineIsJsonWithLabelsAroundCalls) {
  NullOps null;
  TraceOps ops(null, {.calls = true});
  const Matrix a(3, 5, DType::f32);
  ops.enter("model.layers.0 \"odd\\ name\"\n");
  ops.run(op::Fill{a, 1});
  ops.run(op::Add{a, a});
  ops.enter("lm_head");
  ops.run(op::Fill{a, 1});
  std::ostringstream text;
  ops.write_timeline(text);
  auto events = nlohmann::json::parse(text.str()).at("traceEvents");
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events[0].at("args").at("name"), "computation");
  events.erase(0);
  EXPECT_EQ(events[0].at("name"), "model.layers.0 \"odd\\ name\"\n");
  EXPECT_EQ(events[1].at("name"), "fill");
  EXPECT_EQ(events[2].at("name"), "add");
  EXPECT_EQ(events[3].at("name"), "lm_head");
  for (const auto& e : events) {
    EXPECT_EQ(e.at("ph"), "X");
    EXPECT_GE(e.at("dur").get<double>(), 0);
  }
  const double end = events[0].at("ts").get<double>() + events[0].at("dur").get<double>();
  EXPECT_LE(events[0].at("ts").get<double>(), events[1].at("ts").get<double>());
  EXPECT_GE(end + 0.002, events[2].at("ts").get<double>() + events[2].at("dur").get<double>());
  EXPECT_EQ(ops.calls().size(), 3u);
}

TEST(TraceOps, CommunicationIsASeparateThread) {
  NullOps null;
  TraceOps ops(null, {.calls = true});
  const std::vector<TraceCall> beside{
      {"all_gather", "lm_head", Phase::reduce, steady_seconds(), 0.5, 0, 2e6}};
  ops.run(op::Fill{Matrix(3, 5, DType::f32), 1});
  std::ostringstream text;
  ops.write_timeline(text, beside);
  const auto events = nlohmann::json::parse(text.str()).at("traceEvents");
  ASSERT_EQ(events.size(), 6u);  // a name, a label and a call for each thread
  EXPECT_EQ(events[3].at("args").at("name"), "communication");
  EXPECT_EQ(events[5].at("name"), "all_gather");
  EXPECT_EQ(events[5].at("tid"), 2);
  EXPECT_EQ(events[5].at("args").at("MB"), 2);
  EXPECT_LT(events[5].at("ts").get<double>(), events[2].at("ts").get<double>());
}

// A device that computes nothing; the time of the n-th mark is n * n.
class TickingOps final : public OpsOf<TickingOps> {
 public:
  explicit TickingOps(std::int64_t room) : room_(room) {}
  Device device() const override { return {}; }
  Buffer allocate(std::int64_t bytes) override { return null_.allocate(bytes); }
  void copy(Tensor, Tensor) override {}
  void upload(Tensor, const void*) override {}
  void download(void*, Tensor) override {}
  void synchronize() override {}
  std::unique_ptr<Stamps> stamps(std::int64_t) override { return std::make_unique<Ticks>(*this); }
  int takes() const { return takes_; }

 private:
  friend OpsOf<TickingOps>;
  void compute(const auto&) {}

  struct Ticks final : Stamps {
    explicit Ticks(TickingOps& owner) : ops(owner) {}
    std::size_t mark() override {
      times.push_back(ops.marks_ * ops.marks_);
      ++ops.marks_;
      return times.size() - 1;
    }
    std::int64_t room() const override { return ops.room_ - static_cast<std::int64_t>(times.size()); }
    std::vector<double> take() override {
      ops.takes_ += !times.empty();
      return std::exchange(times, {});
    }
    TickingOps& ops;
    std::vector<double> times;
  };

  NullOps null_;
  std::int64_t room_;
  double marks_ = 0;
  int takes_ = 0;
};

TEST(TraceOps, TimesAreTheDevicesAndGapsLieBetweenCalls) {
  TickingOps device(100);
  TraceOps ops(device, {.calls = true});
  const Matrix a(3, 5, DType::f32);
  for (int i = 0; i < 3; ++i) ops.run(op::Fill{a, 1});  // from 0 to 1, 4 to 9, 16 to 25
  EXPECT_EQ(device.takes(), 0);
  ASSERT_EQ(ops.calls().size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ops.calls()[std::size_t(i)].start, 4 * i * i);
    EXPECT_EQ(ops.calls()[std::size_t(i)].seconds, 4 * i + 1);
  }
  EXPECT_EQ(ops.seconds(), 1 + 5 + 9);
  EXPECT_EQ(ops.gaps(), 3 + 7);
  EXPECT_EQ(device.takes(), 1);
  std::ostringstream table;
  ops.write_table(table);
  EXPECT_NE(table.str().find("gaps                    -   10000.00   40.0"), std::string::npos)
      << table.str();
  ops.clear();
  EXPECT_EQ(ops.gaps(), 0);
}

TEST(TraceOps, SharesOfACallFollowEachOther) {
  TickingOps device(100);
  TraceOps ops(device, {.calls = true});
  const Matrix y(5, 7, DType::f32), x(5, 12, DType::f32), w(7, 12, DType::f32), u(5, 4, DType::f32),
      b(7, 4, DType::f32);
  const Term terms[]{{x, Trans::no, w, Trans::yes, {}, "q"}, {u, Trans::no, b, Trans::yes, {}, "k"}};
  ops.run(op::Fill{y, 1});                        // from 0 to 1
  ops.run(op::Products{.y = y, .terms = terms});  // from 4 to 9
  ASSERT_EQ(ops.calls().size(), 3u);
  EXPECT_EQ(ops.calls()[1].where, "q");
  EXPECT_EQ(ops.calls()[1].start, 4);
  EXPECT_EQ(ops.calls()[1].seconds, 3.75);
  EXPECT_EQ(ops.calls()[2].where, "k");
  EXPECT_EQ(ops.calls()[2].start, 7.75);
  EXPECT_EQ(ops.calls()[2].seconds, 1.25);
  EXPECT_EQ(ops.gaps(), 3);
  EXPECT_EQ(ops.totals()[0].calls, 1);
}

TEST(TraceOps, ReadsItsMarksWhenNoRoomIsLeft) {
  TickingOps device(4);
  TraceOps ops(device, {.calls = true});
  const Matrix a(3, 5, DType::f32);
  for (int i = 0; i < 5; ++i) ops.run(op::Fill{a, 1});
  EXPECT_EQ(device.takes(), 2);
  EXPECT_EQ(ops.calls().size(), 5u);
  EXPECT_EQ(ops.totals()[0].calls, 5);
  EXPECT_EQ(ops.gaps(), 3 + 11);  // 1 to 4, 25 to 36; the marks were read from 9 to 16
}

TEST(Phases, AreTimedByTheDevicesMarks) {
  TickingOps device(4);
  Phases phases;
  phases.measure(device.stamps(4));  // 0
  phases.turn_to(Phase::forward);    // 1
  phases.turn_to(Phase::backward);   // 4: room for one more mark only, so they are read; 9 begins anew
  phases.turn_to(Phase::backward);
  phases.turn_to(Phase::step);                       // 16
  const Phases::Seconds seconds = phases.seconds();  // 25
  EXPECT_EQ(seconds[std::size_t(Phase::other)], 1);
  EXPECT_EQ(seconds[std::size_t(Phase::forward)], 3);
  EXPECT_EQ(seconds[std::size_t(Phase::backward)], 7);
  EXPECT_EQ(seconds[std::size_t(Phase::step)], 9);
  EXPECT_EQ(Phases().seconds(), Phases::Seconds{});
}

TEST(TraceOps, TheTableHasALineForEveryComputation) {
  NullOps null;
  TraceOps ops(null);
  const Matrix a(3, 5, DType::f32);
  ops.run(op::Fill{a, 1});
  ops.run(op::Fill{a, 1});
  ops.run(op::Add{a, a});
  std::ostringstream text;
  ops.write_table(text);
  std::istringstream lines(text.str());
  std::string line, op;
  std::getline(lines, line);
  std::int64_t calls = 0, all = 0;
  for (int rows = 0; lines >> op >> calls; ++rows) {
    EXPECT_EQ(calls, op == "fill" ? 2 : 1);
    all += calls;
    std::getline(lines, line);
  }
  EXPECT_EQ(all, 3);
}

TEST(TraceOps, NamesTheFirstResultThatIsNotFinite) {
  cpu::CpuOps cpu(1);
  TraceOps ops(cpu, {.finite = true});
  for (const DType type : {DType::f32, DType::bf16})
    for (const double bad : {double(NAN), double(INFINITY)}) {
      Matrix x(2, 5, type, 3), y(2, 5, type, 3), w(1, 5, type), rstd(1, 2, DType::f32);
      x.randomize(1);
      w.randomize(2);
      ops.clear();
      ops.enter("model.layers.2.input_layernorm");
      ops.run(op::RmsNorm{.y = y, .rstd = rstd, .x = x, .w = w, .eps = 1e-5f});
      EXPECT_FALSE(ops.not_finite());
      w.set(0, 4, bad);
      ops.enter("model.layers.3.input_layernorm");
      ops.run(op::RmsNorm{.y = y, .rstd = rstd, .x = x, .w = w, .eps = 1e-5f});
      ops.enter("model.layers.4.input_layernorm");
      ops.run(op::Add{y, y});
      ASSERT_TRUE(ops.not_finite());
      EXPECT_EQ(ops.not_finite()->op, "rms_norm");
      EXPECT_EQ(ops.not_finite()->where, "model.layers.3.input_layernorm");
      EXPECT_EQ(ops.not_finite()->role, "y");
    }
}

TEST(TraceOps, ChangesNoResult) {
  cpu::CpuOps cpu(1);
  TraceOps ops(cpu, {.calls = true, .finite = true});
  Matrix gate(3, 9, DType::bf16), up(3, 9, DType::bf16), y(3, 9, DType::bf16), traced(3, 9, DType::bf16);
  gate.randomize(1);
  up.randomize(2);
  cpu.run(op::Gated{.f = Activation::silu, .y = y, .gate = gate, .up = up});
  ops.run(op::Gated{.f = Activation::silu, .y = traced, .gate = gate, .up = up});
  EXPECT_TRUE(y.same_bytes(traced));
}

}  // namespace
}  // namespace ft
