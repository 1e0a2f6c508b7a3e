// T5's relative positions: a learned number for every head and bucket of distances, which a whole stack adds
// to its scores (Raffel et al. 2020, section 2.1).
#pragma once
#include <vector>

#include "engine/layers/visitor.h"
#include "engine/pass/context.h"
#include "engine/zero/parameter_store.h"

namespace ft::t5 {

// The bucket of each distance key - query from -reach to reach. The first half of a side's buckets are single
// distances, the others grow by a constant factor up to max_distance; beyond it all share the last.
// Bidirectional: keys after the query use the upper half of all buckets.
std::vector<std::int32_t> buckets_of(std::int64_t reach, bool bidirectional, std::int64_t buckets,
                                     std::int64_t max_distance);

// The same without what is farthest on both sides, as long as its bucket is that of what is next to it.
std::vector<std::int32_t> trimmed(std::vector<std::int32_t> buckets);

struct RelativeBias {
  Parameter weight;  // (buckets, H)
  bool bidirectional = false;
  std::int64_t max_distance = 128;
  int unit = -1;  // in the store

  // As ft::Scores wants it, of one pass over sequences of up to `longest` tokens.
  struct Pass {
    Tensor buckets;  // (2 reach + 1) i32
    Tensor bias;     // (2 reach + 1, H)
    Tensor dbias;    // the same in f32, +=; empty: not wanted
  };
  // A bias without values, which come from forward() or another rank.
  Pass take(Ctx&, std::int64_t longest) const;
  void forward(Ctx&, ParameterStore&, const Pass&) const;
  // Takes its gradient, 0, from c.scratch, if the weight is trained.
  void begin_backward(Ctx&, Pass&) const;
  void backward(Ctx&, ParameterStore&, const Pass&) const;
  void visit(Visitor& v) { v.parameter(weight); }
};

}  // namespace ft::t5
