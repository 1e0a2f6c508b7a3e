// Low-rank SelfAttention: queries with and without a low rank, values narrower and wider than keys, rotation
// of halves and of neighbours, packed sequences.
#include "engine/layers/attention/attention.h"
#include "tests/engine/layers/layer_fixture.h"

namespace ft::test {
namespace {

constexpr std::int64_t kWidth = 10, kHeads = 3, kRank = 5, kQueryRank = 6;
constexpr double kEps = 1e-3, kScale = 0.6f;

struct Case {
  const char* name;
  LinearForm form;
  LatentHeads heads{kHeads, 3, 4, 5};
  bool low_queries = true, neighbours = true, wants_dx = true;
  std::vector<std::int32_t> starts{0, 3, 4, 9};
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const LinearForm kTrained{.trained = true}, kAdapter{.rank = 3};
const Case kCases[] = {
    {"NarrowValues", kTrained},
    {"WideValues", kTrained, {kHeads, 2, 2, 7}},
    {"OneWidth", kTrained, {kHeads, 2, 4, 6}},
    {"FullRankQueries", kTrained, {kHeads, 3, 4, 5}, false},
    {"WideValuesFullRankQueries", kTrained, {kHeads, 2, 2, 7}, false},
    {"Halves", kTrained, {kHeads, 3, 4, 5}, true, false},
    {"Bias", {.bias = true, .trained = true}},
    {"First", kTrained, {kHeads, 3, 4, 5}, true, true, false},
    {"OneHead", kTrained, {1, 3, 4, 5}, true, true, true, {0, 1}},
    {"Adapters", kAdapter},
    {"AdaptersFullRankQueries", kAdapter, {kHeads, 2, 2, 7}, false},
    {"Frozen", {}},
    {"FrozenFirst", {}, {kHeads, 2, 4, 6}, false, true, false},
};

SelfAttention make(const Case& t, DType dtype) {
  const LatentHeads& h = t.heads;
  const auto norm = [&](const char* name, std::int64_t width) {
    RmsNorm n = make_rms_norm(name, width, float(kEps), dtype);
    n.weight.trainable = t.form.trained;
    return n;
  };
  LatentProjections p;
  if (t.low_queries) {
    p.q_a_proj = linear("q_a", kWidth, kQueryRank, t.form, dtype);
    p.q_norm = norm("q_norm", kQueryRank);
  }
  p.q_proj = linear("q", t.low_queries ? kQueryRank : kWidth, h.count * h.key(), t.form, dtype);
  p.kv_a_proj = linear("kv_a", kWidth, kRank + h.rotated, t.form, dtype);
  p.kv_norm = norm("kv_norm", kRank);
  p.kv_b_proj = linear("kv_b", kRank, h.count * (h.plain + h.value), t.form, dtype);
  p.heads = h;
  p.neighbours = t.neighbours;
  SelfAttention a;
  a.latent = std::move(p);
  a.o_proj = linear("o", h.count * h.value, kWidth, t.form, dtype);
  a.heads = {h.count, h.count, h.width()};
  a.scale = float(kScale);
  return a;
}

// Tables of angles, and the position of each row, which begins at 0 in every sequence.
struct Angles {
  Matrix cos, sin, rows;
  Angles(const std::vector<std::int32_t>& starts, std::int64_t pairs)
      : cos(starts.back(), pairs, DType::f32),
        sin(starts.back(), pairs, DType::f32),
        rows(1, starts.back(), DType::i32) {
    for (std::int64_t p = 0; p < starts.back(); ++p)
      for (std::int64_t i = 0; i < pairs; ++i) {
        cos.set(p, i, std::cos(double(p) * (i == 0 ? 1 : 0.3)));
        sin.set(p, i, std::sin(double(p) * (i == 0 ? 1 : 0.3)));
      }
    for (std::size_t s = 1; s < starts.size(); ++s)
      for (std::int32_t r = starts[s - 1]; r < starts[s]; ++r) rows.set(0, r, r - starts[s - 1]);
  }
  // Rotates the columns x[at], x[at + 1], ... of a row.
  template <class V>
  void rotate(Values<V>& x, std::size_t at, std::size_t row, bool neighbours) const {
    const auto p = std::int64_t(rows.get(0, std::int64_t(row)));
    for (std::int64_t i = 0; i < cos.tensor.cols(); ++i) {
      V &a = x[at + std::size_t(neighbours ? 2 * i : i)],
        &b = x[at + std::size_t(neighbours ? 2 * i + 1 : i + cos.tensor.cols())];
      const V u = a, v = b;
      a = u * cos.get(p, i) - v * sin.get(p, i);
      b = v * cos.get(p, i) + u * sin.get(p, i);
    }
  }
};

template <class V>
Values<V> columns(const Values<V>& x, std::size_t rows, std::size_t first, std::size_t count) {
  Values<V> y;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t i = 0; i < count; ++i) y.push_back(x[r * (x.size() / rows) + first + i]);
  return y;
}

// Returns residual + attention(x), one query and head after another.
template <class V>
Values<V> expected(const Named<V>& in, const Case& t, const Angles& angles, const reference::Lora& lora) {
  const auto rows = std::size_t(t.starts.back()), n = std::size_t(t.heads.plain),
             r = std::size_t(t.heads.rotated), v = std::size_t(t.heads.value), h = std::size_t(t.heads.count);
  const auto project = [&](const char* name, const Values<V>& x) {
    return reference::linear(in, name, x, rows, lora);
  };
  Values<V> q_in = in.at("x");
  if (t.low_queries) q_in = reference::rms_norm(project("q_a", q_in), in.at("q_norm.weight"), kEps);
  Values<V> q = project("q", q_in);
  const Values<V> low = project("kv_a", in.at("x"));
  const Values<V> kv = project(
      "kv_b", reference::rms_norm(columns(low, rows, 0, std::size_t(kRank)), in.at("kv_norm.weight"), kEps));
  Values<V> shared = columns(low, rows, std::size_t(kRank), r);
  for (std::size_t i = 0; i < rows; ++i) {
    angles.rotate(shared, i * r, i, t.neighbours);
    for (std::size_t head = 0; head < h; ++head)
      angles.rotate(q, (i * h + head) * (n + r) + n, i, t.neighbours);
  }
  Values<V> y;
  for (std::size_t s = 1; s < t.starts.size(); ++s)
    for (auto i = std::size_t(t.starts[s - 1]); i < std::size_t(t.starts[s]); ++i)
      for (std::size_t head = 0; head < h; ++head) {
        Values<V> scores;
        for (auto j = std::size_t(t.starts[s - 1]); j <= i; ++j) {
          V score = 0;
          for (std::size_t d = 0; d < n; ++d)
            score += q[(i * h + head) * (n + r) + d] * kv[(j * h + head) * (n + v) + d];
          for (std::size_t d = 0; d < r; ++d)
            score += q[(i * h + head) * (n + r) + n + d] * shared[j * r + d];
          scores.push_back(std::exp(score * kScale));
        }
        V total = 0;
        for (const V& e : scores) total += e;
        for (std::size_t d = 0; d < v; ++d) {
          V sum = 0;
          for (std::size_t j = 0; j < scores.size(); ++j)
            sum += scores[j] / total * kv[((std::size_t(t.starts[s - 1]) + j) * h + head) * (n + v) + n + d];
          y.push_back(sum);
        }
      }
  return reference::add(project("o", y), in.at("residual"));
}

class LatentAttention : public testing::TestWithParam<std::tuple<Case, DType>> {};
INSTANTIATE_TEST_SUITE_P(Cases, LatentAttention, testing::Combine(testing::ValuesIn(kCases), kTypes),
                         name_of_case<Case>);

TEST_P(LatentAttention, IsTheReferenceWithItsGradients) {
  const auto& [t, dtype] = GetParam();
  const std::int64_t rows = t.starts.back();
  LayerRun run(dtype);
  SelfAttention layer = make(t, dtype);
  run.bind(layer);
  Matrix &x = run.input(rows, kWidth, "x"), &residual = run.input(rows, kWidth, "residual");
  Matrix &y = run.matrix(rows, kWidth, "y"), &dy = run.matrix(rows, kWidth, "dy"),
         &dx = run.matrix(rows, kWidth, "dx");
  const Values<double> before = dx.values();
  const Angles angles(t.starts, t.heads.rotated / 2);
  const Positions positions{as_vector(angles.rows), angles.cos, angles.sin, t.starts};
  const SelfAttention::Saved saved = layer.forward(run.c, y, x, residual, positions);
  layer.backward(run.c, t.wants_dx ? dx.tensor : Tensor{}, dy, layer.reads_input() ? x.tensor : Tensor{},
                 saved, positions);

  const auto reference = [&](const auto& in) { return expected(in, t, angles, lora_of(t.form, run.c)); };
  run.expect_near(y.values(), reference(run.in), 12, "y");
  run.expect_near(dx.values(), t.wants_dx ? complex_step(reference, run.in, "x", dy.values()) : before, 24,
                  "dx");
  run.expect_gradients(reference, dy.values(), 24);
}

TEST(LatentHeads, AttentionHasTheWidthOfTheWider) {
  EXPECT_EQ((LatentHeads{3, 128, 64, 128}.width()), 192);
  EXPECT_EQ((LatentHeads{3, 128, 64, 256}.width()), 256);
}

TEST(LatentAttentionCut, IsRefusedByName) {
  SelfAttention layer = make(kCases[0], DType::f32);
  layer.o_proj.name = "model.layers.0.self_attn.o_proj";
  try {
    layer.cut({0, 2});
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("heads of model.layers.0.self_attn"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace ft::test
