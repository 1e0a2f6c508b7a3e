// A loss that the host computes in double precision from a batch's values (see RowValues). The values are
// few, or they are needed together.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "engine/model/row_loss.h"

namespace ft {

// Copies a tensor of f32 to the host. Returns nothing if operations are only counted.
std::vector<float> download(Ctx&, Tensor);

// Adds a number that the host computed to a sum (1) f64.
void add_to_loss(Ctx&, Tensor sum, double value);

class HostLoss final : public RowLoss {
 public:
  // Returns the sum of the losses, and sets slopes (values) to its derivative by each value; without slopes
  // there is no backward pass. If operations are only counted, both are empty, whatever the batch has.
  using Compute = std::function<double(Ctx&, std::span<const float> values, std::span<double> slopes)>;

  // loss: the sum (1) f64 to add to. scale: factor of the gradients.
  HostLoss(Tensor loss, float scale, Compute compute)
      : loss_(loss), scale_(scale), compute_(std::move(compute)) {}
  void weigh(Ctx&, const RowValues&, Tensor weights) override;

 private:
  Tensor loss_;
  float scale_;
  Compute compute_;
};

}  // namespace ft
