// What every forward and backward gets.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "engine/core/arena.h"
#include "engine/core/divide.h"
#include "engine/core/random.h"
#include "engine/ops/device.h"
#include "engine/ops/phases.h"
#include "engine/ranks/grid.h"
#include "engine/zero/depot.h"
#include "engine/zero/parameter_store.h"

namespace ft {

// Where the inputs of blocks wait for their backward pass (gradient_checkpointing=offload): a depot, of which
// is taken in order and given back in reverse.
struct InputsHome {
  Depot& depot;
  std::int64_t used = 0, peak = 0;  // bytes

  std::int64_t take(std::int64_t bytes) {
    const std::int64_t at = used;
    used += round_up(bytes, Depot::kBlock);
    peak = std::max(peak, used);
    return at;
  }
};

// The numbers of a pass's rows in the micro-batch, of which ranks may share the rows: one run of them, or two
// of the same length.
struct RowNumbers {
  std::int64_t first = 0, second = -1;  // of each run; -1: there is one

  // f(begin, end, number of row `begin`) for each run.
  void each_run(std::int64_t rows, auto f) const {
    const std::int64_t half = second < 0 ? rows : rows / 2;
    if (half > 0) f(std::int64_t{0}, half, first);
    if (half < rows) f(half, rows, second);
  }
};

struct Ctx {
  Ops& ops;
  Arena& saved;                  // lives until the matching backward
  Arena& scratch;                // lives until the enclosing Scope ends
  DType dtype = DType::f32;      // of activations
  Random random;                 // of this micro-step
  bool train = true;             // dropout is active
  InputsHome* inputs = nullptr;  // null: they stay on the device
  bool adapters = true;          // false: the model as it is without them; forward passes only
  // The weight of a mean over this micro-batch's tokens in a sum over targets: the step's targets
  // times the share of the step's tokens that are in it, however the step is split.
  float tokens_weight = 1;
  const Grid* grid = nullptr;       // of the run's ranks; null: each computes for itself
  ParameterStore* store = nullptr;  // of the blocks that run; null: everything is where it is used
  RowNumbers numbers = {};          // of the rows, for random numbers
  bool shards = false;              // ranks of tensor() share out the residual stream's rows: row_shards.h
  bool parts_stay = false;          // the caller adds up what ranks of tensor() have parts of
  // A pipeline's stage has several micro-batches between forward and backward. In flight: what c.saved is to
  // the first of them, for the others. again: in place of c.saved for blocks that are run again, which come
  // one at a time; null: c.saved.
  std::span<Arena> in_flight = {};
  Arena* again = nullptr;

  // The ranks that share each layer with this one; null: none do.
  Communicator* tensor() const { return grid ? grid->tensor() : nullptr; }
  // The stages of this rank's pipeline; null: there is one.
  Communicator* pipeline() const { return grid ? grid->pipeline() : nullptr; }
  Ctx keeping_in(Arena& other) const {
    return {ops,           other, scratch, dtype,   random, train,      inputs,    adapters,
            tokens_weight, grid,  store,   numbers, shards, parts_stay, in_flight, again};
  }
  void begin(Phase);
  Tensor save(std::int64_t rows, std::int64_t cols) { return saved.take_padded(rows, cols, dtype); }
  Tensor temporary(std::int64_t rows, std::int64_t cols) { return scratch.take_padded(rows, cols, dtype); }
};

// x (rows, columns) becomes the sum of what the ranks of c.tensor() have in x. of: a module, for messages.
void add_up(Ctx&, Tensor x, std::string_view of);

// Indices on the device, until c.saved is rewound.
Tensor upload(Ctx& c, const std::vector<std::int32_t>& values);

}  // namespace ft
