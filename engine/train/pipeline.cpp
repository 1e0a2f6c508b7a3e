#include "engine/train/pipeline.h"

#include <algorithm>
#include <vector>

#include "engine/train/stage_schedule.h"

namespace ft {
namespace {

class StageRun {
 public:
  explicit StageRun(const StageStep& s)
      : s_(s),
        stage_(s.context.grid->place.pipeline),
        shape_{s.context.grid->shape.pipeline, s.context.grid->shape.chunks, s.micro_batches},
        slots_(static_cast<std::size_t>(in_flight(shape_, stage_))),
        together_(static_cast<std::size_t>(shape_.stages)) {
    slots_[0].emplace(s.context);
    for (std::size_t k = 1; k < slots_.size(); ++k)
      slots_[k].emplace(s.context.keeping_in(s.context.in_flight[k - 1]));
  }

  void run() {
    for (const StageTurn& turn : stage_schedule(shape_, stage_)) {
      if (turn.computes) turn.computes.backward ? backward(turn.computes) : forward(turn.computes);
      exchange(turn.sends, turn.receives);
    }
    for (auto& slot : slots_) slot->rewind();
  }

 private:
  struct Slot {
    explicit Slot(const Ctx& c) : context(c), mark(c.saved.mark()) {}
    void rewind() { context.saved.rewind(mark); }
    Ctx context;
    std::int64_t mark;
    States sends;  // made by the last pass, for a neighbouring stage
  };
  // Values that all passes of a micro-batch share.
  struct Taken {
    Batch batch;
    Random random;
    float tokens_weight = 1;
  };
  Slot& of(const StagePass& p) { return *slots_[p.slot]; }
  bool is_last(const StagePass& p) const {
    return stage_ + 1 == shape_.stages && p.chunk + 1 == shape_.chunks;
  }

  void exchange(const StagePass& sends, const StagePass& receives) {
    States in, out;
    if (sends) out = std::move(of(sends).sends);
    // This may take the slot of the sent states, which were moved out of it.
    if (receives) in = receives.backward ? take_gradients(receives) : take_in(receives);
    const int above = rank_above(*s_.context.pipeline()), below = rank_below(*s_.context.pipeline());
    exchange_states(s_.context, out, sends.backward ? below : above, in, receives.backward ? above : below,
                    (receives ? receives : sends).backward ? "gradients" : "states", !sends.backward);
    if (sends && sends.backward) gradient_room_.reset();
  }

  // Makes room for the states from the stage below. The first pass of a micro-batch creates its batch.
  States take_in(const StagePass& p) {
    Slot& slot = of(p);
    slot.rewind();
    Taken& taken = together_[static_cast<std::size_t>(p.micro_batch) % together_.size()];
    Ctx& c = slot.context;
    if (p.chunk == 0) {
      Batch made = s_.take(p.micro_batch, c);
      if (shape_.chunks == 1) return s_.stages.take_in(c, std::move(made), p.chunk, p.slot);
      taken = {std::move(made), c.random, c.tokens_weight};
    }
    c.random = taken.random;
    c.tokens_weight = taken.tokens_weight;
    return s_.stages.take_in(c, taken.batch, p.chunk, p.slot);
  }
  // Makes room for the gradients from the stage above. The last stage computes them itself, maybe after its
  // forward pass. With several chunks other passes come before they are used.
  States take_gradients(const StagePass& p) {
    if (is_last(p)) return {};
    Ctx& c = of(p).context;
    if (shape_.chunks == 1) gradient_room_.emplace(c.scratch);
    return s_.stages.take_gradients(c, p.slot);
  }
  void forward(const StagePass& p) { of(p).sends = s_.stages.forward_stage(of(p).context, s_.store, p.slot); }
  void backward(const StagePass& p) {
    Slot& slot = of(p);
    if (!gradient_room_) gradient_room_.emplace(slot.context.scratch);
    s_.store.begin_micro_step(p.micro_batch + 1 == s_.micro_batches);
    slot.sends = s_.stages.backward_stage(slot.context, s_.store, p.slot, s_.loss);
  }

  const StageStep& s_;
  const int stage_;
  const PipelineShape shape_;
  std::vector<std::optional<Slot>> slots_;
  std::vector<Taken> together_;  // micro-batches that pass through a chunk before the next one
  // Room for the gradients that a backward pass receives or makes, until they are sent.
  std::optional<Scope> gradient_room_;
};

}  // namespace

void run_stage(const StageStep& s) { StageRun(s).run(); }

}  // namespace ft
