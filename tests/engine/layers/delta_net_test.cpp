// DeltaNet: with projections of their own or mixed head by head, trained or adapted, for sequences that share
// rows, and going on from a cache.
#include "engine/layers/delta_net.h"

#include "tests/engine/layers/layer_fixture.h"
#include "tests/reference/recurrent.h"

namespace ft::test {
namespace {

using reference::Starts;

constexpr std::int64_t kWidth = 7, kTaps = 3;
constexpr double kEps = 1e-3;
constexpr DeltaHeads kHeads{2, 4, 5, 6};
const Starts kStarts{0, 1, 6, 13};
constexpr std::int64_t kRows = 13;

struct Case {
  const char* name;
  LinearForm form;
  bool by_heads = false, trained = true;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kCases[] = {
    {"Trained", {.trained = true}},         {"ByHeads", {.trained = true}, true},
    {"Adapted", {.rank = 2}, false, false}, {"AdaptedByHeads", {.rank = 2}, true, false},
    {"Frozen", {}, false, false},
};

DeltaNet make(const Case& t, DType dtype) {
  const std::int64_t values = kHeads.value_columns(), columns = 2 * kHeads.key_columns() + values,
                     V = kHeads.values;
  DeltaNet n;
  n.by_heads = t.by_heads;
  n.in_proj = linear("net.in", kWidth, t.by_heads ? columns + values : columns, t.form, dtype);
  n.beta_proj = linear("net.beta", kWidth, t.by_heads ? 2 * V : V, t.form, dtype);
  if (!t.by_heads) {
    n.gate_proj = linear("net.gate", kWidth, values, t.form, dtype);
    n.decay_proj = linear("net.decay", kWidth, V, t.form, dtype);
  }
  n.out_proj = linear("net.out", values, kWidth, t.form, dtype);
  n.conv = {.name = "conv", .shape = {columns, 1, kTaps}, .dtype = dtype, .trainable = t.trained};
  n.a_log = {.name = "a_log", .shape = {V}, .trainable = t.trained};
  n.dt_bias = {.name = "dt_bias", .shape = {V}, .trainable = t.trained};
  n.norm = make_rms_norm("norm", kHeads.value_width, static_cast<float>(kEps), dtype);
  n.norm.weight.trainable = t.trained;
  n.heads = kHeads;
  return n;
}

// Columns [first, first + count) of the `width` columns that each of `groups` groups has.
template <class V>
Values<V> columns(const Values<V>& x, std::size_t rows, std::int64_t groups, std::int64_t first,
                  std::int64_t count) {
  const std::size_t cols = x.size() / rows, width = cols / std::size_t(groups);
  Values<V> y;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::int64_t g = 0; g < groups; ++g)
      for (std::int64_t i = 0; i < count; ++i)
        y.push_back(x[r * cols + std::size_t(g) * width + std::size_t(first + i)]);
  return y;
}
template <class V>
Values<V> beside(const std::vector<Values<V>>& parts, std::size_t rows) {
  Values<V> y;
  for (std::size_t r = 0; r < rows; ++r)
    for (const Values<V>& p : parts) {
      const std::size_t cols = p.size() / rows;
      y.insert(y.end(), p.begin() + std::ptrdiff_t(r * cols), p.begin() + std::ptrdiff_t((r + 1) * cols));
    }
  return y;
}

// Returns residual + net(x) for sequences with these starts.
template <class V>
Values<V> expected(const Named<V>& in, const Case& t, const Starts& starts, const reference::Lora& lora) {
  const auto rows = std::size_t(starts.back());
  const DeltaHeads& h = kHeads;
  const std::int64_t K = h.keys, k = h.key_width, v = h.values / K * h.value_width, group = h.values / K;
  const auto project = [&](const char* name) { return reference::linear(in, name, in.at("x"), rows, lora); };
  Values<V> mixed = project("net.in"), beta = project("net.beta"), gate, decay;
  if (t.by_heads) {
    const Values<V> all = mixed, numbers = beta;
    mixed = beside<V>(
        {columns(all, rows, K, 0, k), columns(all, rows, K, k, k), columns(all, rows, K, 2 * k, v)}, rows);
    gate = columns(all, rows, K, 2 * k + v, v);
    beta = columns(numbers, rows, K, 0, group);
    decay = columns(numbers, rows, K, group, group);
  } else {
    gate = project("net.gate");
    decay = project("net.decay");
  }
  const Values<V> made = reference::causal_conv(mixed, in.at("conv"), kTaps, starts);
  const std::int64_t keys = h.key_columns();
  for (V& b : beta) b = 1.0 / (1.0 + std::exp(-b));
  const Values<V> g = reference::delta_decay(decay, in.at("a_log"), in.at("dt_bias"));
  const Values<V> o =
      reference::delta_rule(columns(made, rows, 1, 0, keys), columns(made, rows, 1, keys, keys),
                            columns(made, rows, 1, 2 * keys, h.value_columns()), g, beta, h, starts);
  Values<V> out = reference::rms_norm(o, in.at("norm.weight"), kEps);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] *= reference::activate(Activation::silu, gate[i]);
  return reference::add(reference::linear(in, "net.out", out, rows, lora), in.at("residual"));
}

Positions positions(LayerRun& run, const std::vector<std::int32_t>& starts) {
  return {.starts = starts, .first = upload(run.c, first_rows(starts))};
}

class EachDeltaNet : public testing::TestWithParam<std::tuple<Case, DType>> {};
INSTANTIATE_TEST_SUITE_P(All, EachDeltaNet, testing::Combine(testing::ValuesIn(kCases), kTypes),
                         name_of_case<Case>);

TEST_P(EachDeltaNet, IsTheReferenceWithItsGradients) {
  const auto& [t, dtype] = GetParam();
  LayerRun run(dtype);
  DeltaNet net = make(t, dtype);
  run.bind(net);
  Matrix &x = run.input(kRows, kWidth, "x"), &residual = run.input(kRows, kWidth, "residual");
  Matrix &y = run.matrix(kRows, kWidth, "y"), &dy = run.matrix(kRows, kWidth, "dy"),
         &dx = run.matrix(kRows, kWidth, "dx");
  const std::vector<std::int32_t> starts(kStarts.begin(), kStarts.end());
  const Positions p = positions(run, starts);
  const DeltaNet::Saved s = net.forward(run.c, y, x, residual, p);
  net.backward(run.c, dx, dy, net.reads_input() ? x.tensor : Tensor{}, s, p);
  const auto f = [&](const auto& in) { return expected(in, t, kStarts, lora_of(t.form, run.c)); };
  run.expect_near(y.values(), f(run.in), 12, "y");
  run.expect_near(dx.values(), complex_step(f, run.in, "x", dy.values()), 40, "dx");
  run.expect_gradients(f, dy.values(), 40);
}

// Every sequence alone gives the same bits as all of them together.
TEST(DeltaNet, SequencesDoNotSeeEachOther) {
  const Case t{"Trained", {.trained = true}};
  LayerRun run(DType::f32);
  DeltaNet net = make(t, DType::f32);
  run.bind(net);
  Matrix &x = run.matrix(kRows, kWidth, "x"), &y = run.matrix(kRows, kWidth, "y"),
         &alone = run.matrix(kRows, kWidth, "alone");
  const std::vector<std::int32_t> starts(kStarts.begin(), kStarts.end());
  net.forward(run.c, y, x, {}, positions(run, starts));
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const std::vector<std::int32_t> own{0, starts[i + 1] - starts[i]};
    net.forward(run.c, alone.tensor.slice(starts[i], starts[i + 1]), x.tensor.slice(starts[i], starts[i + 1]),
                {}, positions(run, own));
  }
  EXPECT_EQ(y.values(), alone.values());
}

