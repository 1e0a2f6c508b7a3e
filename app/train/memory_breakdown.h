// logging.memory_breakdown: the memory of each phase of a step. Weights, gradients, states and buffers are
// reserved before the first step and stay; activations and scratch grow and shrink, and CUDA loads code when
// a kernel first runs.
#pragma once
#include <array>
#include <optional>

#include "app/run/observer.h"
#include "app/screen/screen.h"

namespace ft {

class MemoryBreakdown final : public Observer {
 public:
  explicit MemoryBreakdown(Screen& screen) : screen_(screen) {}

  // The memory must outlive this object, and the last change of phase must come before the end of the arenas.
  void started(const ChangingMemory& memory) override;
  void begin(const RunHeader&) override;  // starts counting; passes before the run are not counted

  // Returns the largest bytes since the last row, memory/forward_activations and so on, and on a GPU
  // memory/cuda: the bytes that CUDA holds for itself.
  Measures columns() override;
  void end(const Summary& summary) override;  // prints the largest of the complete run

 private:
  struct Used {
    std::int64_t activations = 0, scratch = 0;
    void most(const Used& other);
  };
  static constexpr std::array kShown{Phase::forward, Phase::recompute, Phase::backward, Phase::reduce,
                                     Phase::step};
  using ByPhase = std::array<Used, words(Phase{}).size()>;
  // Bytes that CUDA holds for itself: as planned, when the run's memory was reserved, and at the first row.
  struct Cuda {
    std::int64_t planned = 0, reserved = 0;
    std::optional<std::int64_t> first_row;
  };
  void print_cuda(std::int64_t now) const;

  Screen& screen_;
  std::optional<ChangingMemory> memory_;
  ByPhase recent_{}, all_{};
  Cuda cuda_;
};

}  // namespace ft
