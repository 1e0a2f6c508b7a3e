// A mixture of experts in place of the feed-forward layer (Shazeer et al. 2017): a router sends every token
// to k of E experts, small MLPs, and adds up what they make of it, weighted:
//   y = residual + sum over the chosen e of w_e down_e(f(gate_e(x)) * up_e(x)).
// The rows of an expert lie side by side, so each expert is three usual products over the rows that it got.
// There are R = T k rows, whatever the routing, and memory is planned for them; with a capacity factor each
// expert takes the first so many of its rows, and for the rest an expert adds nothing. Ranks may have dealt
// out the experts: rows then travel to them and back (expert_rows.h).
// A row's weight is applied to what down_e reads, which gives the same sum, and makes the weight's gradient
// cheap: nothing of down_e's result is kept.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/layers/mlp.h"
#include "engine/layers/routing.h"
#include "engine/ops/elementwise.h"
#include "engine/parallel/expert_rows.h"

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
  // Leaves what adapts the rank's part of the experts.
  virtual void share(TensorRank) = 0;
};

struct Moe {
  std::string name;  // of the module in Hugging Face's model: model.layers.3.mlp
  Linear gate;       // the router, (E, C)
  std::vector<Expert> experts;
  std::optional<SharedExpert> shared;
  std::int64_t choices = 2;  // k
  // In training, how many rows an expert may get of a pass, as a multiple of what each would get if all got
  // as many; 0: as many as there are.
  double capacity_factor = 0;
  bool normalised = true;  // the weights of a token's experts add up to 1
  Activation activation = Activation::silu;
  std::int64_t layer = 0;  // among those with experts
  // Whether PEFT takes what linears of experts were called, before all experts were one parameter, for that.
  bool keeps_names = true;
  std::unique_ptr<ExpertsAdapter> gate_up_adapter, down_adapter;

  struct Routed {
    Tensor p, weights, ids;  // (T, E), (T, k) f32; (T, k) i32
    // Those of op::GroupRows for the K rows that are kept: the first of (R), (R), and (T, k) i32
    Tensor order, tokens, places;
    bool drops = false;                // K may be less than R
    std::int64_t most_own = 0;         // what K may be
    ExpertRows rows;                   // of this rank's experts, (M)
    std::vector<std::uint8_t> wanted;  // of units apart, by expert: any rank has rows for it
    Tensor row_weights;                // (M, 1) f32
    Tensor u;                          // of the router's adapter
    Tensor slope;                      // of op::RouteGrad; empty: none
  };
  struct Saved {
    Routed routed;
    Tensor gate, up, u;  // (M, F) twice; of the experts' adapters
    Mlp::Saved shared;
    Tensor shared_y, shared_logits, shared_u;  // (T, C), (T, 1) f32; of the shared gate's adapter
    bool kept = false;
  };
  // y = residual + experts(x); with an empty y only what backward needs. routers: null: no statistics.
  Saved forward(Ctx&, Tensor y, Tensor x, Tensor residual, const RouterStatistics* routers, Keep) const;
  // dx = the gradient of x (empty: not wanted). Overwrites what is saved; makes from x what is not.
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, const Saved&, const RouterStatistics* routers) const;
  void visit(Visitor&);
  // Deals the experts out among ranks, which have them all together: leaves this one its own, of which others
  // know nothing but the name. UserError (exit 2) where their number does not divide.
  void share(TensorRank);
  // Gives the store units of their own for experts, where it says that this pays, so that only those come,
  // and have their gradients added up, that any rank needs: of each expert one for gate and up, and one for
  // down.
  void take_apart(ParameterStore&, std::vector<Parameter*>& parameters);

 private:
  enum Part : std::uint8_t { wide, down };
  enum class Pass : std::uint8_t { forth, back };
  static constexpr int kWithTheLayer = -1;
  std::int64_t first_ = 0, own_ = 0;  // of the experts, those that this rank has; own_ 0: all
  std::vector<int> units_;            // (own experts, parts) apart, kWithTheLayer; empty: all are
  struct Results {
    Tensor made;  // (M, C), by this rank's experts
    Tensor all;   // (K, C), for its tokens, and one of zeros for those of which an expert makes nothing
  };
  std::int64_t inner() const { return experts.front().gate_proj.out; }
  Routed route(Ctx&, Tensor x, const RouterStatistics*, Keep) const;
  ExpertRows find_rows(Ctx&, const Routed&, Tensor starts, const ExpertRoom&) const;
  std::vector<std::uint8_t> find_wanted(Ctx&, const ExpertRows&, Keep) const;
  void keep_first(Ctx&, const Routed&, std::int64_t most, std::int64_t none,
                  std::vector<std::int32_t>& starts) const;
  void gather(Ctx&, Tensor y, Tensor x, Tensor from, const Routed&) const;
  Tensor sorted(Ctx&, Tensor x, const Routed&) const;
  Tensor inside(Ctx&, std::int64_t columns, const Routed&) const;
  Results room_for_results(Ctx&, std::int64_t columns, const Routed&) const;
  void add_up(Ctx&, Tensor y, const Results&, const Routed&, Tensor residual) const;
  Saved widen(Ctx&, Tensor x, const RouterStatistics*, Keep) const;
  void narrow(Ctx&, Tensor y, Tensor x, Tensor residual, const Saved&) const;
  void add_shared(Ctx&, Tensor y, const Saved&) const;
  void down_back(Ctx&, Tensor dw, Tensor dy, const Saved&) const;
  void wide_back(Ctx&, Tensor dx, Tensor x, const Saved&) const;
  void route_back(Ctx&, Tensor dx, Tensor dw, Tensor x, const Routed&) const;
  void shared_back(Ctx&, Tensor dx, Tensor dy, Tensor x, const Saved&) const;
  void each_expert(Ctx&, const Routed&, Part, Pass,
                   const std::function<void(const Expert&, std::int64_t, std::int64_t)>&) const;
};

}  // namespace ft
