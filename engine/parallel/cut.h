// Splits a model's matrices among ranks (Shoeybi et al., "Megatron-LM", 2019). Each rank has some of the
// outputs of y = x W^T, columns of y, or some of its inputs; the ranks then add up their products. Between a
// matrix cut into columns and one cut into rows the ranks exchange nothing: heads, or the width of a
// feed-forward layer, are split in the same way.
#pragma once
#include <string>

#include "engine/zero/parameter.h"

namespace ft {

enum class Cut : std::uint8_t { none, columns, rows };

// A rank among those that share a model. If n things do not divide evenly, some ranks have one more than
// others.
struct TensorRank {
  int rank = 0, size = 1;
  bool shards_rows = false;  // see row_shards.h
  std::int64_t first_of(std::int64_t n) const { return (n * rank + size - 1) / size; }
  std::int64_t count_of(std::int64_t n) const { return TensorRank{rank + 1, size}.first_of(n) - first_of(n); }
};

// The part of a model that a rank has: of each layer, of the experts of a layer, and its stage in a pipeline,
// with the number of chunks of layers.
struct ModelPart {
  TensorRank tensor, experts;
  int stage = 0, stages = 1, chunks = 1;
  bool whole() const { return tensor.size == 1 && experts.size == 1 && stages == 1; }
};

// Sizes of the pieces that are next to each other on an axis, such as the queries, keys and values that one
// linear makes. Each piece is split by itself. Empty: the axis is one piece.
using Parts = std::vector<std::int64_t>;
// The rank's part of an axis of n places: its runs of elements, with `step` elements per place, and its
// number of places.
struct AxisPart {
  std::vector<Portion::Run> runs;
  std::int64_t places = 0;
};
AxisPart part_of_axis(std::int64_t n, std::int64_t step, TensorRank, const Parts&);

// Keeps only the rank's part of a parameter along an axis.
void cut(Parameter&, int axis, TensorRank, const Parts& = {});
// Keeps only a portion of a flat array; the caller sets its shape.
void keep_portion(Parameter&, const Portion&);

// Throws UserError (config): ranks cannot split a layer, and why.
[[noreturn]] void refuse_cut(const std::string& why);
// Lists the numbers that divide n, for messages: "1, 2, 4".
std::string divisors(std::int64_t n);
// Throws UserError (config) unless `heads` divide evenly among the ranks; the message lists sizes that would
// do. called: name of the setting in the model's configuration.
void require_heads(std::int64_t heads, const char* called, TensorRank);

}  // namespace ft
