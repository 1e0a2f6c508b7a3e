#include "engine/layers/mlp_and_experts.h"

namespace ft {

MlpAndExperts::Saved::Part MlpAndExperts::take(Ctx& c, const Tensor& x, const Norm& before,
                                               const Norm& after) {
  return {before.take_statistics(c.saved, x.rows()), after.take_statistics(c.saved, x.rows()),
          c.save(x.rows(), x.cols())};
}

MlpAndExperts::Saved MlpAndExperts::forward(Ctx& c, Tensor y, Tensor x, Keep of_mlp, Keep of_moe) const {
  Saved s{.of_mlp = take(c, x, mlp_before, mlp_after), .of_moe = take(c, x, moe_before, moe_after)};
  Scope scratch(c.scratch);
  const Tensor n = c.temporary(x.rows(), x.cols());
  mlp_before.forward(c, n, s.of_mlp.before, x);
  s.mlp = mlp.forward(c, s.of_mlp.z, n, {}, of_mlp);
  moe_before.forward(c, n, s.of_moe.before, x);
  s.moe = moe.forward(c, s.of_moe.z, n, {}, nullptr, of_moe, x);
  mlp_after.forward(c, y, s.of_mlp.after, s.of_mlp.z);
  moe_after.forward(c, n, s.of_moe.after, s.of_moe.z);
  c.ops.run(op::Add{y, n});
  return s;
}

void MlpAndExperts::backward(Ctx& c, Tensor dx, Tensor dy, Tensor x, const Saved& s) const {
  Scope scratch(c.scratch);
  const std::int64_t rows = x.rows(), C = x.cols();
  const Tensor n = c.temporary(rows, C), dn = c.temporary(rows, C), dz = c.temporary(rows, C);
  if (dx) c.ops.run(op::Fill{dx, 0});
  const auto part = [&](const Norm& before, const Norm& after, const Saved::Part& of, const auto& layer) {
    c.ops.run(op::Fill{dz, 0});
    after.backward(c, dz, dy, of.z, of.after);
    before.forward(c, n, of.before, x);
    layer();
    before.backward(c, dx, dn, x, of.before);
  };
  part(mlp_before, mlp_after, s.of_mlp, [&] { mlp.backward(c, dn, dz, n, s.mlp); });
  part(moe_before, moe_after, s.of_moe, [&] { moe.backward(c, dn, dz, n, s.moe, nullptr, {x, dx}); });
}

void MlpAndExperts::visit(Visitor& v) {
  mlp_before.visit(v);
  mlp.visit(v);
  mlp_after.visit(v);
  moe_before.visit(v);
  moe.visit(v);
  moe_after.visit(v);
}

}  // namespace ft
