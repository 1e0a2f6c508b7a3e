// Embedding: rows of the table and, if it is trained, their gradients, added up over equal ids.
#include "engine/layers/embedding.h"

#include <algorithm>

#include "tests/engine/layers/layer_fixture.h"

namespace ft::test {
namespace {

class EmbeddingLayer : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, EmbeddingLayer, kTypes, name_of_type);

// Removes the imaginary part, and so the derivative: for a table that is not trained.
template <class V>
V constant(V v) {
  return V(std::real(v));
}

TEST_P(EmbeddingLayer, IsTheReferenceWithItsGradients) {
  for (const auto& [trained, padding] : {std::pair{true, -1}, {true, 3}, {true, 4}, {false, 3}})
    for (const std::vector<std::int32_t>& ids : {std::vector{4}, std::vector{3, 0, 3, 5, 3}}) {
      const std::int64_t rows = std::int64_t(ids.size()), width = 7;
      Embedding table{
          .weight = {.name = "table", .shape = {6, width}, .dtype = GetParam(), .trainable = trained},
          .padding = padding};
      LayerRun run(GetParam());
      run.bind(table);
      Matrix &y = run.matrix(rows, width, "y"), &dy = run.matrix(rows, width, "dy");
      const Tensor at = upload(run.c, ids);
      table.forward(run.c, y, at);
      table.backward(run.c, dy, at);
      const auto reference = [&, padding = padding](const auto& in) {
        auto taken = in.at("table");
        taken.clear();
        for (const std::int32_t id : ids)
          for (std::int64_t i = 0; i < width; ++i) {
            const auto v = in.at("table")[std::size_t(id * width + i)];
            taken.push_back(id == padding ? constant(v) : v);
          }
        return taken;
      };
      EXPECT_EQ(y.values(), reference(run.in));
      run.expect_gradients(reference, dy.values(), 0);
    }
}

// Rows that are trained separately replace the table's rows, and receive their gradients.
TEST_P(EmbeddingLayer, SeparatelyTrainedRows) {
  const std::vector<std::int32_t> own{5, 3, 1}, ids{3, 0, 3, 5, 1, 3};
  constexpr std::int32_t kPadding = 5;
  const std::int64_t rows = std::int64_t(ids.size()), width = 7;
  Embedding table{.weight = {.name = "table", .shape = {6, width}, .dtype = GetParam()}, .padding = kPadding};
  table.trained = std::make_unique<TokenRows>(
      TokenRows{{.name = "own", .shape = {3, width}, .dtype = GetParam(), .trainable = true}, own});
  LayerRun run(GetParam());
  run.bind(table);
  Matrix &y = run.matrix(rows, width, "y"), &dy = run.matrix(rows, width, "dy");
  const Tensor at = upload(run.c, ids);
  table.forward(run.c, y, at);
  table.backward(run.c, dy, at);
  const auto reference = [&](const auto& in) {
    auto taken = in.at("table");
    taken.clear();
    for (const std::int32_t id : ids) {
      const auto mine = std::find(own.begin(), own.end(), id);
      const auto& from = mine == own.end() ? in.at("table") : in.at("own");
      const std::int64_t row = mine == own.end() ? id : mine - own.begin();
      for (std::int64_t i = 0; i < width; ++i) {
        const auto v = from[std::size_t(row * width + i)];
        taken.push_back(id == kPadding ? constant(v) : v);
      }
    }
    return taken;
  };
  EXPECT_EQ(y.values(), reference(run.in));
  run.expect_gradients(reference, dy.values(), 0);
}

}  // namespace
}  // namespace ft::test
