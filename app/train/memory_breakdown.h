// logging.memory_breakdown: the memory of each phase of a step. Weights, gradients, states and buffers are
// reserved before the first step and stay; activations and scratch grow and shrink.
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

  // Watches the arenas at each change of phase. All arguments must outlive this object, and the last change
  // of phase must come before the end of the arenas.
  void watch(Phases& phases, Arena& saved, Arena& scratch);

  // Returns the largest bytes since the last row: memory/forward_activations and so on.
  Measures row();
  void end(const Summary& summary) override;  // prints the largest of the complete run

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
