// A named array of the model. Its memory belongs to a ParameterStore, which binds `value` and `grad` while
// the unit that the parameter belongs to is in use.
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/files/stored_bytes.h"

namespace ft {

// What part of a tensor a parameter is where ranks share its model out (tensor parallelism): of every `all`
// elements of the whole in a row some runs, one behind another.
struct Portion {
  struct Run {
    std::int64_t begin, count;
  };
  Shape whole;
  std::int64_t all = 0;
  std::vector<Run> runs = {};  // ascending
  std::int64_t own() const {   // of every `all`
    std::int64_t n = 0;
    for (const Run& r : runs) n += r.count;
    return n;
  }
};

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
  std::int64_t elements() const { return stands_for.value_or(whole_shape().numel()); }

  // Among the ranks that share the model out. portion: nothing, it is whole. copied: the first of them has
  // the same, saves it, and counts it in norms. summed: each has made a part of its gradient, which is their
  // sum.
  std::optional<Portion> portion = {};
  bool copied = false, summed = false;
  // Where experts are dealt out: of an expert, or of what adapts them; portion says what this rank has of it,
  // which may be nothing.
  bool dealt = false;
  // The first and the last stage of a pipeline have it, a table that is also the head's: its gradient is the
  // sum of theirs. In the last it is copied.
  bool at_both_ends = false;
  const Shape& whole_shape() const { return portion ? portion->whole : shape; }

  // Its name in the model's files where that is another: a head that no longer shares the embedding's table.
  std::string stored_as = {};
  const std::string& stored_name() const { return stored_as.empty() ? name : stored_as; }

  // Where a model's file holds the frozen value's very bytes, if anybody has looked.
  StoredBytes stored = {};

  Tensor value;  // shape
  Tensor grad;   // shape, f32; empty when frozen
};

// Elements [first, first + count) of a parameter in pieces that lie together in the whole tensor too.
// f(here, at, n): n elements from its own number `here` and the whole's number `at` on.
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
