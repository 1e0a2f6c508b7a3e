// The context that every forward and backward gets: operations, memory, random numbers and ranks.
#pragma once
#include <span>
#include <string_view>
#include <utility>
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

// A depot that holds the inputs of blocks until their backward pass (gradient_checkpointing=offload). Room is
// taken in order and given back in reverse.
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

// Numbers of a pass's rows within the micro-batch, whose rows ranks may share: one run of numbers, or two of
// the same length.
struct RowNumbers {
  std::int64_t first = 0, second = -1;  // of each run; -1: there is one

  // Calls f(begin, end, number of row `begin`) for each run.
  void each_run(std::int64_t rows, auto f) const {
    const std::int64_t half = second < 0 ? rows : rows / 2;
    if (half > 0) f(std::int64_t{0}, half, first);
    if (half < rows) f(half, rows, second);
  }
};

// The rows of a pass on which adapters act that wait for their invocation (engine/model/invocation.h).
struct ActiveRows {
  std::int64_t rows = 0;                                    // of the pass
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;  // [begin, end), ascending
};

// Values of a pass that hold on every device and in every arena.
struct PassValues {
  DType dtype = DType::f32;      // type of activations
  Random random;                 // for this micro-step
  bool train = true;             // dropout is active
  InputsHome* inputs = nullptr;  // null: inputs of blocks stay on the device
  bool adapters = true;          // false: computes without adapters; forward passes only
  // Weight that a mean over this micro-batch's tokens gets in a sum over targets: the number of the step's
  // targets times this micro-batch's share of the step's tokens. The sum is the same however the step is
  // split.
  float tokens_weight = 1;
  const Grid* grid = nullptr;          // ranks of the run; null: this rank computes alone
  ParameterStore* store = nullptr;     // store of the running blocks; null: weights need not be gathered
  RowNumbers numbers = {};             // numbers of the rows, for random numbers
  const ActiveRows* active = nullptr;  // null: no adapter waits for its invocation
  bool shards = false;                 // ranks of tensor() shard the residual stream's rows: row_shards.h
  bool parts_stay = false;             // the caller adds up the partial sums of the ranks of tensor()
  // in_flight: a stage of a pipeline has several micro-batches between forward and backward; c.saved serves
  // the first of them, and these arenas serve the others. again: replaces c.saved for blocks that run again,
  // which happens for one block at a time; null: c.saved itself.
  std::span<Arena> in_flight = {};
  Arena* again = nullptr;
};

struct Ctx : PassValues {
  Ops& ops;
  Arena& saved;    // lives until the matching backward
  Arena& scratch;  // lives until the enclosing Scope ends

  Ctx(Ops& device, Arena& kept, Arena& temporaries, const PassValues& values = {})
      : PassValues(values), ops(device), saved(kept), scratch(temporaries) {}

  // The ranks that share each layer with this one; null: no rank does.
  Communicator* tensor() const { return grid ? grid->tensor() : nullptr; }
  // The stages of this rank's pipeline; null: there is one stage.
  Communicator* pipeline() const { return grid ? grid->pipeline() : nullptr; }
  Ctx keeping_in(Arena& other) const { return {ops, other, scratch, *this}; }
  void begin(Phase);
  Tensor save(std::int64_t rows, std::int64_t cols) { return saved.take_padded(rows, cols, dtype); }
  Tensor temporary(std::int64_t rows, std::int64_t cols) { return scratch.take_padded(rows, cols, dtype); }
};

// x (rows, columns) becomes the sum of x over the ranks of c.tensor(). of: a module, for messages.
void add_up(Ctx&, Tensor x, std::string_view of);

// Copies indices to the device; they are valid until c.saved is rewound.
Tensor upload(Ctx& c, const std::vector<std::int32_t>& values);

}  // namespace ft
