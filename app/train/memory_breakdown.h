// logging.memory_breakdown: the memory that each phase of a step takes. Weights, gradients, states and
// buffers are reserved before the first step and stay; what grows and shrinks are activations and scratch.
#pragma once
#include <array>

#include "app/screen/screen.h"
#include "engine/core/arena.h"
#include "engine/ops/phases.h"
#include "engine/train/reports/report.h"

namespace ft {

class MemoryBreakdown final : public Report {
 public:
  explicit MemoryBreakdown(Screen& screen) : screen_(screen) {}

  // All must outlive it, and every turn between phases comes before the end of the arenas.
  void watch(Phases& phases, Arena& saved, Arena& scratch);

  // The most since the last row, in bytes: memory/forward_activations and so on.
  Measures row();
  void end(const Summary& summary) override;  // a table of the most in the whole run

 private:
  struct Used {
    std::int64_t activations = 0, scratch = 0;
    void most(const Used& other);
  };
  static constexpr std::array kShown{Phase::forward, Phase::recompute, Phase::backward, Phase::reduce,
                                     Phase::step};
  using ByPhase = std::array<Used, words(Phase{}).size()>;

  Screen& screen_;
  ByPhase recent_{}, all_{};
};

}  // namespace ft
