// Views of the data that a rank updates: masters, gradients and optimizer states.
#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/zero/parameter.h"

namespace ft {

class Ops;

// Views of a part of the data that this rank updates: all tensors are 1-d and have the same elements.
struct FlatSlice {
  Tensor master, grad;         // f32
  std::vector<Tensor> states;  // as declared: of their dtype, with one element per block
  // The master rounded to bf16 or f16, which computations read. Empty: the master is the value itself, or
  // this pass over masters does not change it.
  Tensor value = {};
};

// A FlatSlice of one parameter: `count` elements from element `first`. A parameter may have several, in
// order.
struct Slice : FlatSlice {
  Parameter* parameter;
  std::int64_t first, count;
};

// A Slice for updates that need the complete parameter. `count` may be 0.
struct CompleteSlice : Slice {
  Tensor complete_grad;  // (elements of the parameter)
  double squares = 0;    // of the complete master, if requested
  // Returns the weight decay, given the run's.
  double decay(double general) const {
    return parameter->rule.decay.value_or(parameter->decays ? general : 0);
  }
};

// A FlatSlice of consecutive parameters with equal update rules, including the padding between them.
struct FlatRun : FlatSlice {
  std::string_view unit;
  bool decays;
  UpdateRule rule = {};
  bool complete = false;  // each_complete() visits its parameters too
  // Returns the weight decay, given the run's.
  double decay(double general) const { return rule.decay.value_or(decays ? general : 0); }
};

// An update of units during the backward pass of other units, each as soon as its gradients of this step are
// complete. It applies these gradients, or (previous) the last step's. With Homes::host it runs on the
// store's thread.
struct EarlyStep {
  std::function<void(Ops&, const FlatRun&)> visit;
  bool previous = false;
};

}  // namespace ft
