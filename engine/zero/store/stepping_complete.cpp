// Support of updates that need a complete parameter: states that every rank has, and gathered gradients.
#include <algorithm>

#include "engine/zero/store/stepping.h"

namespace ft::zero {

// Returns the sum of squares of each parameter's master, with the indices of SquareSums. Each rank sums its
// part in every placement, as for the norm of gradients.
std::vector<double> Stepping::squares_of_masters() {
  const Tensor sums = gradients_.sums().all();
  std::vector<double> squares(static_cast<std::size_t>(sums.numel()));
  ops_.upload(sums, squares.data());
  each_window(Placement::sharded, {}, [&](const Window& w) {
    const Group& g = *w.group;
    for (std::size_t i = 0; i < g.parameters.size(); ++i) {
      const Range part = g.part(i, w.range);
      if (part.count > 0) ops_.run(op::SumSquares{gradients_.sums().of(g, i), w.slice(part).master});
    }
  });
  layout_.ranks().shards.all_reduce(sums);
  ops_.download(squares.data(), sums);
  return squares;
}

std::vector<CompleteSlice> Stepping::complete_slices(const Window& w, const Tensor& gradient,
                                                     const std::vector<double>& squares) const {
  const Group& g = *w.group;
  std::vector<CompleteSlice> all;
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    const Range part = g.part(i, w.range);
    CompleteSlice s{{w.slice(part), g.parameters[i], part.first - g.offsets[i], part.count},
                    gradient.elements(g.offsets[i], g.parameters[i]->shape.numel())};
    if (!squares.empty()) s.squares = squares[SquareSums::place(g, i)];
    optimizer_.add_unsharded_states(g, i, s);
    all.push_back(std::move(s));
  }
  return all;
}

void Stepping::each_complete(bool squares, const std::function<void(std::span<const CompleteSlice>)>& visit) {
  bool any = false;
  layout_.each_group([&](const Group& g) { any = any || want_complete_gradient(g.specs); });
  if (!any) return;
  gradients_.settle();
  const std::vector<double> sums = squares ? squares_of_masters() : std::vector<double>();
  for (const Unit& u : layout_.all())
    for (const Group& g : u.groups) {
      if (!want_complete_gradient(g.specs)) continue;
      ops_.enter(u.name);
      gradients_.with_complete(g, [&](const Tensor& gradient) {
        windows_.pass({{&u, &g, layout_.updated(g)}}, {.changes = true, .grads = true},
                      [&](const Window& w) { visit(complete_slices(w, gradient, sums)); });
      });
    }
}

void Stepping::each_unsharded_state(const VisitState& visit) const {
  const Communicator& ranks = layout_.ranks().all;
  layout_.each_group([&](const Group& g) {
    for (std::size_t k = 0; k < g.specs.size(); ++k)
      for (std::size_t i = 0; g.specs[k].unsharded() && i < g.parameters.size(); ++i) {
        const StateSpec& s = g.specs[k];
        const std::int64_t n = g.parameters[i]->shape.numel();
        const std::int64_t first = s.kept == Kept::own      ? n * ranks.rank()
                                   : s.kept == Kept::shares ? Share::of(n, ranks.rank(), ranks.size()).first
                                                            : 0;
        visit(*g.parameters[i], s, optimizer_.unsharded_state(g, k, i), first);
      }
  });
}

}  // namespace ft::zero
