// The update of a unit during the backward pass of the others. Once a step's last gradients of a unit are
// complete, nothing reads its values again in that step, so they may change.
#include "engine/zero/parameter_store.h"

namespace ft {

void ParameterStore::step_early(Unit& u) {
  u.stepped = true;
  const auto work = [this, &u] {
    Ops& ops = homes_.host ? *homes_.host : ops_;
    std::vector<Window> windows;
    add_windows(u, options_.stage.states, windows);
    pass(std::move(windows), {.changes = true, .grads = true, .previous = early_->previous},
         [&](const Window& w) { each_run_of(w, [&](const FlatRun& run) { early_->visit(ops, run); }); });
  };
  if (beside_)
    beside_->give(work);
  else
    work();
}

void ParameterStore::finish_early() {
  if (!early_) return;
  settle();
  settle_homes();
  for (Unit& u : units_)
    if (!u.stepped) step_early(u);
  if (beside_) beside_->wait_all();
  early_.reset();
}

}  // namespace ft
