// A named array of the model. Its memory belongs to a ParameterStore, which binds `value` and `grad` while
// the parameter's unit is in use.
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/files/safetensors/stored_bytes.h"

namespace ft {

// This rank's part of a tensor that tensor parallelism splits. In every `all` consecutive elements of the
// complete tensor, the part holds these runs. It stores them one after another.
struct Portion {
  struct Run {
    std::int64_t begin, count;
  };
  Shape whole;
  std::int64_t all = 0;
  std::vector<Run> runs = {};  // ascending
  std::int64_t own() const {   // elements of the part in every `all`
    std::int64_t n = 0;
    for (const Run& r : runs) n += r.count;
    return n;
  }
};

// Deviations of a trained parameter's update from the run's settings.
struct UpdateRule {
  double rate = 1;                   // factor of the learning rate
  std::optional<double> decay = {};  // replaces the run's decay, whatever Parameter::decays says
  std::int64_t frozen_steps = 0;     // steps before its first update
  bool operator==(const UpdateRule&) const = default;
};

// Initial values of a new model's parameter. usual: random ones for matrices, 1 or 0 for norms and biases.
// normal: random ones for a vector too. log_rates: logarithms of numbers from 0.01 to 16, which are rates of
// decay.
enum class Initial : std::uint8_t { usual, normal, zeros, ones, log_rates };

struct Parameter {
  std::string name;  // its Hugging Face (or, for adapters, PEFT) name
  Shape shape;
  DType dtype =
      DType::f32;  // dtype of `value`, which computations read; trained parameters also have an f32 master
  bool trainable = false;
  bool decays = true;      // weight decay applies; false for biases and norms, as in transformers' Trainer
  bool embedding = false;  // a table whose rows are looked up
  bool constant = false;   // a buffer in transformers: stored in the files, never trained, not counted
  bool wide = false;       // f32 in all files, as transformers keeps it
  UpdateRule rule = {};

  // Standard deviation of its initial random values. Empty: the model's initializer_range.
  std::optional<double> deviation = {};
  Initial initial = Initial::usual;

  // Number of model elements that it represents, if that is not its own number of elements: 4-bit codes,
  // scales.
  std::optional<std::int64_t> stands_for = {};
  std::int64_t elements() const { return constant ? 0 : stands_for.value_or(whole_shape().numel()); }

  // For ranks that split the model. portion: the part on this rank; empty: all of it. copied: rank 0 of them
  // has the same parameter, saves it, and counts it in norms. summed: each rank computes a part of the
  // gradient, which is the sum over these ranks.
  std::optional<Portion> portion = {};
  bool copied = false, summed = false;
  // For split experts: the parameter belongs to an expert, or to an expert's adapter. portion says which part
  // this rank has, which may be empty.
  bool dealt = false;
  // A table that is both embedding and head, on the first and the last stage of a pipeline. Its gradient is
  // the sum of both stages' gradients. The last stage's has `copied` set.
  bool at_both_ends = false;
  const Shape& whole_shape() const { return portion ? portion->whole : shape; }

  // from_products: Weight::add_grad alone adds to the gradient. Then a store need not clear the gradient for
  // a step: it sets grad_unset, and the step's first product overwrites the memory.
  bool from_products = false, grad_unset = false;

  // Name in the model's files, if different: a head that no longer shares the embedding's table.
  std::string stored_as = {};
  const std::string& stored_name() const { return stored_as.empty() ? name : stored_as; }

  // Location of exactly these bytes in a model file, for a frozen value; empty if unknown.
  StoredBytes stored = {};

  Tensor value;  // shape
  Tensor grad;   // shape, f32; empty when frozen
};

// Splits elements [first, first + count) of a parameter into pieces that are contiguous in the complete
// tensor too. Calls f(here, at, n): n elements that begin at `here` in the parameter and at `at` in the
// complete tensor.
void each_piece(const Parameter& p, std::int64_t first, std::int64_t count, auto f) {
  if (!p.portion) return f(first, first, count);
  if (count == 0) return;
  const std::int64_t own = p.portion->own(), end = first + count;
  for (std::int64_t period = first / own; period * own < end; ++period) {
    std::int64_t here = period * own;
    for (const Portion::Run& r : p.portion->runs) {
      const std::int64_t from = std::max(first, here), to = std::min(end, here + r.count);
      if (from < to) f(from, period * p.portion->all + r.begin + from - here, to - from);
      here += r.count;
    }
  }
}

}  // namespace ft
