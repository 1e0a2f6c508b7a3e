// Head: norm, projection and loss of chosen rows, in chunks.
#include "engine/model/head.h"

#include "engine/layers/embedding.h"
#include "tests/engine/layers/layer_fixture.h"

namespace ft::test {
namespace {

constexpr std::int64_t kWidth = 5, kVocabulary = 7;
constexpr double kEps = 1e-3, kLossScale = 0.125;

struct Case {
  const char* name;
  LinearForm form;
  bool tied = false;
  float scale = 1, dropout = 0, smoothing = 0;
  std::int64_t rows = 6, every = 1;  // every n-th row has a target
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const LinearForm kTrained{.trained = true};
const Case kCases[] = {
    {"Trained", kTrained},
    {"Frozen", {}},
    {"Smoothed", kTrained, false, 1, 0, 0.1f},
    {"SomeRows", kTrained, false, 1, 0, 0.1f, 7, 3},
    {"OneRow", kTrained, false, 1, 0, 0, 1},
    {"Tied", kTrained, true},
    {"TiedScaled", kTrained, true, 0.4f},
    {"TiedFrozen", {}, true},
    {"Adapter", {.rank = 2}, false, 0.4f},
    {"AdapterDropout", {.rank = 2, .dropout = 0.25f}},
    {"Dropout", kTrained, true, 0.4f, 0.25f},
    {"Chunks", kTrained, false, 1, 0, 0.1f, 2100, 2},
    {"ChunksDropout", kTrained, false, 0.4f, 0.25f, 0, 2100, 2},
};

// A head, and the table that it may share.
struct HeadAndTable {
  Head head;
  Embedding table{.weight = {.name = "head.weight", .shape = {kVocabulary, kWidth}}};
  void visit(Visitor& v) {
    if (!head.lm_head.weight->grad() && dynamic_cast<TiedWeight*>(head.lm_head.weight.get())) table.visit(v);
    head.visit(v);
  }
};

std::unique_ptr<HeadAndTable> make(const Case& t, DType dtype) {
  auto made = std::make_unique<HeadAndTable>();
  Head& head = made->head;
  RmsNorm norm = make_rms_norm("norm", kWidth, float(kEps), dtype);
  norm.weight.trainable = t.form.trained;
  head.norm = norm;
  head.lm_head = linear("head", kWidth, kVocabulary, t.form, dtype);
  if (t.tied) {
    made->table.weight.dtype = dtype;
    made->table.weight.trainable = t.form.trained;
    head.lm_head.weight = std::make_unique<TiedWeight>(made->table);
  }
  head.scale = t.scale;
  head.dropout = {t.dropout};
  return made;
}

// Returns the loss of every target.
template <class V>
Values<V> expected(const Named<V>& in, const Case& t, const std::vector<std::int32_t>& rows,
                   const std::vector<std::int32_t>& ids, std::size_t chunk, const Ctx& c) {
  Values<V> losses;
  for (std::size_t begin = 0; begin < rows.size(); begin += chunk) {
    const std::size_t end = std::min(rows.size(), begin + chunk);
    Values<V> x;
    for (std::size_t i = begin; i < end; ++i)
      for (std::int64_t j = 0; j < kWidth; ++j) x.push_back(in.at("x")[std::size_t(rows[i] * kWidth + j)]);
    x = reference::rms_norm(x, in.at("norm.weight"), kEps);
    x = reference::dropout(x, double(t.dropout), c.random.with(str("norm.weight.", begin)).with("dropout"));
    const Values<V> logits =
        reference::times(reference::linear(in, "head", x, end - begin, lora_of(t.form, c)), double(t.scale));
    for (std::size_t i = begin; i < end; ++i) {
      const auto first = logits.begin() + std::ptrdiff_t(i - begin) * kVocabulary;
      losses.push_back(reference::cross_entropy(Values<V>(first, first + kVocabulary), std::size_t(ids[i]),
                                                double(t.smoothing)));
    }
  }
  return losses;
}

// Returns the gradient of x, one column at a time: a row's loss depends on that row alone.
template <class F>
Values<double> gradient_of_rows(F losses, const Named<double>& in, const std::vector<std::int32_t>& rows) {
  using C = std::complex<double>;
  Named<C> moved;
  for (const auto& [each, values] : in) moved[each] = {values.begin(), values.end()};
  Values<double> gradient(in.at("x").size(), 0.0);
  for (std::size_t column = 0; column < kWidth; ++column) {
    for (std::size_t at = column; at < gradient.size(); at += kWidth) moved["x"][at] += C(0, 1e-20);
    const Values<C> moving = losses(moved);
    for (std::size_t i = 0; i < rows.size(); ++i)
      gradient[std::size_t(rows[i]) * kWidth + column] = kLossScale * moving[i].imag() / 1e-20;
    for (std::size_t at = column; at < gradient.size(); at += kWidth) moved["x"][at] = in.at("x")[at];
  }
  return gradient;
}

class HeadLayer : public testing::TestWithParam<std::tuple<Case, DType>> {};
INSTANTIATE_TEST_SUITE_P(Cases, HeadLayer, testing::Combine(testing::ValuesIn(kCases), kTypes),
                         name_of_case<Case>);

TEST_P(HeadLayer, IsTheReferenceWithItsGradients) {
  const auto& [t, dtype] = GetParam();
  LayerRun run(dtype);
  const auto made = make(t, dtype);
  const Head& head = made->head;
  run.bind(*made);
  Matrix &x = run.input(t.rows, kWidth, "x"), &d = run.matrix(t.rows, kWidth, "d");
  Matrix loss(1, 2, DType::f64);
  loss.assign({3, 3});  // losses are added to it
  std::vector<std::int32_t> rows, ids;
  for (std::int64_t r = t.every - 1; r < t.rows; r += t.every) {
    rows.push_back(std::int32_t(r));
    ids.push_back(std::int32_t(r * r % kVocabulary));
  }
  const Targets targets{upload(run.c, rows), upload(run.c, ids)};
  const auto element = [&](std::int64_t i) { return Tensor(loss.tensor.data + 8 * i, DType::f64, {1}); };
  head.forward(run.c, x, targets, CrossEntropy{element(0), 1, t.smoothing});
  head.forward_backward(run.c, d, x, targets, CrossEntropy{element(1), float(kLossScale), t.smoothing});

  const auto losses = [&](const auto& in) {
    return expected(in, t, rows, ids, std::size_t(head.chunk_rows({})), run.c);
  };
  double sum = 0;
  for (const double l : losses(run.in)) sum += l;
  for (const double got : loss.values()) run.expect_near({got - 3}, {sum}, 3, "loss");
  run.expect_near(d.values(), gradient_of_rows(losses, run.in, rows), 8, "d");
  run.expect_gradients(losses, Values<double>(rows.size(), kLossScale), 8);
}

// The cross-entropy as a function of logits.
class OfLogits final : public LogitLoss {
 public:
  void run(Ctx& c, const Chunk& k) override {
    EXPECT_EQ(k.begin, rows);
    rows += k.logits.rows();
    c.ops.run(op::CrossEntropy{.loss = k.losses,
                               .logits = k.logits,
                               .targets = k.targets,
                               .scale = k.scale,
                               .gradient = k.gradient,
                               .cap = k.cap});
  }
  std::int64_t rows = 0;  // seen so far
};

TEST_P(HeadLayer, ALossOfLogitsIsComputedLikeTheCrossEntropy) {
  const auto& [t, dtype] = GetParam();
  if (t.smoothing > 0) GTEST_SKIP() << "of the cross-entropy alone";
  Values<double> losses[2], gradients[2];
  for (const bool of_logits : {false, true}) {
    LayerRun run(dtype);
    const auto made = make(t, dtype);
    made->head.cap = 3;
    run.bind(*made);
    Matrix &x = run.input(t.rows, kWidth, "x"), &d = run.matrix(t.rows, kWidth, "d");
    Matrix sums(1, 2, DType::f64);
    sums.assign({3, 3});
    const auto sum = [&](std::int64_t i) { return Tensor(sums.tensor.data + 8 * i, DType::f64, {1}); };
    std::vector<std::int32_t> rows, ids;
    for (std::int64_t r = t.every - 1; r < t.rows; r += t.every) {
      rows.push_back(std::int32_t(r));
      ids.push_back(std::int32_t(r * r % kVocabulary));
    }
    const Targets targets{upload(run.c, rows), upload(run.c, ids)};
    OfLogits first, second;
    const auto loss = [&](std::int64_t i, float scale, OfLogits& each) -> Loss {
      if (of_logits) return LogitLosses{sum(i), &each, scale};
      return CrossEntropy{sum(i), scale};
    };
    made->head.forward(run.c, x, targets, loss(0, 1, first));
    made->head.forward_backward(run.c, d, x, targets, loss(1, float(kLossScale), second));
    EXPECT_EQ(second.rows, of_logits ? std::ssize(rows) : 0);
    losses[of_logits] = sums.values();
    gradients[of_logits] = d.values();
    for (const auto& [name, all] : run.gradients())
      gradients[of_logits].insert(gradients[of_logits].end(), all.begin(), all.end());
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(gradients[0], gradients[1]);
}

TEST(Head, HasLargerChunksOnAGpu) {
  const auto rows = [](Device d, std::int64_t vocabulary) {
    Head h;
    h.lm_head.out = vocabulary;
    return h.chunk_rows(d);
  };
  const Device cpu, gpu{Device::Kind::cuda};
  EXPECT_EQ(rows(cpu, 32000), 512);
  EXPECT_EQ(rows(gpu, 32000), 2048);
  EXPECT_EQ(rows(cpu, 128256), 128);
  EXPECT_EQ(rows(gpu, 128256), 512);
  EXPECT_EQ(rows(cpu, 100), 1024);
  EXPECT_EQ(rows(gpu, 100), 2048);
}

// Gives every row its weight from `told`, and stores the values that it receives.
class ToldWeights final : public RowLoss {
 public:
  explicit ToldWeights(std::vector<float> told) : told_(std::move(told)) {}
  bool wants_statistics() const override { return true; }
  void weigh(Ctx& c, const RowValues& v, Tensor weights) override {
    values.resize(told_.size());
    c.ops.download(values.data(), v.values);
    EXPECT_EQ(static_cast<bool>(v.statistics), !v.scores);
    scores = v.scores;
    if (weights) c.ops.upload(weights, told_.data());
  }
  std::vector<float> values;
  bool scores = false;

 private:
  std::vector<float> told_;
};

std::vector<float> some_weights(std::size_t n) {
  std::vector<float> w;
  for (std::size_t i = 0; i < n; ++i) w.push_back(0.125f * float(int(i % 5) - 2));
  return w;
}

// Replaces the factor kLossScale of these rows' losses by their weights.
Values<double> reweighed(Values<double> d, const std::vector<std::int32_t>& rows,
                         const std::vector<float>& w) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t j = 0; j < kWidth; ++j)
      d[std::size_t(rows[i]) * kWidth + j] *= double(w[i]) / kLossScale;
  return d;
}

TEST_P(HeadLayer, WeightsOfRowsMayDependOnAllValues) {
  const auto& [t, dtype] = GetParam();
  if (t.smoothing > 0) GTEST_SKIP() << "of the cross-entropy alone";
  LayerRun run(dtype);
  const auto made = make(t, dtype);
  run.bind(*made);
  Matrix &x = run.input(t.rows, kWidth, "x"), &d = run.matrix(t.rows, kWidth, "d");
  std::vector<std::int32_t> rows, ids;
  for (std::int64_t r = t.every - 1; r < t.rows; r += t.every) {
    rows.push_back(std::int32_t(r));
    ids.push_back(std::int32_t(r * r % kVocabulary));
  }
  const Targets targets{upload(run.c, rows), upload(run.c, ids)};
  const std::vector<float> weights = some_weights(rows.size());
  ToldWeights told(weights), seen(weights);
  made->head.forward(run.c, x, targets, &seen);
  made->head.forward_backward(run.c, d, x, targets, &told);
  EXPECT_EQ(told.values, seen.values);
  const auto losses = [&](const auto& in) {
    return expected(in, t, rows, ids, std::size_t(made->head.chunk_rows({})), run.c);
  };
  const Values<double> want = losses(run.in);
  run.expect_near(Values<double>(told.values.begin(), told.values.end()), want, 3, "values");
  run.expect_near(d.values(), reweighed(gradient_of_rows(losses, run.in, rows), rows, weights), 8, "d");
  const int roundings = t.dropout > 0 ? 12 : 8;  // gradients are sums of few kept elements
  run.expect_gradients(losses, Values<double>(weights.begin(), weights.end()), roundings);
}

// The head of a reward model: one number for each row.
TEST(ScoreHead, IsTheReferenceWithItsGradients) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    LayerRun run(dtype);
    Head head;
    RmsNorm norm = make_rms_norm("norm", kWidth, float(kEps), dtype);
    norm.weight.trainable = true;
    head.norm = norm;
    head.lm_head = linear("head", kWidth, 1, kTrained, dtype);
    head.kind = HeadKind::scores;
    run.bind(head);
    Matrix &x = run.input(4, kWidth, "x"), &d = run.matrix(4, kWidth, "d");
    const std::vector<std::int32_t> rows{1, 3}, ids{0, 0};
    const std::vector<float> weights{0.5f, -0.25f};
    ToldWeights told(weights);
    head.forward_backward(run.c, d, x, {upload(run.c, rows), upload(run.c, ids)}, &told);
    EXPECT_TRUE(told.scores);
    const auto scores = [&]<class V>(const Named<V>& in) {
      Values<V> taken;
      for (const std::int32_t r : rows)
        for (std::size_t j = 0; j < kWidth; ++j) taken.push_back(in.at("x")[std::size_t(r) * kWidth + j]);
      return reference::linear(in, "head", reference::rms_norm(taken, in.at("norm.weight"), kEps),
                               rows.size(), {});
    };
    run.expect_near(Values<double>(told.values.begin(), told.values.end()), scores(run.in), 3, "scores");
    run.expect_near(d.values(), reweighed(gradient_of_rows(scores, run.in, rows), rows, weights), 8, "d");
    run.expect_gradients(scores, Values<double>(weights.begin(), weights.end()), 8);
  }
}

TEST_P(HeadLayer, LogitsAreThoseOfTheReference) {
  const auto& [t, dtype] = GetParam();
  if (t.dropout > 0 || t.form.dropout > 0) GTEST_SKIP() << "logits are asked for outside training";
  LayerRun run(dtype);
  const auto made = make(t, dtype);
  run.bind(*made);
  Matrix& x = run.input(t.rows, kWidth, "x");
  std::vector<std::int32_t> rows;
  for (std::int64_t r = t.every - 1; r < t.rows; r += t.every) rows.push_back(std::int32_t(r));
  Matrix& y = run.matrix(std::int64_t(rows.size()), kVocabulary, "y");
  made->head.logits(run.c, y, x, upload(run.c, rows));
  Values<double> taken;
  for (const std::int32_t r : rows)
    for (std::int64_t i = 0; i < kWidth; ++i) taken.push_back(x.get(r, i));
  const Values<double> normed = reference::rms_norm(taken, run.in.at("norm.weight"), kEps);
  run.expect_near(
      y.values(),
      reference::times(reference::linear(run.in, "head", normed, rows.size(), lora_of(t.form, run.c)),
                       double(t.scale)),
      3, "logits");
}

}  // namespace
}  // namespace ft::test
