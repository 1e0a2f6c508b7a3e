// SelfAttention: grouped heads, packed sequences, windows, norms of queries, keys and values, rotary
// positions, sinks, values that are keys, keys and values of another layer.
#include "engine/layers/attention/attention.h"

#include "tests/engine/layers/layer_fixture.h"

namespace ft::test {
namespace {

constexpr std::int64_t kWidth = 10, kHead = 4;
constexpr double kEps = 1e-3;

struct Case {
  const char* name;
  LinearForm form;
  Heads heads{4, 2, kHead};
  std::vector<std::int32_t> starts{0, 3, 4, 9};
  std::int64_t window = 0;
  bool norms = false, wants_dx = true, rotates = true;
  bool wide = false;  // norms over all heads at once
  bool gated = false;
  bool sinks = false, value_norm = false, values_are_keys = false;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const LinearForm kTrained{.trained = true}, kAdapter{.rank = 3};
const Case kCases[] = {
    {"Grouped", kTrained},
    {"OneHeadEach", kTrained, {2, 2, kHead}},
    {"OneKey", kTrained, {3, 1, kHead}},
    {"Bias", {.bias = true, .trained = true}},
    {"Window", kTrained, {4, 2, kHead}, {0, 1, 8}, 3},
    {"Norms", kTrained, {4, 2, kHead}, {0, 3, 4, 9}, 0, true},
    {"First", kTrained, {4, 2, kHead}, {0, 5}, 0, false, false},
    {"Unrotated", kTrained, {4, 2, kHead}, {0, 3, 4, 9}, 0, false, true, false},
    {"NormsOverAllHeads", kTrained, {4, 2, kHead}, {0, 3, 4, 9}, 0, true, true, true, true},
    {"Gated", kTrained, {4, 2, kHead}, {0, 3, 4, 9}, 0, true, true, true, false, true},
    {"GatedWithoutNorms", kTrained, {2, 2, kHead}, {0, 3, 4}, 0, false, true, true, false, true},
    {"GatedAdapters", kAdapter, {4, 2, kHead}, {0, 3, 4, 9}, 0, true, true, true, false, true},
    {"GatedFrozen", {}, {4, 2, kHead}, {0, 3, 4, 9}, 0, true, true, true, false, true},
    {.name = "ValueNorm", .form = kTrained, .norms = true, .value_norm = true},
    {.name = "ValuesAreKeys",
     .form = kTrained,
     .window = 2,
     .norms = true,
     .value_norm = true,
     .values_are_keys = true},
    {.name = "ValuesAreKeysAdapters",
     .form = kAdapter,
     .heads = {4, 1, kHead},
     .starts = {0, 3, 9},
     .norms = true,
     .value_norm = true,
     .values_are_keys = true},
    {.name = "ValuesAreKeysFrozen",
     .form = {},
     .starts = {0, 3, 9},
     .norms = true,
     .value_norm = true,
     .values_are_keys = true},
    {"Sinks", kTrained, {4, 2, kHead}, {0, 3, 4, 9}, 0, false, true, true, false, false, true},
    {"SinksAndWindow", kTrained, {4, 2, kHead}, {0, 1, 8}, 3, false, true, true, false, false, true},
    {"SinksFrozen", kAdapter, {2, 2, kHead}, {0, 3, 4, 9}, 0, false, true, true, false, false, true},
    {"SinksAndGates", kTrained, {4, 2, kHead}, {0, 3, 4, 9}, 0, true, true, true, false, true, true},
    {"OneToken", kTrained, {4, 2, kHead}, {0, 1}},
    {"Frozen", {}},
    {"FrozenWithNorms", {}, {4, 2, kHead}, {0, 3, 4, 9}, 0, true},
    {"Adapters", kAdapter, {2, 2, kHead}},
    {"AdaptersThatDropOut", {.bias = true, .rank = 3, .dropout = 0.25f}, {4, 2, kHead}, {0, 2, 5}},
};

SelfAttention make(const Case& t, DType dtype) {
  SelfAttention a;
  const std::int64_t query = t.heads.query * kHead, key = t.heads.key_value * kHead;
  a.gated = t.gated;
  a.q_proj = linear("q", kWidth, t.gated ? 2 * query : query, t.form, dtype);
  a.k_proj = linear("k", kWidth, key, t.form, dtype);
  if (!t.values_are_keys) a.v_proj = linear("v", kWidth, key, t.form, dtype);
  a.values_are_keys = t.values_are_keys;
  if (t.value_norm) a.v_norm = {.width = kHead, .eps = float(kEps)};
  a.o_proj = linear("o", query, kWidth, t.form, dtype);
  if (t.norms) {
    RmsNorm q = make_rms_norm("q_norm", t.wide ? query : kHead, float(kEps), dtype);
    RmsNorm k = make_rms_norm("k_norm", t.wide ? key : kHead, float(kEps), dtype);
    q.weight.trainable = k.weight.trainable = t.form.trained;
    a.q_norm = q;
    a.k_norm = k;
  }
  if (t.sinks)
    a.sinks =
        Parameter{.name = "sinks", .shape = {t.heads.query}, .dtype = dtype, .trainable = t.form.trained};
  a.heads = t.heads;
  a.scale = 0.6f;
  a.window = t.window;
  return a;
}

// Tables of angles, and the position of each row, which begins at 0 in every sequence.
struct Angles {
  Matrix cos, sin, rows;
  explicit Angles(const std::vector<std::int32_t>& starts)
      : cos(starts.back(), kHead / 2, DType::f32),
        sin(starts.back(), kHead / 2, DType::f32),
        rows(1, starts.back(), DType::i32) {
    for (std::int64_t p = 0; p < starts.back(); ++p)
      for (std::int64_t i = 0; i < kHead / 2; ++i) {
        cos.set(p, i, std::cos(double(p) * (i == 0 ? 1 : 0.3)));
        sin.set(p, i, std::sin(double(p) * (i == 0 ? 1 : 0.3)));
      }
    for (std::size_t s = 1; s < starts.size(); ++s)
      for (std::int32_t r = starts[s - 1]; r < starts[s]; ++r) rows.set(0, r, r - starts[s - 1]);
  }
  // Rotates every head of every row.
  template <class V>
  Values<V> rotate(const Values<V>& x) const {
    const std::size_t heads = x.size() / rows.size() / kHead;
    Values<V> y;
    for (std::size_t at = 0; at < x.size(); at += kHead) {
      const auto p = std::int64_t(rows.get(0, std::int64_t(at / kHead / heads)));
      const Values<V> head(x.begin() + std::ptrdiff_t(at), x.begin() + std::ptrdiff_t(at) + kHead);
      for (const V& v :
           reference::rotate(head, {cos.get(p, 0), cos.get(p, 1)}, {sin.get(p, 0), sin.get(p, 1)}))
        y.push_back(v);
    }
    return y;
  }
};

template <class V>
Values<V> expected(const Named<V>& in, const Case& t, const Angles& angles, const Ctx& c) {
  const auto rows = std::size_t(t.starts.back());
  const auto project = [&](const char* name) {
    return reference::linear(in, name, in.at("x"), rows, lora_of(t.form, c));
  };
  Values<V> q = project("q"), k = project("k"), v = t.values_are_keys ? k : project("v"), y, lse, gates;
  for (const Values<V> both = q; t.gated && gates.empty();) {  // each head's query, then its gate
    q.clear();
    for (std::size_t at = 0; at < both.size(); ++at) (at / kHead % 2 == 0 ? q : gates).push_back(both[at]);
  }
  if (t.norms) {
    q = reference::rms_norm(q, in.at("q_norm.weight"), kEps);
    k = reference::rms_norm(k, in.at("k_norm.weight"), kEps);
  }
  if (t.value_norm) v = reference::rms_norm(v, Values<V>(kHead, V(1)), kEps);
  const reference::Attention attention{t.heads, t.starts, true, t.window, double(0.6f)};
  const auto turned = [&](const Values<V>& x) { return t.rotates ? angles.rotate(x) : x; };
  attention.forward(y, lse, turned(q), turned(k), v);
  for (std::size_t i = 0; t.sinks && i < y.size(); ++i) {
    const std::size_t row = i / kHead / std::size_t(t.heads.query),
                      h = i / kHead % std::size_t(t.heads.query);
    y[i] /= 1.0 + std::exp(in.at("sinks")[h] - lse[h * rows + row]);
  }
  for (std::size_t i = 0; i < gates.size(); ++i) y[i] *= reference::activate(Activation::sigmoid, gates[i]);
  return reference::add(reference::linear(in, "o", y, rows, lora_of(t.form, c)), in.at("residual"));
}

class SelfAttentionLayer : public testing::TestWithParam<std::tuple<Case, DType>> {};
INSTANTIATE_TEST_SUITE_P(Cases, SelfAttentionLayer, testing::Combine(testing::ValuesIn(kCases), kTypes),
                         name_of_case<Case>);

TEST_P(SelfAttentionLayer, IsTheReferenceWithItsGradients) {
  const auto& [t, dtype] = GetParam();
  const std::int64_t rows = t.starts.back();
  LayerRun run(dtype);
  SelfAttention layer = make(t, dtype);
  run.bind(layer);
  Matrix &x = run.input(rows, kWidth, "x"), &residual = run.input(rows, kWidth, "residual");
  Matrix &y = run.matrix(rows, kWidth, "y"), &dy = run.matrix(rows, kWidth, "dy"),
         &dx = run.matrix(rows, kWidth, "dx");
  const Values<double> before = dx.values();
  const Angles angles(t.starts);
  Positions positions{as_vector(angles.rows), angles.cos, angles.sin, t.starts};
  if (!t.rotates) positions.cos = positions.sin = {};
  const SelfAttention::Saved saved = layer.forward(run.c, y, x, residual, positions);
  layer.backward(run.c, t.wants_dx ? dx.tensor : Tensor{}, dy, layer.reads_input() ? x.tensor : Tensor{},
                 saved, positions);

  const auto reference = [&](const auto& in) { return expected(in, t, angles, run.c); };
  run.expect_near(y.values(), reference(run.in), 6, "y");
  run.expect_near(dx.values(), t.wants_dx ? complex_step(reference, run.in, "x", dy.values()) : before, 12,
                  "dx");
  run.expect_gradients(reference, dy.values(), 12);
}

// A layer that borrows keys and values, and the layer that lends them: gradients flow to the lender from
// both.
class BorrowedKeys : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, BorrowedKeys, kTypes, name_of_type);

TEST_P(BorrowedKeys, AreThoseOfTheLenderWithAllGradients) {
  const DType dtype = GetParam();
  const Case t{.name = "", .form = kTrained, .starts = {0, 3, 9}, .norms = true, .value_norm = true};
  const std::int64_t rows = t.starts.back(), queries = t.heads.query * kHead;
  const Shape keys{rows, t.heads.key_value * kHead};
  LayerRun run(dtype);
  SelfAttention lender = make(t, dtype), borrower;
  lender.lends = 0;
  borrower.borrows = 0;
  borrower.q_proj = linear("other_q", kWidth, queries, t.form, dtype);
  borrower.o_proj = linear("other_o", queries, kWidth, t.form, dtype);
  borrower.heads = t.heads;
  borrower.scale = 0.4f;
  borrower.window = 2;
  run.bind(lender);
  run.bind(borrower);
  Matrix &x = run.input(rows, kWidth, "x"), &above = run.input(rows, kWidth, "above");
  Matrix &y = run.matrix(rows, kWidth, "y"), &other = run.matrix(rows, kWidth, "other"),
         &dy = run.matrix(rows, kWidth, "dy"), &dother = run.matrix(rows, kWidth, "dother"),
         &dx = run.matrix(rows, kWidth, "dx");
  const Angles angles(t.starts);
  Positions positions{as_vector(angles.rows), angles.cos, angles.sin, t.starts};
  const auto take = [&](DType type) {
    const Tensor all = run.c.saved.take(keys, type);
    run.c.ops.run(op::Fill{all, 0});
    return all;
  };
  const LentKeys lent[] = {{take(dtype), take(dtype), take(DType::f32), take(DType::f32)}};
  positions.lent = lent;
  const auto of_lender = lender.forward(run.c, y, x, {}, positions);
  const auto of_borrower = borrower.forward(run.c, other, above, {}, positions);
  borrower.backward(run.c, {}, dother, above, of_borrower, positions);
  lender.backward(run.c, dx, dy, x, of_lender, positions);

  const auto reference = [&]<class V>(const Named<V>& in) {
    const auto project = [&](const char* name, const char* of) {
      return reference::linear(in, name, in.at(of), std::size_t(rows), lora_of(t.form, run.c));
    };
    const auto turned = [&](const Values<V>& values) { return angles.rotate(values); };
    const auto normed = [&](const Values<V>& values, const char* name) {
      return reference::rms_norm(values, in.at(name), kEps);
    };
    const Values<V> k = turned(normed(project("k", "x"), "k_norm.weight")),
                    v = reference::rms_norm(project("v", "x"), Values<V>(kHead, V(1)), kEps);
    Values<V> own, borrowed, lse;
    reference::Attention{t.heads, t.starts, true, 0, double(0.6f)}.forward(
        own, lse, turned(normed(project("q", "x"), "q_norm.weight")), k, v);
    reference::Attention{t.heads, t.starts, true, 2, double(0.4f)}.forward(
        borrowed, lse, turned(project("other_q", "above")), k, v);
    const auto out = [&](const char* name, const Values<V>& values) {
      return reference::linear(in, name, values, std::size_t(rows), lora_of(t.form, run.c));
    };
    Values<V> all = out("o", own);
    for (const V& value : out("other_o", borrowed)) all.push_back(value);
    return all;
  };
  Values<double> got = y.values(), d = dy.values();
  for (const double value : other.values()) got.push_back(value);
  for (const double value : dother.values()) d.push_back(value);
  run.expect_near(got, reference(run.in), 8, "y");
  run.expect_near(dx.values(), complex_step(reference, run.in, "x", d), 16, "dx");
  run.expect_gradients(reference, d, 16);
}

}  // namespace
}  // namespace ft::test
