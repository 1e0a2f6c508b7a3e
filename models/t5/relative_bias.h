// T5's relative positions: a learned number for every head and bucket of distances, which all blocks of a
// stack add to their scores (Raffel et al. 2020, section 2.1).
#pragma once
#include <vector>

#include "engine/layers/visitor.h"
#include "engine/pass/context.h"
#include "engine/zero/parameter_store.h"

namespace ft::t5 {

// Returns the bucket of each distance key - query from -reach to reach. The first half of a side's buckets
// are single distances. The others grow by a constant factor up to max_distance; greater distances share the
// last bucket. Bidirectional: keys after the query use the upper half of all buckets.
std::vector<std::int32_t> buckets_of(std::int64_t reach, bool bidirectional, std::int64_t buckets,
                                     std::int64_t max_distance);

// Removes the outermost distances on both sides as long as their neighbours share their bucket.
std::vector<std::int32_t> trimmed(std::vector<std::int32_t> buckets);

struct RelativeBias {
  Parameter weight;  // (buckets, H)
  bool bidirectional = false;
  std::int64_t max_distance = 128;
  int unit = -1;  // in the store

  // The bias of one pass over sequences of up to `longest` tokens, in the form of ft::Scores.
  struct Pass {
    Tensor buckets;  // (2 reach + 1) i32
    Tensor bias;     // (2 reach + 1, H)
    Tensor dbias;    // gradient of the bias in f32, +=; empty: not wanted
  };
  // Allocates a bias; forward() or another rank sets its values.
  Pass take(Ctx&, std::int64_t longest) const;
  void forward(Ctx&, ParameterStore&, const Pass&) const;
  // Takes the bias's gradient from c.scratch and sets it to 0, if the weight is trained.
  void begin_backward(Ctx&, Pass&) const;
  void backward(Ctx&, ParameterStore&, const Pass&) const;
  void visit(Visitor& v) { v.parameter(weight); }
};

}  // namespace ft::t5
