// RmsNorm with each of its gradients wanted or not.
#include "engine/layers/rms_norm.h"

#include "tests/engine/layers/layer_fixture.h"

namespace ft::test {
namespace {

struct Size {
  std::int64_t rows, cols;
};
constexpr float kEps = 1e-3f;

class RmsNormLayer : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, RmsNormLayer, kTypes, name_of_type);

void check(DType dtype, Size size, bool trained, bool wants_dx) {
  SCOPED_TRACE(str(size.rows, " x ", size.cols, " trained ", trained, " wants dx ", wants_dx));
  RmsNorm norm = make_rms_norm("norm", size.cols, kEps, dtype);
  norm.weight.trainable = trained;
  LayerRun run(dtype);
  run.bind(norm);
  Matrix &x = run.input(size.rows, size.cols, "x"), &y = run.matrix(size.rows, size.cols, "y");
  Matrix &dx = run.matrix(size.rows, size.cols, "dx"), &dy = run.matrix(size.rows, size.cols, "dy");
  const Values<double> before = dx.values();
  const Tensor rstd = run.c.saved.take({size.rows}, DType::f32);
  norm.forward(run.c, y, rstd, x);
  norm.backward(run.c, wants_dx ? dx.tensor : Tensor{}, dy, x, rstd);

  const auto reference = [](const auto& in) {
    return reference::rms_norm(in.at("x"), in.at("norm.weight"), double(kEps));
  };
  run.expect_near(y.values(), reference(run.in), 1, "y");
  const Values<double> added = complex_step(reference, run.in, "x", dy.values());
  run.expect_near(dx.values(), wants_dx ? reference::add(before, added) : before, 1, "dx");
  run.expect_gradients(reference, dy.values(), 1);
}

TEST_P(RmsNormLayer, IsTheReferenceWithItsGradients) {
  for (const Size size : {Size{1, 1}, {1, 7}, {9, 33}, {5, 64}})
    for (const bool trained : {true, false})
      for (const bool wants_dx : {true, false}) check(GetParam(), size, trained, wants_dx);
}

}  // namespace
}  // namespace ft::test
