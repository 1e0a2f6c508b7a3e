// A mixture of experts in place of the feed-forward layer (Shazeer et al. 2017): a router sends every token
// to k of E experts, small MLPs, and adds up what they make of it, weighted:
//   y = residual + sum over the chosen e of w_e down_e(f(gate_e(x)) * up_e(x)).
// The rows of an expert lie side by side, so each expert is three usual products over the rows that it got.
// No token is dropped: there are always R = T k rows, whatever the routing, and memory is planned for them.
// A row's weight is applied to what down_e reads, which gives the same sum, and makes the weight's gradient
// cheap: nothing of down_e's result is kept.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/nn/mlp.h"
#include "engine/nn/routing.h"

namespace ft {

struct Expert {
  Linear gate_proj, up_proj, down_proj;
};

// An expert that every token goes to, weighted by sigmoid(gate x) (Qwen2-MoE).
struct SharedExpert {
  Mlp mlp;
  Linear gate;  // (1, C)
};

// What adapters of all experts of a layer share; the Linears' own refer to it.
class ExpertsAdapter {
 public:
  virtual ~ExpertsAdapter() = default;
  // Before the experts' products, in a Scope of c.scratch that lasts until they are done, and after them:
  // gradients are complete then.
  virtual void begin(Ctx&, bool backward) = 0;
  virtual void finish(Ctx&) = 0;
  virtual void visit(Visitor&) = 0;
};

struct Moe {
  std::string name;  // of the module in Hugging Face's model: model.layers.3.mlp
  Linear gate;       // the router, (E, C)
  std::vector<Expert> experts;
  std::optional<SharedExpert> shared;
  std::int64_t choices = 2;  // k
  bool normalised = true;    // the weights of a token's experts add up to 1
  Activation activation = Activation::silu;
  std::int64_t layer = 0;  // among those with experts
  std::unique_ptr<ExpertsAdapter> gate_up_adapter, down_adapter;

  struct Routed {
    Tensor p, weights, ids;        // (T, E), (T, k) f32; (T, k) i32
    Tensor order, tokens, places;  // of op::GroupRows
    Tensor row_weights;            // (R, 1) f32
    Tensor u;                      // of the router's adapter
    Tensor slope;                  // of op::RouteGrad; empty: none
    std::vector<std::int32_t> starts;
  };
  struct Saved {
    Routed routed;
    Tensor gate, up, u;  // (R, F) twice; of the experts' adapters
    Mlp::Saved shared;
    Tensor shared_y, shared_logits, shared_u;  // (T, C), (T, 1) f32; of the shared gate's adapter
    bool kept = false;
  };
  // y = residual + experts(x); with an empty y only what backward needs. routers: null: no statistics.
  Saved forward(Ctx&, Tensor y, Tensor x, Tensor residual, const RouterStatistics* routers, Keep) const;
  // dx = the gradient of x (empty: not wanted). Overwrites what is saved; makes from x what is not.
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, const Saved&, const RouterStatistics* routers) const;
  void visit(Visitor&);

 private:
  std::int64_t inner() const { return experts.front().gate_proj.out; }
  Routed route(Ctx&, Tensor x, const RouterStatistics*) const;
  Tensor sorted(Ctx&, Tensor x, const Routed&) const;
  Saved widen(Ctx&, Tensor x, const RouterStatistics*) const;
  void narrow(Ctx&, Tensor y, Tensor x, Tensor residual, const Saved&) const;
  void add_shared(Ctx&, Tensor y, const Saved&) const;
  void down_back(Ctx&, Tensor dw, Tensor dy, const Saved&) const;
  void wide_back(Ctx&, Tensor dx, Tensor x, const Saved&) const;
  void route_back(Ctx&, Tensor dx, Tensor dw, Tensor x, const Routed&) const;
  void shared_back(Ctx&, Tensor dx, Tensor dy, Tensor x, const Saved&) const;
  void each_expert(const Routed&,
                   const std::function<void(const Expert&, std::int64_t, std::int64_t)>&) const;
};

}  // namespace ft
