// Support of updates that need a complete parameter: states that every rank has, and gathered gradients.
#include <algorithm>

#include "engine/core/divide.h"
#include "engine/ops/ops.h"
#include "engine/zero/parameter_store.h"

namespace ft {

// Returns the elements of a whole state of the first `before` parameters.
std::int64_t ParameterStore::whole_elements(const Group& g, const StateSpec& s, std::size_t before) const {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < before; ++i) {
    const std::int64_t n = s.shape_for(g.parameters[i]->shape).numel();
    count += round_up(s.kept == Kept::shares ? Share::most(n, comm_.size()) : n, std::int64_t{64});
  }
  return count;
}

Tensor ParameterStore::whole_state(const Group& g, std::size_t state, std::size_t parameter) const {
  const StateSpec& s = g.specs[state];
  const std::int64_t n = s.shape_for(g.parameters[parameter]->shape).numel();
  return g.states[state].elements(
      whole_elements(g, s, parameter),
      s.kept == Kept::shares ? Share::of(n, comm_.rank(), comm_.size()).count : n);
}

void ParameterStore::add_whole_states(const Group& g, std::size_t parameter, FlatSlice& to) const {
  for (std::size_t k = 0; k < g.specs.size(); ++k)
    if (g.specs[k].whole()) to.states[k] = whole_state(g, k, parameter);
}

// Returns the sum of squares of each parameter's master. Each rank sums its part in every layout, as in
// grad_norm().
std::vector<double> ParameterStore::squares_of_masters() {
  std::vector<double> squares(static_cast<std::size_t>(1 + norms_));
  const Tensor sums(norm_memory_.get(), DType::f64, {1 + norms_});
  ops_.upload(sums, squares.data());
  std::int64_t at = 0;
  each_window(Layout::sharded, {}, [&](const Window& w) {
    const Group& g = *w.group;
    for (std::size_t i = 0; i < g.parameters.size(); ++i) {
      const std::int64_t from = std::max(g.offsets[i], w.range.first),
                         to = std::min(g.offsets[i] + g.parameters[i]->shape.numel(),
                                       w.range.first + w.range.count);
      at = 1 + g.first_norm + static_cast<std::int64_t>(i);
      if (from < to) ops_.run(op::SumSquares{sums.elements(at, 1), flat_slice(w, from, to).master});
    }
  });
  shards_.all_reduce(sums);
  ops_.download(squares.data(), sums);
  return squares;
}

// Returns all of a group's gradients. The caller must give `taken` back if it is set.
Tensor ParameterStore::gather_gradient(const Group& g, std::byte*& taken) {
  const Range mine = stepped(g);
  if (own_ || g.stage.states == Layout::replicated) return g.grad;
  if (g.stage.grads == Layout::replicated) {
    shards_.all_gather(g.grad, g.grad.elements(mine.first, mine.count));
    return g.grad;
  }
  taken = grads_->take(g.count * size_of(DType::f32));
  const Tensor whole(taken, DType::f32, {g.count});
  shards_.all_gather(whole, g.grad);
  return whole;
}

void ParameterStore::each_whole(bool squares, const std::function<void(std::span<const WholeSlice>)>& visit) {
  bool any = false;
  each_group([&](const Group& g) { any = any || want_whole_gradient(g.specs); });
  if (!any) return;
  settle();
  const std::vector<double> sums = squares ? squares_of_masters() : std::vector<double>();
  for (Unit& u : units_)
    for (Group& g : u.groups) {
      if (!want_whole_gradient(g.specs)) continue;
      ops_.enter(u.name);
      std::byte* taken = nullptr;
      const Tensor whole = gather_gradient(g, taken);
      const Range mine = stepped(g);
      Window w{&u, &g, mine};
      bring(w, {.grads = true});
      std::vector<WholeSlice> all;
      for (std::size_t i = 0; i < g.parameters.size(); ++i) {
        const std::int64_t count = g.parameters[i]->shape.numel(), begin = g.offsets[i];
        const std::int64_t from = std::clamp(begin, mine.first, mine.first + mine.count),
                           to = std::clamp(begin + count, mine.first, mine.first + mine.count);
        WholeSlice s{{flat_slice(w, from, to), g.parameters[i], from - begin, to - from},
                     whole.elements(begin, count)};
        if (squares) s.squares = sums[static_cast<std::size_t>(1 + g.first_norm) + i];
        add_whole_states(g, i, s);
        all.push_back(std::move(s));
      }
      visit(all);
      if (taken) grads_->give_back(taken);
    }
}

}  // namespace ft