// Two answers to one prompt: the prompt's rows are computed once, and the net runs over copies of them.
TEST(DeltaNet, SequencesMayShareRows) {
  const Case t{"Trained", {.trained = true}};
  const auto pass = [&](bool shared) {
    LayerRun run(DType::f32);
    DeltaNet net = make(t, DType::f32);
    run.bind(net);
    // prompt 0-2, answers 3-5 and 6-7
    const std::vector<std::int32_t> rows{0, 1, 2, 3, 4, 5, 0, 1, 2, 6, 7}, whole{0, 6, 11};
    Matrix &x = run.matrix(8, kWidth, "x"), &dy = run.matrix(8, kWidth, "dy");
    Positions p;
    Batch batch;
    const auto spread = [&](const Matrix& from, Matrix& to, bool once) {
      for (std::size_t r = 0; r < rows.size(); ++r)
        for (std::int64_t c = 0; c < kWidth; ++c)
          to.set(std::int64_t(r), c, once && r >= 6 && r < 9 ? 0 : from.get(rows[r], c));
    };
    Matrix &all_x = run.matrix(11, kWidth, "all x"), &all_dy = run.matrix(11, kWidth, "all dy");
    spread(x, all_x, false);
    spread(dy, all_dy, true);
    p.starts = whole;
    if (shared) {
      batch.input_ids.resize(8);
      batch.whole_rows = rows;
      batch.whole_starts = whole;
      p.shared = upload_shared(run.c, batch);
    }
    p.first = upload(run.c, first_rows(whole));
    const Tensor in = shared ? x.tensor : all_x.tensor, out = shared ? dy.tensor : all_dy.tensor;
    Matrix& y = run.matrix(in.rows(), kWidth, "y");
    const DeltaNet::Saved s = net.forward(run.c, y, in, {}, p);
    net.backward(run.c, {}, out, in, s, p);
    return run.gradients();
  };
  const Named<double> once = pass(true), twice = pass(false);
  for (const auto& [name, values] : once) EXPECT_LT(nmse(values, twice.at(name)), 1e-11) << name;
}

}  // namespace
}  // namespace ft::test
