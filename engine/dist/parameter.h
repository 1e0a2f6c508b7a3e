// A named array of the model. Its memory belongs to a ParameterStore, which binds `value` and `grad` while
// the unit that the parameter belongs to is in use.
#pragma once
#include <optional>
#include <string>

#include "engine/core/tensor.h"
#include "engine/io/stored_bytes.h"

namespace ft {

struct Parameter {
  std::string name;  // its Hugging Face (or, for adapters, PEFT) name
  Shape shape;
  DType dtype =
      DType::f32;  // of the value that the mathematics reads; trained parameters also have an f32 master
  bool trainable = false;
  bool decays = true;  // weight decay applies; not to biases and norms, as in transformers' Trainer

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
