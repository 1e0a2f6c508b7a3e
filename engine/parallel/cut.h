// How ranks share a model's matrices out (Shoeybi et al., "Megatron-LM", 2019). Each rank has some of the
// outputs of y = x W^T, columns of y, or some of its inputs, whose products the ranks add up. Between a cut
// into columns and one into rows there is nothing to say: what lies there, heads or a feed-forward layer's
// width, is shared out too.
#pragma once
#include "engine/zero/parameter.h"

namespace ft {

enum class Cut : std::uint8_t { none, columns, rows };

// A rank among those that share. Where n things do not divide evenly, the first ranks have one more.
struct TensorRank {
  int rank = 0, size = 1;
  bool shards_rows = false;  // see row_shards.h
  std::int64_t first_of(std::int64_t n) const { return (n * rank + size - 1) / size; }
  std::int64_t count_of(std::int64_t n) const { return TensorRank{rank + 1, size}.first_of(n) - first_of(n); }
};

// What a rank has of a model: of each layer, of the experts of a layer, and which place in a pipeline, with
// how many chunks of the layers.
struct ModelPart {
  TensorRank tensor, experts;
  int stage = 0, stages = 1, chunks = 1;
  bool whole() const { return tensor.size == 1 && experts.size == 1 && stages == 1; }
};

// The sizes of what lies side by side on an axis, each of which is shared out: queries, keys and values that
// one linear makes. Empty: the axis is one thing.
using Parts = std::vector<std::int64_t>;
// What the rank has of an axis of n places, in runs of `step` elements each place, and how many places.
struct AxisPart {
  std::vector<Portion::Run> runs;
  std::int64_t places = 0;
};
AxisPart part_of_axis(std::int64_t n, std::int64_t step, TensorRank, const Parts&);

// Leaves of a parameter what the rank has of it along an axis.
void cut(Parameter&, int axis, TensorRank, const Parts& = {});
// The same of a flat array, whose shape is left to the caller.
void keep_portion(Parameter&, const Portion&);

// UserError (exit 2) unless each rank can have as many of `heads`, with the sizes that would do. called: what
// the model's configuration calls them.
void require_heads(std::int64_t heads, const char* called, TensorRank);

}  // namespace ft
