#include "app/ranks/grid.h"

#include <vector>

#include "engine/core/error.h"

namespace ft {
namespace {

std::string setting(Axis a) { return str("distributed.", name_of(a), "_parallel_size"); }

// Returns "1, 2, 3 or 6".
std::string one_of(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    text += str(i == 0 ? "" : i + 1 == numbers.size() ? " or " : ", ", numbers[i]);
  return text;
}

std::string divisors_of(std::int64_t n) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d <= n; ++d)
    if (n % d == 0) all.push_back(d);
  return one_of(all);
}

// Returns the multiples of `of` below and above n, as text.
std::string multiples_near(std::int64_t of, std::int64_t n) {
  const std::int64_t below = n / of * of;
  return below > 0 ? one_of({below, below + of}) : one_of({of, 2 * of});
}

const char* ranks_are(int n) { return n == 1 ? " rank is" : " ranks are"; }

}  // namespace

GridShape grid_shape(const DistributedConfig& d, int ranks) {
  constexpr std::int64_t kMost = 1 << 20;  // far more than any number of ranks or layers
  const std::pair<Axis, std::int64_t> sizes[] = {{Axis::tensor, d.tensor_parallel_size},
                                                 {Axis::sequence, d.sequence_parallel_size},
                                                 {Axis::pipeline, d.pipeline_parallel_size}};
  std::int64_t product = 1;
  std::string named;
  int axes = 0;
  for (const auto& [axis, size] : sizes) {
    if (size == 1) continue;
    product = size > kMost ? kMost : std::min(kMost, product * size);
    named += str(axes++ > 0 ? " x " : "", setting(axis), " ", size);
  }
  if (ranks % product != 0)
    throw UserError(
        Exit::config,
        str(named, axes > 1 ? str(" = ", product) : "", ", and ", ranks, ranks_are(ranks),
            " not a multiple of it\n  take ", multiples_near(product, ranks), " ranks (ft launch -n), or ",
            axes > 1 ? "sizes whose product is " : "a size of ", divisors_of(ranks)));
  const auto data = static_cast<int>(ranks / product);
  if (d.data_parallel_size && *d.data_parallel_size != data)
    throw UserError(
        Exit::config,
        str(setting(Axis::data), " is ", *d.data_parallel_size, ", and of ", ranks, " ranks ", data,
            axes > 0 ? " remain beside " + named : std::string(" are data-parallel"), "\n  take ",
            *d.data_parallel_size * product, " ranks, or leave ", setting(Axis::data), " out"));
  if (data % d.expert_parallel_size != 0)
    throw UserError(Exit::config, str("distributed.expert_parallel_size is ", d.expert_parallel_size,
                                      ", and ", data, data == 1 ? " rank is" : " ranks are",
                                      " data-parallel; it must divide their number: ", divisors_of(data)));
  GridShape shape({.pipeline = static_cast<int>(d.pipeline_parallel_size),
                   .data = data,
                   .sequence = static_cast<int>(d.sequence_parallel_size),
                   .tensor = static_cast<int>(d.tensor_parallel_size)},
                  static_cast<int>(d.expert_parallel_size));
  shape.sharing = d.sharing();
  shape.shards_rows = d.partition_activations;
  shape.chunks = static_cast<int>(std::min<std::int64_t>(d.virtual_pipeline_parallel_size, kMost));
  return shape;
}

}  // namespace ft
