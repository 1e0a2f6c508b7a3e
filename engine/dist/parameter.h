// A named array of the model. Its memory belongs to a ParameterStore, which binds `value` and `grad` while
// the unit that the parameter belongs to is in use.
#pragma once
#include <optional>
#include <string>

#include "engine/core/tensor.h"
#include "engine/io/stored_bytes.h"

namespace ft {

// How a trained parameter is updated where that is not as the run's settings say.
struct UpdateRule {
  double rate = 1;                   // factor of the learning rate
  std::optional<double> decay = {};  // in place of the run's, whatever Parameter::decays says
  std::int64_t frozen_steps = 0;     // before its first update
  bool operator==(const UpdateRule&) const = default;
};

struct Parameter {
  std::string name;  // its Hugging Face (or, for adapters, PEFT) name
  Shape shape;
  DType dtype =
      DType::f32;  // of the value that the mathematics reads; trained parameters also have an f32 master
  bool trainable = false;
  bool decays = true;      // weight decay applies; not to biases and norms, as in transformers' Trainer
  bool embedding = false;  // a table of which rows are looked up
  UpdateRule rule = {};

  // Deviation of its first random values; nothing: the model's initializer_range.
  std::optional<double> deviation = {};

  // Elements of the model that it stands for, where it does not hold each of them: 4-bit codes, scales.
  std::optional<std::int64_t> stands_for = {};
  std::int64_t elements() const { return stands_for.value_or(shape.numel()); }

  // Its name in the model's files where that is another: a head that no longer shares the embedding's table.
  std::string stored_as = {};
  const std::string& stored_name() const { return stored_as.empty() ? name : stored_as; }

  // Where a model's file holds the frozen value's very bytes, if anybody has looked.
  StoredBytes stored = {};

  Tensor value;  // shape
  Tensor grad;   // shape, f32; empty when frozen
};

}  // namespace ft
