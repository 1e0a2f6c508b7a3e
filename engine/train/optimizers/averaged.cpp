#include "engine/train/optimizers/averaged.h"

#include <map>

#include "engine/ops/ops.h"

namespace ft {
namespace {

// The inner optimizer's slice: the last state is the average.
template <class Piece>
Piece inner_of(const Piece& piece) {
  Piece inner = piece;
  inner.states.pop_back();
  return inner;
}

class Averaged final : public Optimizer {
 public:
  Averaged(std::unique_ptr<const Optimizer> inner, double decay) : inner_(std::move(inner)), decay_(decay) {}

  std::span<const StateSpec> states(const Parameter& p) const override {
    const auto own = inner_->states(p);
    auto& all = states_[own.data()];
    if (all.empty()) {
      all.assign(own.begin(), own.end());
      all.push_back(kAverage);
    }
    return all;
  }
  void step(Ops& ops, const FlatRun& r, const StepScalars& s) const override {
    if (s.step == 1) rest(ops, r);
    inner_->step(ops, inner_of(r), s);
    if (!r.complete) average(ops, r);
  }
  void rest(Ops& ops, const FlatRun& r) const override { ops.run(op::Cast{r.states.back(), r.master}); }
  void step_together(Ops& ops, std::span<const CompleteSlice> all, const StepScalars& s, Arena& scratch,
                     Communicator& comm) const override {
    std::vector<CompleteSlice> inner;
    for (const CompleteSlice& w : all) inner.push_back(inner_of(w));
    inner_->step_together(ops, inner, s, scratch, comm);
    for (const CompleteSlice& w : all)
      if (w.count > 0 && by_rule(s, w.parameter->rule).step > 0) average(ops, w);
  }
  bool wants_squares() const override { return inner_->wants_squares(); }
  std::int64_t own_from() const override { return inner_->own_from(); }

 private:
  void average(Ops& ops, const FlatSlice& s) const {
    ops.run(op::Average{.mean = s.states.back(), .x = s.master, .rest = 1 - decay_});
  }

  std::unique_ptr<const Optimizer> inner_;
  double decay_;
  mutable std::map<const StateSpec*, std::vector<StateSpec>> states_;  // by the inner optimizer's
};

}  // namespace

std::unique_ptr<const Optimizer> with_average(std::unique_ptr<const Optimizer> inner, double decay) {
  return std::make_unique<Averaged>(std::move(inner), decay);
}

}  // namespace ft
