// Measures the computations of one block of LLaMA-2-7B in bf16 on a GPU, on 4096 tokens, attention of
// T5-Large, and the delta rule of Qwen3.5. Products and attention are given in TFLOP/s. All else is given in
// GB/s that an ideal implementation reads and writes, and in % of the measured copy bandwidth. Operands are
// normal random numbers, because a GPU at its power limit is faster with zeros. Each call uses other operands
// than the last, so that none are in the cache, and the GPU is warm. Times are measured by events: the median
// (least..most) of single calls.
//     bench_gpu [GPU's number] [--only TEXT]    markdown on standard output; TEXT: a part of a row's name
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "bench/optimizer_steps.h"
#include "engine/core/error.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/cuda/gpu.h"
#include "engine/ops/delta_room.h"
#include "engine/ops/ops.h"
#include "engine/ops/trace_ops.h"

namespace ft {
namespace {

constexpr std::int64_t kRows = 4096, kWidth = 4096, kHidden = 11008, kVocabulary = 32000, kLossRows = 512,
                       kRank = 16, kHead = 128;
constexpr int kSets = 4;  // sets of operands; together they are larger than any GPU's cache
constexpr std::int64_t kBytes = std::int64_t{1} << 30;  // bytes of a set

// A pool of normal random numbers that fills tensors of every size. Byte tensors get one constant value.
class Numbers {
 public:
  explicit Numbers(Ops& ops) : ops_(ops), arena_(ops.allocate(8 * kPool), 8 * kPool) {
    std::mt19937 bits(1);
    std::normal_distribution<float> normal;
    std::vector<float> wide(kPool);
    std::vector<bf16> narrow(kPool);
    std::vector<std::uint8_t> bytes(kPool), codes(kPool);
    for (std::size_t i = 0; i < wide.size(); ++i) {
      wide[i] = normal(bits);
      from_float(narrow[i], wide[i]);
      bytes[i] = static_cast<std::uint8_t>(bits());
      codes[i] = fp8_code(wide[i], 0.01f).bits;
    }
    for (const auto& [type, host] : {std::pair<DType, const void*>{DType::f32, wide.data()},
                                     {DType::bf16, narrow.data()},
                                     {DType::u8, bytes.data()}}) {
      pools_.push_back(arena_.take({kPool}, type));
      ops_.upload(pools_.back(), host);
    }
    codes_ = arena_.take({kPool}, DType::u8);
    ops_.upload(codes_, codes.data());
  }

  Tensor fill(const Tensor& t) { return fill(t, *std::ranges::find(pools_, t.dtype, &Tensor::dtype)); }
  // Fills with codes in FP8 of normal numbers.
  Tensor fill_codes(const Tensor& t) { return fill(t, codes_); }

 private:
  Tensor fill(const Tensor& t, const Tensor& pool) {
    const std::int64_t step = kPool / 2 / t.cols();  // rows
    for (std::int64_t row = 0; row < t.rows(); row += step) {
      const std::int64_t rows = std::min(step, t.rows() - row);
      begin_ = (begin_ + 64 * 7919) % (kPool - rows * t.cols());
      const auto from = static_cast<std::byte*>(pool.data) + begin_ / 64 * 64 * size_of(t.dtype);
      ops_.copy(t.slice(row, row + rows), Tensor(from, t.dtype, {rows, t.cols()}));
    }
    return t;
  }

  static constexpr std::int64_t kPool = std::int64_t{1} << 22;
  Ops& ops_;
  Arena arena_;
  std::vector<Tensor> pools_;
  Tensor codes_;
  std::int64_t begin_ = 0;
};

struct Case {
  std::string name;
  std::function<void(Ops&)> call;
};

class Bench {
 public:
  Bench(int gpu, std::string only)
      : only_(std::move(only)), ops_(make_cuda_ops(gpu)), numbers_(*ops_), stamps_(ops_->stamps(2 * kMost)) {
    ops_->reserve_dense(2 * kHidden * kWidth + (1 << 20));
    for (int i = 0; i < kSets; ++i) sets_.emplace_back(ops_->allocate(kBytes), kBytes);
  }

