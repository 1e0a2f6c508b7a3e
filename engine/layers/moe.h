// A mixture of experts in place of the feed-forward layer (Shazeer et al. 2017): a router sends every token
// to k of E experts, small MLPs, and adds up their weighted results:
//   y = residual + sum over the chosen e of w_e down_e(f(gate_e(x)) * up_e(x)).
// The rows of an expert are contiguous, so each expert is three usual products over its rows. There are
// always R = T k rows, whatever the routing, and memory is planned for them. With a capacity factor each
// expert takes only the first rows up to its capacity; for the others it adds nothing. Experts may be split
// among ranks: rows are then sent to the experts, and results back (expert_rows.h).
// A row's weight multiplies the input of down_e. The sum is the same, and the weight's gradient is cheap: the
// result of down_e need not be kept.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/layers/expert_stack.h"
#include "engine/layers/mlp.h"
#include "engine/layers/rms_norm.h"
#include "engine/layers/routing.h"
#include "engine/ops/elementwise.h"
#include "engine/parallel/expert_rows.h"

namespace ft {

struct Expert {
  Linear gate_proj, up_proj, down_proj;  // up_proj empty: gate_proj makes gate and up, in pairs

  bool paired() const { return !up_proj.weight; }
  std::vector<Linear*> wide() {
    return paired() ? std::vector{&gate_proj} : std::vector{&gate_proj, &up_proj};
  }
  std::vector<Linear*> linears() {
    std::vector<Linear*> all = wide();
    all.push_back(&down_proj);
    return all;
  }
};

// Experts with stacked matrices and with biases (gpt-oss). The first stack's results alternate gates and ups;
// see op::GatedPairs.
struct StackedExperts {
  ExpertStack gate_up, down;
  float limit, steepness;
};

// An expert for all tokens; with a gate its result is weighted by sigmoid(gate x) (Qwen2-MoE).
struct SharedExpert {
  Mlp mlp;
  std::optional<Linear> gate;  // (1, C)
};

// Scales of a router (Gemma 4): the logits are C^-1/2 gate norm(x), and each choice's weight is multiplied by
// its expert's entry in `experts`.
struct RouterScales {
  RmsNorm norm;
  Parameter experts;  // (E) f32
};

// The part of an adapter that all experts of a layer share; the adapters of the single Linears refer to it.
class ExpertsAdapter {
 public:
  virtual ~ExpertsAdapter() = default;
  // begin() is called before the experts' products, in a Scope of c.scratch that lasts until they are done;
  // finish() is called after them, and gradients are complete then.
  virtual void begin(Ctx&, bool backward) = 0;
  virtual void finish(Ctx&) = 0;
  virtual void visit(Visitor&) = 0;
  // Keeps only the part for the rank's experts.
  virtual void share(TensorRank) = 0;
  // Keeps only the part for the rank's part of every expert's Linears, as Adapter::cut does.
  virtual void cut(Cut, TensorRank) = 0;
};

struct Moe {
  std::string name;                     // of the module in Hugging Face's model: model.layers.3.mlp
  Linear gate;                          // the router, (E, C); if wide, logits are f32 in every pass
  std::optional<Parameter> correction;  // (E) f32, added to the scores for the choice of experts alone
  std::optional<RouterScales> scales;
  bool gate_is_linear = false;  // true: transformers has a linear there, which PEFT adapts like others
  std::vector<Expert> experts;
  std::unique_ptr<StackedExperts> stacks;  // null: each expert has its own parameters
  std::optional<SharedExpert> shared;
  std::int64_t choices = 2;  // k
  // In training, the capacity: the most rows of a pass that an expert may get, as a multiple of an even
  // share; 0: no limit.
  double capacity_factor = 0;
  RouteRule rule{.normalised = true};  // from logits to a token's experts and their weights
  Activation activation = Activation::silu;
  std::int64_t layer = 0;  // number among the layers with experts
  // True if PEFT applies target names of single experts' linears, from before transformers merged the experts
  // into one parameter, to that parameter.
  bool keeps_names = true;
  std::unique_ptr<ExpertsAdapter> gate_up_adapter, down_adapter;

