// An MLP and a mixture of experts over the same input, with two norms around each (Gemma 4):
//   mlp_after(mlp(mlp_before(x))) + moe_after(moe(moe_before(x)))
// The router reads x itself.
#pragma once
#include "engine/layers/mlp.h"
#include "engine/layers/moe.h"
#include "engine/layers/norm.h"

namespace ft {

struct MlpAndExperts {
  Mlp mlp;
  Moe moe;
  Norm mlp_before, mlp_after, moe_before, moe_after;

  struct Saved {
    struct Part {
      Tensor before, after;  // statistics of its norms
      Tensor z;              // (rows, C) input of the norm after it
    };
    Part of_mlp, of_moe;
    Mlp::Saved mlp;
    Moe::Saved moe;
  };
  std::string_view name() const { return mlp.name(); }
  Saved forward(Ctx&, Tensor y, Tensor x, Keep of_mlp, Keep of_moe) const;
  // dx = the gradient of x (empty: not wanted). Overwrites the saved tensors.
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, const Saved&) const;
  void visit(Visitor&);

 private:
  static Saved::Part take(Ctx&, const Tensor& x, const Norm& before, const Norm& after);
};

}  // namespace ft
