// A device tensor as pieces of host memory, so that checkpoints need no memory beyond the plan. On a CPU the
// only piece is the tensor itself.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/ops/device.h"

namespace ft {

// Called with elements [first, first + piece.numel()) of a tensor. `piece` is valid until the next call.
using VisitPiece = std::function<void(const Tensor& piece, std::int64_t first)>;

class HostPieces {
 public:
  explicit HostPieces(Ops& ops);
  void reserve(const Tensor& x);                          // takes the host memory that x needs
  void out_of(const Tensor& x, const VisitPiece& visit);  // downloads x, which must be dense
  void copy_to(std::byte* host, const Tensor& x);         // downloads x in one piece
  void into(const Tensor& x, const VisitPiece& fill);     // uploads the pieces that `fill` writes to x

 private:
  // Calls visit(piece, first, part). `part` is the piece's device memory.
  void each(const Tensor& x, const std::function<void(const Tensor&, std::int64_t, const Tensor&)>& visit);

  Ops& ops_;
  const bool direct_;  // the host can read the device's memory
  std::vector<std::byte> staging_;
};

}  // namespace ft