  void run() {
    std::printf("| computation | us | TFLOP/s | GB/s | %% of copy |\n|---|---|---|---|---|\n");
    for (const auto group :
         {&Bench::copy, &Bench::products, &Bench::products_in_fp8, &Bench::attention, &Bench::attention_of_t5,
          &Bench::delta_rule, &Bench::elementwise, &Bench::loss, &Bench::optimizers}) {
      std::vector<std::vector<Case>> sets;
      for (Arena& arena : sets_) {
        arena.rewind(0);
        arena_ = &arena;
        cases_.clear();
        (this->*group)();
        sets.push_back(std::move(cases_));
      }
      for (std::size_t i = 0; i < sets[0].size(); ++i) row(sets, i);
    }
  }

 private:
  void copy() {
    const Tensor y = numbers(kRows, 4 * kHidden), x = numbers(kRows, 4 * kHidden);
    measure(kCopy, [=](Ops& o) { o.copy(y, x); });
  }
  void products() {
    const Tensor x = activations(kRows, kWidth), y = activations(kRows, kWidth),
                 h = activations(kRows, kHidden);
    const Tensor square = numbers(kWidth, kWidth), up = numbers(kHidden, kWidth), a = numbers(kRank, kWidth),
                 b = numbers(kWidth, kRank), u = numbers(kRows, kRank);
    const Tensor da = numbers(kRank, kWidth, DType::f32);
    const auto row = [this](const char* name, Tensor out, const std::vector<Term>& terms, Tensor c = {}) {
      measure(name, [=](Ops& o) { o.run(op::Products{.y = out, .terms = terms, .c = c}); });
    };
    const Term base{x, Trans::no, square, Trans::yes}, adapter{u, Trans::no, b, Trans::yes};
    row("x Wq^T", y, {base});
    row("x Wq^T + u B^T", y, {base, adapter});
    row("x A^T", u, {{x, Trans::no, a, Trans::yes}});
    row("dA += u^T x", da, {{u, Trans::yes, x, Trans::no}}, da);
    row("x Wup^T", h, {{x, Trans::no, up, Trans::yes}});
    row("dh Wup", y, {{h, Trans::no, up, Trans::no}});
    FourBitMatrix w{{FourBitBook::nf4, 64, false}, {kHidden, kWidth}, {}, {}, {}, {}};
    w.codes = flat(numbers(kHidden, kWidth / 2, DType::u8));
    w.absmax = arena_->take({kHidden * kWidth / 64}, DType::f32);
    ops_->run(op::Fill{w.absmax, 1});
    row("x Wup^T, nf4", h, {{x, Trans::no, {}, Trans::yes, w}});
    row("dh Wup, nf4", y, {{h, Trans::no, {}, Trans::no, w}});
    Term in_fp8{x, Trans::no, {}, Trans::yes};
    in_fp8.fp8 = {kFp8Channels, {kHidden, kWidth}, {}, {}};
    in_fp8.fp8.codes = flat(numbers(kHidden, kWidth, DType::u8));
    in_fp8.fp8.scales = arena_->take({kHidden}, DType::f32);
    ops_->run(op::Fill{in_fp8.fp8.scales, 1});
    row("x Wup^T, frozen fp8", h, {in_fp8});
    in_fp8.a = h;
    in_fp8.tb = Trans::no;
    row("dh Wup, frozen fp8", y, {in_fp8});
  }
  // Each product quantizes rows. A product with 16 outputs shows the time for that, and one of 16 rows the
  // time for the transposition of Wup. Codes are those of normal numbers, and scales are 1.
  void products_in_fp8() {
    if (cuda::gpu_of(*ops_).capability() != 9) return;
    const Tensor x = activations(kRows, kWidth), y = activations(kRows, kWidth),
                 h = activations(kRows, kHidden), few = numbers(kRows, 16);
    const auto weight = [this](std::int64_t out, std::int64_t in) {
      Fp8Matrix w{kFp8Channels, {out, in}, flat(numbers_.fill_codes(arena_->take({out, in}, DType::u8))), {}};
      w.scales = flat(constant(1, out, 1));
      return w;
    };
    const auto row = [this](const char* name, Tensor out, Tensor a, Trans trans, const Fp8Matrix& w) {
      Term term{a, Trans::no, {}, trans};
      term.fp8 = w;
      term.fp8_rows = true;
      measure(name, [=](Ops& o) { o.run(op::Products{.y = out, .terms = std::span(&term, 1)}); });
    };
    const Fp8Matrix square = weight(kWidth, kWidth), up = weight(kHidden, kWidth);
    row("x Wq^T, fp8", y, x, Trans::yes, square);
    row("dy Wq, fp8", y, x, Trans::no, square);
    row("x Wup^T, fp8", h, x, Trans::yes, up);
    row("dh Wup, fp8", y, h, Trans::no, up);
    row("x W^T with 16 outputs, fp8", few, x, Trans::yes, weight(16, kWidth));
    row("h W^T with 16 outputs, fp8", few, h, Trans::yes, weight(16, kHidden));
    row("dh Wup of 16 rows, fp8", y.slice(0, 16), h.slice(0, 16), Trans::no, up);
  }
  void attention() {
    attend("attention, causal", kHead, {kRows}, {});
    attend("attention, causal, heads of 64", 64, {kRows}, {});
  }
  // A batch of eight sequences in 16 heads of 64, with and without T5's bias by distance and its dropout.
  void attention_of_t5() {
    Scores scores;
    const std::vector<std::int64_t> eight(8, 512);
    attend("attention, 8 x 512, 16 heads", 64, eight, scores, 1024);
    scores.bias = numbers(2 * 128 + 1, 16);
    attend("attention, 8 x 512, 16 heads, bias", 64, eight, scores, 1024);
    scores.dropout = 0.1f;
    scores.random = Random{1};
    attend("attention, 8 x 512, 16 heads, bias, dropout", 64, eight, scores, 1024);
  }
  void attend(const char* name, std::int64_t width, const std::vector<std::int64_t>& lengths, Scores scores,
              std::int64_t all = kWidth) {
    const Heads heads{all / width, all / width, width};
    const bool causal = lengths.size() == 1;
    if (causal) scores.scale = 1 / std::sqrt(static_cast<float>(width));
    std::vector<std::int32_t> starts{0};
    for (const std::int64_t n : lengths) starts.push_back(starts.back() + static_cast<std::int32_t>(n));
    std::vector<Tensor> t;
    for (int i = 0; i < 8; ++i) t.push_back(numbers(kRows, all));
    const Tensor lse = arena_->take({heads.query, kRows}, DType::f32);
    op::Attention forward{.y = t[0], .lse = lse, .q = t[1], .k = t[2], .v = t[3], .heads = heads};
    op::AttentionGrad backward{.dq = t[4],
                               .dk = t[5],
                               .dv = t[6],
                               .dy = t[7],
                               .y = t[0],
                               .lse = lse,
                               .q = t[1],
                               .k = t[2],
                               .v = t[3],
                               .heads = heads};
    forward.scores = backward.scores = scores;
    if (scores.bias) backward.dbias = constant(scores.bias.rows(), scores.bias.cols(), 0);
    const auto add = [&](const std::string& row, auto op) {
      measure(row, [=](Ops& o) mutable {
        op.mask = {.starts = starts, .causal = causal};
        o.run(op);
      });
    };
    add(name, forward);
    add(std::string(name) + ": gradient", backward);
  }
  // Qwen3.5's and Qwen3-Next's heads, on one sequence and on eight.
  void delta_rule() {
    const DeltaHeads heads{16, 32, 128, 128};
    const auto keys = [&] { return numbers(kRows, heads.key_columns()); };
    const auto values = [&] { return numbers(kRows, heads.value_columns()); };
    const auto gate = [&](float value) { return constant(kRows, heads.values, value); };
    const Tensor work = arena_->take(delta_work_shape(ops_->device(), heads, kRows, true), DType::f32);
    op::DeltaRule rule{.o = values(),
                       .work = work,
                       .q = keys(),
                       .k = keys(),
                       .v = values(),
                       .g = gate(-0.05f),
                       .beta = gate(0.5f),
                       .first = zeros(kRows),
                       .heads = heads};
    op::DeltaRuleGrad gradient{.dq = keys(),
                               .dk = keys(),
                               .dv = values(),
                               .dg = gate(0),
                               .dbeta = gate(0),
                               .states = arena_->take({kRows / kDeltaChunk, heads.state()}, DType::f32),
                               .work = work,
                               .o_grad = values(),
                               .q = rule.q,
                               .k = rule.k,
                               .v = rule.v,
                               .g = rule.g,
                               .beta = rule.beta,
                               .first = rule.first,
                               .heads = heads};
    for (const std::int64_t length : {kRows, kRows / 8}) {
      const std::string name = length == kRows ? "delta rule" : "delta rule, 8 x 512";
      rule.first = gradient.first = first_rows(length);
      measure(name, [rule](Ops& o) { o.run(rule); });
      measure(name + ": gradient", [gradient](Ops& o) { o.run(gradient); });
    }
  }
  // The first row of each row's sequence, for sequences of one length.
  Tensor first_rows(std::int64_t length) {
    const Tensor t = arena_->take({kRows}, DType::i32);
    std::vector<std::int32_t> host(static_cast<std::size_t>(kRows));
    for (std::size_t i = 0; i < host.size(); ++i)
      host[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) / length * length);
    ops_->upload(t, host.data());
    return t;
  }
  void dropped(Tensor y, Tensor x, Tensor gate, Tensor up, Tensor act) {
    const op::Drop drop{.p = 0.1f, .random = Random{2}};
    measure("add with dropout", [=](Ops& o) { o.run(op::Add{.y = y, .x = x, .drop = drop}); });
    measure("gated gelu with dropout", [=](Ops& o) {
      o.run(op::Gated{.f = Activation::gelu_tanh, .y = act, .gate = gate, .up = up, .drop = drop});
    });
    measure("gated_grad gelu with dropout", [=](Ops& o) {
      o.run(op::GatedGrad{.f = Activation::gelu_tanh,
                          .dgate = gate,
                          .dup = up,
                          .dy = act,
                          .gate = gate,
                          .up = up,
                          .drop = drop});
    });
  }
  void elementwise() {
    const Tensor x = activations(kRows, kWidth), y = activations(kRows, kWidth), w = numbers(1, kWidth);
    const Tensor rstd = constant(1, kRows, 1), dw = constant(1, kWidth, 0);
    const Tensor gate = activations(kRows, kHidden), up = activations(kRows, kHidden),
                 act = activations(kRows, kHidden);
    const Tensor cos = constant(kRows, kHead / 2, 1), sin = constant(kRows, kHead / 2, 0),
                 positions = zeros(kRows);
    measure("rms_norm",
            [=](Ops& o) { o.run(op::RmsNorm{.y = y, .rstd = rstd, .x = x, .w = w, .eps = 1e-5f}); });
    measure("rms_norm_grad dx",
            [=](Ops& o) { o.run(op::RmsNormGrad{.dx = y, .dy = x, .x = x, .w = w, .rstd = rstd}); });
    measure("rms_norm_grad dw",
            [=](Ops& o) { o.run(op::RmsNormGrad{.dw = dw, .dy = x, .x = x, .w = w, .rstd = rstd}); });
    measure("rope", [=](Ops& o) {
      o.run(op::Rope{.x = y, .cos = cos, .sin = sin, .positions = positions, .head_width = kHead});
    });
    measure("gated silu",
            [=](Ops& o) { o.run(op::Gated{.f = Activation::silu, .y = act, .gate = gate, .up = up}); });
    measure("gated_grad silu", [=](Ops& o) {
      o.run(
          op::GatedGrad{.f = Activation::silu, .dgate = gate, .dup = up, .dy = act, .gate = gate, .up = up});
    });
    measure("dropout", [=](Ops& o) { o.run(op::Dropout{.y = y, .x = x, .p = 0.05f, .random = Random{1}}); });
    measure("add", [=](Ops& o) { o.run(op::Add{y, x}); });
    dropped(y, x, gate, up, act);
  }
  void loss() {
    const Tensor logits = numbers(kLossRows, kVocabulary), loss = constant(1, kLossRows, 0);
    const Tensor targets = zeros(kLossRows);
    measure("cross_entropy and gradient", [=](Ops& o) {
      o.run(op::CrossEntropy{
          .loss = loss, .logits = logits, .targets = targets, .scale = 1e-3f, .gradient = true});
    });
  }
  void optimizers() {
    const Tensor sum = arena_->take({1}, DType::f64);
    const auto array = [this] { return flat(numbers(10240, 4096, DType::f32)); };
    const Tensor p = array(), m = array(), g = array(), v = constant(1, p.numel(), 1e-4f);
    measure("sum_squares", [=](Ops& o) { o.run(op::SumSquares{sum, g}); });
    measure_steps(*ops_, *arena_, {p, m, v, g},
                  [this](const char* name, const auto& step) { measure(name, step); });
  }

