// T5 with dropout at all five places: the backward pass makes the masks of the forward pass.
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/files/safetensors/safetensors_write.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/models/golden_case.h"

namespace ft::test {
namespace {

// A golden case with a changed copy of its model: with dropout, and with weights moved by `step` times
// `direction`.
class Moved {
 public:
  Moved(const std::string& name, float dropout, double step = 0, const Named& direction = {})
      : golden_(name) {
    const ModelFolder from(golden_.model_folder());
    Json config = read_json(golden_.model_folder() + "/config.json");
    config["dropout_rate"] = dropout;
    std::filesystem::create_directory(model());
    write_file(model() + "/config.json", json_text(config));
    std::vector<TensorSpec> specs;
    for (const std::string& weight : from.names()) {
      Shape shape;
      for (const std::int64_t n : from.info(weight).shape)
        shape.dims[static_cast<std::size_t>(shape.rank++)] = n;
      specs.push_back({weight, DType::f32, shape});
    }
    std::vector<float> values;
    write_shards(model(), "model", specs, [&](const TensorSpec& spec) {
      values.resize(static_cast<std::size_t>(spec.shape.numel()));
      const Tensor t(reinterpret_cast<std::byte*>(values.data()), DType::f32, spec.shape);
      from.read(spec.name, t);
      if (direction.contains(spec.name))
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] += static_cast<float>(step * direction.at(spec.name)[i]);
      return t;
    });
    golden_.folder = folder_.path();
    golden_.json["model"] = "model";
  }
  GoldenRun::Pass pass(std::int64_t recompute = 0) {
    return GoldenRun(golden_, {.recompute = recompute}).pass({GoldenCase::join(golden_.batches[0])});
  }

 private:
  std::string model() const { return folder_ / "model"; }
  TempFolder folder_;
  GoldenCase golden_;
};

class T5Dropout : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Models, T5Dropout, testing::Values("t5", "t5-v11"),
                         [](const auto& test) { return test.param == "t5" ? "relu" : "gated"; });

// loss(w + e g) - loss(w - e g) = 2 e |g|^2 with the same masks. If a mask differed in the backward pass, g
// would not be the gradient.
TEST_P(T5Dropout, TheGradientIsTheSlopeOfTheLoss) {
  const auto at = Moved(GetParam(), 0.3f).pass();
  double squares = 0;
  for (const auto& [name, g] : at.gradients)
    for (const double x : g) squares += x * x;
  const double step = 0.004 / squares;
  const double above = Moved(GetParam(), 0.3f, step, at.gradients).pass().loss;
  const double below = Moved(GetParam(), 0.3f, -step, at.gradients).pass().loss;
  EXPECT_NEAR((above - below) / (2 * step * squares), 1, 0.01);
  EXPECT_GT(std::abs(at.loss - Moved(GetParam(), 0).pass().loss), 0.01);
}

TEST_P(T5Dropout, RecomputationMakesTheSameMasks) {
  const auto keeps = Moved(GetParam(), 0.3f).pass(), again = Moved(GetParam(), 0.3f).pass(kAllBlocks);
  EXPECT_EQ(keeps.loss, again.loss);
  EXPECT_EQ(keeps.gradients, again.gradients);
}

}  // namespace
}  // namespace ft::test
