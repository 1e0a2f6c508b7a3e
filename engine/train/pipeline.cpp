#include "engine/train/pipeline.h"

#include <algorithm>
#include <vector>

namespace ft {
namespace {

constexpr std::int64_t kNone = -1;

class StageRun {
 public:
  explicit StageRun(const StageStep& s)
      : s_(s),
        stage_(s.context.pipeline()->rank()),
        last_(stage_ + 1 == s.context.pipeline()->size()),
        ahead_(std::min<std::int64_t>(s.context.pipeline()->size() - 1 - stage_, s.micro_batches)),
        slots_(static_cast<std::size_t>(in_flight(stage_, s.context.pipeline()->size(), s.micro_batches))) {
    slots_[0].emplace(s.context);
    for (std::size_t k = 1; k < slots_.size(); ++k)
      slots_[k].emplace(s.context.keeping_in(s.context.in_flight[k - 1]));
  }

  void run() {
    const std::int64_t n = s_.micro_batches;
    for (std::int64_t i = 0; i < ahead_; ++i) {
      receive(i, {});
      forward(i);
      exchange_states(s_.context, stage_ + 1, of(i).out, {}, "states");
    }
    if (ahead_ < n) receive(ahead_, {});
    for (std::int64_t i = ahead_; i < n; ++i) {
      forward(i);
      backward(i - ahead_, i, i + 1 < n ? i + 1 : kNone);
    }
    for (std::int64_t j = n - ahead_; j < n; ++j) backward(j, kNone, kNone);
    for (auto& slot : slots_) slot->rewind();
  }

 private:
  struct Slot {
    explicit Slot(const Ctx& c) : context(c), mark(c.saved.mark()) {}
    void rewind() { context.saved.rewind(mark); }
    Ctx context;
    std::int64_t mark;
    Tensor out;  // states for the stage above; none in the last
  };
  std::size_t slot_of(std::int64_t i) const { return static_cast<std::size_t>(i) % slots_.size(); }
  Slot& of(std::int64_t i) { return *slots_[slot_of(i)]; }

  // Takes a micro-batch in, and its states from the stage below, for a gradient that goes there.
  void receive(std::int64_t i, Tensor gradient) {
    Tensor states;
    if (i != kNone) {
      Slot& slot = of(i);
      slot.rewind();
      states = s_.model.take_in(slot.context, s_.take(i, slot.context), slot_of(i));
    }
    exchange_states(s_.context, stage_ - 1, gradient, states, "states");
  }
  void forward(std::int64_t i) {
    const Tensor y = s_.model.forward_stage(of(i).context, s_.store, slot_of(i));
    if (!last_) of(i).out = y;
  }
  // Micro-batch j's. Its gradient comes when the states of `up` leave, and leaves when those of `next` come.
  void backward(std::int64_t j, std::int64_t up, std::int64_t next) {
    Ctx& c = of(j).context;
    Scope scratch(c.scratch);
    Tensor d;
    if (!last_ && s_.model.gradients_come()) d = c.temporary(of(j).out.rows(), of(j).out.cols());
    exchange_states(c, stage_ + 1, up == kNone ? Tensor{} : of(up).out, d, "gradients");
    s_.store.begin_micro_step(j + 1 == s_.micro_batches);
    d = s_.model.backward_stage(c, s_.store, slot_of(j), d, s_.loss);
    receive(next, s_.model.gradients_leave() ? d : Tensor{});
  }

  const StageStep& s_;
  const int stage_;
  const bool last_;
  const std::int64_t ahead_;  // forward passes before the first backward pass
  std::vector<std::optional<Slot>> slots_;
};

}  // namespace

void run_stage(const StageStep& s) { StageRun(s).run(); }

}  // namespace ft
