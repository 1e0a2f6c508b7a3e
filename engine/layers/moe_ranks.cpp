// Experts on several ranks: each rank has a part of every expert's width, or complete experts.
//
// Ranks that have parts route the same rows in the same way, and each computes partial sums of the results
// and of the input's gradient. These are added up once for the layer. The gradients of the experts' weights,
// and of the shared expert's, are added up before the routers use them; a router's part of the input's
// gradient is then complete on every rank, and only the first one adds it.
#include "engine/layers/moe.h"
#include "engine/parallel/row_shards.h"

namespace ft {

Moe::Saved Moe::forward(Ctx& c, Tensor y, Tensor x, Tensor residual, const RouterStatistics* routers,
                        Keep keep, Tensor routed) const {
  if (!parts_ || c.parts_stay) return forward_own(c, y, x, residual, routers, keep, routed);
  Saved s;
  {
    const PartialSums sums(c);
    s = forward_own(c, y, x, {}, routers, keep, routed);
  }
  if (!y) return s;
  ft::add_up(c, y, name);
  if (residual) c.ops.run(op::Add{y, residual});
  return s;
}

void Moe::backward(Ctx& c, Tensor dx, Tensor dy, Tensor x, const Saved& saved,
                   const RouterStatistics* routers, const OwnInput& routed) const {
  if (!parts_ || c.parts_stay) return backward_own(c, dx, dy, x, saved, routers, routed);
  {
    const PartialSums sums(c);
    backward_own(c, dx, dy, x, saved, routers, routed);
  }
  if (dx) ft::add_up(c, dx, name);
}

void Moe::add_up_parts(Ctx& c, Tensor x) const {
  if (parts_) ft::add_up(c, x, name);
}

Tensor Moe::only_once(const Ctx& c, Tensor dx) const {
  return parts_ && c.tensor()->rank() > 0 ? Tensor{} : dx;
}

void Moe::cut(TensorRank t) {
  if (stacks || scales) refuse_cut(str("ranks cannot share the experts of ", name, " yet; leave it out"));
  for (Expert& e : experts) {
    for (Linear* l : e.wide()) l->share(Cut::columns, t);
    e.down_proj.share(Cut::rows, t);
  }
  if (gate_up_adapter) gate_up_adapter->cut(Cut::columns, t);
  if (down_adapter) down_adapter->cut(Cut::rows, t);
  if (shared) shared->mlp.cut(t);
  parts_ = t.size > 1;
}

void Moe::share(TensorRank t) {
  if (t.size == 1) return;
  require(!parts_, "ranks share experts, and parts of them");
  const std::int64_t count = std::ssize(experts);
  if (count % t.size != 0)
    throw UserError(Exit::config, str("distributed.expert_parallel_size: ", t.size,
                                      " ranks cannot have equal numbers of the ", count,
                                      " experts; sizes that would do: ", divisors(count)));
  first_ = t.first_of(count);
  own_ = t.count_of(count);
  for (std::int64_t e = 0; e < count; ++e) {
    EachParameter each([&](Parameter& p) {
      p.dealt = true;
      if (first_ <= e && e < first_ + own_) return;
      keep_portion(p, {p.shape, p.shape.numel()});
      p.shape.dims[0] = 0;
    });
    for (Linear* l : experts[static_cast<std::size_t>(e)].linears()) l->visit(each);
  }
  if (stacks) {
    stacks->gate_up.share(t);
    stacks->down.share(t);
  }
  for (const auto* adapter : {&gate_up_adapter, &down_adapter})
    if (*adapter) (*adapter)->share(t);
}

}  // namespace ft
