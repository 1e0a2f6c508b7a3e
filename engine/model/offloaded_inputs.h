// Inputs of a stack's blocks that leave the device between forward and backward (Ctx::inputs). A few tensors
// on the device take turns: one is written or used while the others leave or arrive.
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "engine/pass/context.h"

namespace ft {

class OffloadedInputs {
 public:
  // Begins a forward pass. leave (blocks): the block's input leaves. All inputs have x's shape. Takes memory
  // from c.saved if any leaves.
  void begin(Ctx&, std::vector<bool> leave, const Tensor& x);
  bool leaves(std::size_t block) const { return block < leave_.size() && leave_[block]; }
  // Returns memory for the input of a block, once the earlier input in the same place has left.
  Tensor take(std::size_t block);
  // Starts to copy the input, which has been written, off the device.
  void put(std::size_t block);
  // Backward: waits for the input of a block if it left, and starts to fetch the inputs of the blocks below.
  void bring_back(std::size_t block);
  // Gives back the room off the device.
  void end();

 private:
  static constexpr std::size_t kTurns = 3;
  struct Passing {
    std::int64_t at = 0;
    std::optional<Depot::Ticket> moved;  // off the device, or back
    bool back = false;
  };
  const Tensor& place(std::size_t block) const { return turns_[block % kTurns]; }

  InputsHome* home_ = nullptr;
  std::vector<bool> leave_;
  std::vector<Passing> passing_;  // (blocks)
  std::array<Tensor, kTurns> turns_{};
  std::int64_t mark_ = 0;  // bytes of home_ in use before forward
};

}  // namespace ft