  struct Routed {
    Tensor p, weights, ids;  // (T, E), (T, k) f32; (T, k) i32
    // Tensors of RouterScales: the norm's (T) f32; weights before the scales (T, k) f32; the scales (T k, 1)
    // f32.
    Tensor statistics, chosen, factors;
    // Results of op::GroupRows for the K rows that are kept: first K of (R); first K of (R); (T, k); all i32.
    Tensor order, tokens, places;
    bool drops = false;         // capacity may drop rows: K may be less than R
    std::int64_t most_own = 0;  // the largest possible K
    ExpertRows rows;            // of this rank's experts, (M)
    // by expert, for experts with separate units: some rank has rows for it
    std::vector<std::uint8_t> wanted;
    Tensor row_weights;  // (M, 1) f32
    Tensor u;            // of the router's adapter
    Tensor slope;        // of op::RouteGrad; empty: none
  };
  struct Saved {
    Routed routed;
    Tensor gate, up, u;  // (M, F), (M, F); u of the experts' adapters
    Mlp::Saved shared;
    Tensor shared_y, shared_logits, shared_u;  // (T, C), (T, 1) f32; u of the shared gate's adapter
    bool kept = false;
  };
  // Throws InternalError for parts that this layer does not compute together.
  void check() const;
  // y = residual + experts(x). With an empty y it computes only the tensors that backward needs. routers:
  // null: no statistics. routed: the router's input; empty: x.
  Saved forward(Ctx&, Tensor y, Tensor x, Tensor residual, const RouterStatistics* routers, Keep,
                Tensor routed = {}) const;
  struct OwnInput {  // of the router
    Tensor x;        // empty: the router reads the experts' input
    Tensor dx;       // += its gradient; empty: not wanted
  };
  // dx = the gradient of x (empty: not wanted). Overwrites the saved tensors; recomputes from x those that
  // were not kept.
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, const Saved&, const RouterStatistics* routers,
                const OwnInput& routed = {}) const;
  void visit(Visitor&);
  // Keeps only the rank's part of the width of every expert. Throws UserError (config) for stacks, and for
  // routers with scales.
  void cut(TensorRank);
  // Splits the experts among ranks that all have them: keeps only this rank's experts. Other ranks then know
  // nothing of them except their names. Throws UserError (config) if the number of experts does not divide
  // evenly.
  void share(TensorRank);
  // Gives experts separate units in the store, if the store says that this pays off: one unit for each
  // expert's gate and up, and one for its down. Only experts that some rank needs are then gathered and
  // reduced. Removes their parameters from the list.
  void take_apart(ParameterStore&, std::vector<Parameter*>& parameters);

 private:
  enum Part : std::uint8_t { wide, down };
  enum class Pass : std::uint8_t { forth, back };
  static constexpr int kWithTheLayer = -1;
  std::int64_t first_ = 0, own_ = 0;  // range of this rank's experts; own_ 0: all
  bool parts_ = false;                // this rank has a part of every expert's width
  // (own experts, parts) units of single experts, or kWithTheLayer; empty: none has its own
  std::vector<int> units_;
  struct Results {
    Tensor made;  // (M, C), results of this rank's experts
    // (K, C), results for this rank's tokens; if rows may be dropped, a row of zeros follows for them
    Tensor all;
  };
  // Forward and backward of this rank's experts, or of its parts of experts, whose results are partial sums.
  Saved forward_own(Ctx&, Tensor y, Tensor x, Tensor residual, const RouterStatistics* routers, Keep,
                    Tensor routed) const;
  void backward_own(Ctx&, Tensor dx, Tensor dy, Tensor x, const Saved&, const RouterStatistics* routers,
                    const OwnInput& routed) const;
  // x becomes its sum over the ranks that have parts of the experts.
  void add_up_parts(Ctx&, Tensor x) const;
  // Returns dx, of which ranks have parts, on the rank that adds complete values to it; empty on the others.
  Tensor only_once(const Ctx&, Tensor dx) const;
  std::int64_t inner() const { return experts.front().down_proj.in; }
  Tensor act(Ctx&, const Saved&) const;  // (M, F) in c.scratch: the activation, without the rows' weights
  // down_e's bias times the rows' weights: adds it to the results, or its gradients.
  void add_down_bias(Ctx&, Tensor made, const Routed&) const;
  void down_bias_back(Ctx&, Tensor dw, Tensor dz, const Routed&) const;
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
  Saved widen(Ctx&, Tensor x, Tensor routed, const RouterStatistics*, Keep) const;
  void narrow(Ctx&, Tensor y, Tensor x, Tensor residual, const Saved&) const;
  void add_shared(Ctx&, Tensor y, const Saved&) const;
  void down_back(Ctx&, Tensor dw, Tensor dy, const Saved&) const;
  void wide_back(Ctx&, Tensor dx, Tensor x, const Saved&) const;
  // Multiplies the choices' weights by their experts' scales; the other replaces the weights' gradient by the
  // gradient before the scales.
  void scale_choices(Ctx&, const Routed&) const;
  void scale_choices_back(Ctx&, Tensor dweights, const Routed&) const;
  // Computes the router's logits from x.
  void score(Ctx&, Routed&, Tensor logits, Tensor x) const;
  void score_back(Ctx&, Tensor dx, Tensor dlogits, Tensor x, const Routed&) const;
  void route_back(Ctx&, Tensor dx, Tensor dw, Tensor x, const Routed&) const;
  void shared_back(Ctx&, Tensor dx, Tensor dy, Tensor x, const Saved&) const;
  void each_expert(Ctx&, const Routed&, Part, Pass,
                   const std::function<void(const Expert&, std::int64_t, std::int64_t)>&) const;
};

}  // namespace ft
