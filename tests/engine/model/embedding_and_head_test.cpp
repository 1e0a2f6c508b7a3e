// EmbeddingAndHead: one matrix for both ends gets the gradients of both; untied, there are two matrices.
#include "engine/model/embedding_and_head.h"

#include "tests/engine/layers/layer_fixture.h"

namespace ft::test {
namespace {

constexpr std::int64_t kWidth = 5, kVocabulary = 7;
constexpr double kEps = 1e-3, kLossScale = 0.125;
const std::vector<std::int32_t> kIds{3, 0, 3, 6}, kTargets{0, 3, 6, 2}, kRows{0, 1, 2, 3};

enum class Ends { two, tied, untied };

void make(EmbeddingAndHead& v, Ends ends, bool trained, DType dtype) {
  v.embedding.weight = {
      .name = "embed.weight", .shape = {kVocabulary, kWidth}, .dtype = dtype, .trainable = trained};
  RmsNorm norm = make_rms_norm("norm", kWidth, float(kEps), dtype);
  norm.weight.trainable = trained;
  v.head.norm = norm;
  v.head.lm_head = linear("head", kWidth, kVocabulary, {.trained = trained}, dtype);
  if (ends != Ends::two) v.tie();
  if (ends == Ends::untied) v.untie();
}

// Returns the losses of all rows.
template <class V>
Values<V> expected(Named<V> in) {
  const Values<V>& table = in.at("embed.weight");
  if (!in.contains("head.weight")) in["head.weight"] = table;
  Values<V> x, losses;
  for (const std::int32_t id : kIds)
    x.insert(x.end(), &table[std::size_t(id * kWidth)], &table[std::size_t(id * kWidth)] + kWidth);
  x = reference::rms_norm(x, in.at("norm.weight"), kEps);
  const Values<V> logits = reference::linear(in, "head", x, kIds.size());
  for (std::size_t i = 0; i < kIds.size(); ++i) {
    const auto row = logits.begin() + std::ptrdiff_t(i) * kVocabulary;
    losses.push_back(
        reference::cross_entropy(Values<V>(row, row + kVocabulary), std::size_t(kTargets[i]), 0.0));
  }
  return losses;
}

class EmbeddingAndHeadLayer : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, EmbeddingAndHeadLayer, kTypes, name_of_type);

TEST_P(EmbeddingAndHeadLayer, IsTheReferenceWithItsGradients) {
  for (const Ends ends : {Ends::two, Ends::tied, Ends::untied})
    for (const bool trained : {true, false}) {
      SCOPED_TRACE(str("ends ", int(ends), " trained ", trained));
      LayerRun run(GetParam());
      EmbeddingAndHead v;
      make(v, ends, trained, GetParam());
      run.remember(v.embedding);
      run.remember(v.head);
      v.add_embedding(run.store);
      v.add_head(run.store);
      run.start();
      EXPECT_EQ(v.head_units().size(), ends == Ends::tied ? 2u : 1u);
      EXPECT_EQ(run.in.contains("head.weight"), ends != Ends::tied);

      Matrix loss(1, 2, DType::f64);
      loss.assign({0, 0});
      const auto element = [&](std::int64_t i) { return Tensor(loss.tensor.data + 8 * i, DType::f64, {1}); };
      const Tensor ids = upload(run.c, kIds), x = v.embed(run.c, run.store, ids);
      const Targets targets{upload(run.c, kRows), upload(run.c, kTargets)};
      v.forward(run.c, run.store, x, targets, CrossEntropy{element(0)});
      {
        Scope scratch(run.c.scratch);
        const Tensor d =
            v.forward_backward(run.c, run.store, x, targets, CrossEntropy{element(1), float(kLossScale)});
        if (trained) v.embed_backward(run.c, run.store, d, ids, true);
      }
      const auto losses = [](const auto& in) { return expected(in); };
      double sum = 0;
      for (const double l : losses(run.in)) sum += l;
      for (const double got : loss.values()) run.expect_near({got}, {sum}, 3, "loss");
      run.expect_gradients(losses, Values<double>(kIds.size(), kLossScale), 8);

      Matrix& y = run.matrix(1, kVocabulary, "y");
      const std::vector<std::int32_t> last{std::int32_t(kIds.size()) - 1};
      v.logits(run.c, run.store, y, x, upload(run.c, last));
      const Values<double> all = y.values();
      run.expect_near({reference::cross_entropy(all, std::size_t(kTargets.back()), 0.0)},
                      {losses(run.in).back()}, 3, "the loss of the logits");
    }
}

}  // namespace
}  // namespace ft::test