  // Takes activations laid out as in training: rows of a multiple of 4 KiB are padded.
  Tensor activations(std::int64_t rows, std::int64_t cols) {
    return numbers_.fill(arena_->take_padded(rows, cols, DType::bf16));
  }
  Tensor numbers(std::int64_t rows, std::int64_t cols, DType type = DType::bf16) {
    return numbers_.fill(arena_->take({rows, cols}, type));
  }
  Tensor constant(std::int64_t rows, std::int64_t cols, float value) {
    const Tensor t = arena_->take({rows, cols}, DType::f32);
    ops_->run(op::Fill{t, value});
    return t;
  }
  static Tensor flat(const Tensor& t) { return {t.data, t.dtype, {t.numel()}}; }
  Tensor zeros(std::int64_t n) {
    const Tensor t = arena_->take({n}, DType::i32);
    const std::vector<std::int32_t> host(static_cast<std::size_t>(n));
    ops_->upload(t, host.data());
    return t;
  }
  void measure(std::string name, std::function<void(Ops&)> call) {
    if (name == kCopy || name.find(only_) != name.npos) cases_.push_back({std::move(name), std::move(call)});
  }

  // Returns the seconds of single calls, each with another set of operands than the last.
  std::vector<double> times(const std::vector<std::vector<Case>>& sets, std::size_t row, int calls) {
    for (int i = 0; i < calls; ++i) {
      stamps_->mark();
      sets[static_cast<std::size_t>(i % kSets)][row].call(*ops_);
      stamps_->mark();
    }
    ops_->synchronize();
    const std::vector<double> marks = stamps_->take();
    std::vector<double> seconds;
    for (std::size_t i = 0; i < marks.size(); i += 2) seconds.push_back(marks[i + 1] - marks[i]);
    std::ranges::sort(seconds);
    return seconds;
  }
  // Measures one row. The first row of a group warms the GPU up, because it idled while operands were made.
  void row(const std::vector<std::vector<Case>>& sets, std::size_t i) {
    constexpr double kMeasured = 0.05;  // seconds
    constexpr int kLeast = 24;
    const double until = steady_seconds() + (i == 0 ? 0.4 : 0.08);
    double one = 0;
    for (int calls = kSets; one == 0 || steady_seconds() < until;) {
      const double start = steady_seconds();
      times(sets, i, calls);
      one = (steady_seconds() - start) / calls;
      calls = std::clamp(static_cast<int>((until - steady_seconds()) / one), kSets, kMost);
    }
    const std::vector<double> all =
        times(sets, i, std::clamp(static_cast<int>(kMeasured / one), kLeast, kMost));
    TraceOps trace(*ops_);
    sets[0][i].call(trace);
    const TraceTotal total = trace.totals()[0];
    const double median = all[all.size() / 2], bandwidth = total.bytes / median;
    if (sets[0][i].name == kCopy) copy_bandwidth_ = bandwidth;
    std::printf("| %s | %.1f (%.1f..%.1f) | %.0f | %.0f | %.0f |\n", sets[0][i].name.c_str(), median * 1e6,
                all.front() * 1e6, all.back() * 1e6, total.flops / median * 1e-12, bandwidth * 1e-9,
                100 * bandwidth / copy_bandwidth_);
    std::fflush(stdout);
  }

  static constexpr const char* kCopy = "copy";
  static constexpr int kMost = 500;  // calls between two looks at the clock

  std::string only_;
  std::unique_ptr<Ops> ops_;
  Numbers numbers_;
  std::unique_ptr<Stamps> stamps_;
  std::vector<Arena> sets_;
  Arena* arena_ = nullptr;  // the arena of the set that is being made
  std::vector<Case> cases_;
  double copy_bandwidth_ = 0;
};

}  // namespace
}  // namespace ft

int main(int argc, char** argv) {
  try {
    int gpu = 0;
    std::string only;
    for (int i = 1; i < argc; ++i)
      if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc)
        only = argv[++i];
      else
        gpu = std::atoi(argv[i]);
    ft::Bench(gpu, only).run();
  } catch (const ft::UserError& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return static_cast<int>(e.code);
  }
}
