#include "engine/train/stage_schedule.h"

#include <deque>
#include <utility>

namespace ft {
namespace {

// Return pass number k of a step, in the order of the forward passes, and in the order of the backward
// passes.
StagePass forward_pass(const PipelineShape& p, std::int64_t k) {
  const std::int64_t all = std::int64_t{p.stages} * p.chunks, begin = k / all * p.stages,
                     together = std::min<std::int64_t>(p.stages, p.micro_batches - begin);
  return {.micro_batch = begin + k % all % together, .chunk = static_cast<int>(k % all / together)};
}
StagePass backward_pass(const PipelineShape& p, std::int64_t k) {
  StagePass pass = forward_pass(p, k);
  pass.chunk = p.chunks - 1 - pass.chunk;
  pass.backward = true;
  return pass;
}

// A forward pass sends to the rank from which the backward pass after it receives, and the other way round.
std::vector<StageTurn> one_forward_one_backward(const PipelineShape& p, int stage) {
  const std::int64_t m = p.micro_batches, ahead = std::min(m, passes_ahead(p, stage));
  std::vector<StagePass> order;
  for (std::int64_t i = 0; i < m + ahead; ++i) {
    if (i < m) order.push_back(forward_pass(p, i));
    if (i >= ahead) order.push_back(backward_pass(p, i - ahead));
  }
  std::vector<StageTurn> turns{{.computes = {}, .sends = {}, .receives = order[0]}};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const StagePass next = i + 1 < order.size() ? order[i + 1] : StagePass{};
    const bool one_neighbour = next && next.backward != order[i].backward;
    turns.push_back({order[i], order[i], one_neighbour ? next : StagePass{}});
    if (next && !one_neighbour) turns.push_back({{}, {}, next});
  }
  return turns;
}

std::vector<StageTurn> interleaved(const PipelineShape& p, int stage) {
  const std::int64_t all = p.chunks * p.micro_batches, ahead = passes_ahead(p, stage);
  const auto forward = [&](std::int64_t k) { return k < all ? forward_pass(p, k) : StagePass{}; };
  const auto backward = [&](std::int64_t k) { return 0 <= k && k < all ? backward_pass(p, k) : StagePass{}; };
  std::vector<StageTurn> turns{{{}, {}, forward(0)}};
  for (std::int64_t tick = 0; tick < all + ahead; ++tick) {
    const StagePass up = forward(tick), down = backward(tick - ahead), next = backward(tick - ahead + 1);
    if (up) turns.push_back({up, {}, {}});
    if (down || next) turns.push_back({down, down, next});
    if (up) turns.push_back({{}, up, forward(tick + 1)});
  }
  return turns;
}

// Gives each received pass the slot that has been free for the longest time.
void give_slots(const PipelineShape& p, int stage, std::vector<StageTurn>& turns) {
  std::deque<std::size_t> free;
  for (std::int64_t k = 0; k < in_flight(p, stage); ++k) free.push_back(static_cast<std::size_t>(k));
  std::vector<std::size_t> slots(static_cast<std::size_t>(p.chunks * p.micro_batches));
  const auto slot_of = [&](const StagePass& pass) -> std::size_t& {
    return slots[static_cast<std::size_t>(pass.micro_batch * p.chunks + pass.chunk)];
  };
  for (StageTurn& turn : turns) {
    if (turn.computes && turn.computes.backward) free.push_back(slot_of(turn.computes));
    for (StagePass* of : {&turn.computes, &turn.sends})
      if (*of) of->slot = slot_of(*of);
    if (!turn.receives) continue;
    if (!turn.receives.backward) {
      slot_of(turn.receives) = free.front();
      free.pop_front();
    }
    turn.receives.slot = slot_of(turn.receives);
  }
}

}  // namespace

std::vector<StageTurn> stage_schedule(const PipelineShape& p, int stage) {
  std::vector<StageTurn> turns = p.chunks == 1 ? one_forward_one_backward(p, stage) : interleaved(p, stage);
  give_slots(p, stage, turns);
  return turns;
}

}  // namespace ft
