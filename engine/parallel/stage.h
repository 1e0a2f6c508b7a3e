// Pipeline parallelism: a model's blocks are split into stages. Each stage has consecutive blocks; the first
// also has the embedding, the last the head. States go up from stage to stage, and their gradients come down.
// A rank may have several stages, chunks of the model: of P ranks, rank s has stages s, P + s, 2 P + s and so
// on.
#pragma once
#include <string_view>
#include <vector>

#include "engine/pass/context.h"

namespace ft {

struct Stage {
  int rank = 0, size = 1;  // among all stages
  // range of the model's blocks; unused if there is one stage, which has all
  std::int64_t begin = 0, end = 0;
  bool first() const { return rank == 0; }
  bool last() const { return rank + 1 == size; }
};

// Tensors that go from stage to stage, in an order that the model chooses: states, or their gradients. Empty
// tensors are not sent.
using States = std::vector<Tensor>;

struct EndCosts {
  double embedding = 0, head = 0;
};

// Splits blocks with these costs into stages such that the most expensive stage costs as little as possible.
// Each stage has at least one block: there must be as many blocks as stages.
std::vector<Stage> deal_blocks(const std::vector<double>& blocks, EndCosts ends, int stages);

// A chunk's forward or backward pass over one of a step's micro-batches.
struct StagePass {
  std::int64_t micro_batch = -1;  // -1: no pass
  int chunk = 0;                  // among the rank's chunks
  bool backward = false;
  std::size_t slot = 0;  // place of its tensors from forward to backward
  explicit operator bool() const { return micro_batch >= 0; }
};

// Ranks of the stages after this rank's and before it. They form a ring.
int rank_above(const Communicator& pipeline);
int rank_below(const Communicator& pipeline);

// Sends states or their gradients to one rank of the pipeline while it receives others from another rank;
// empty: sends, or receives, nothing. of: name of the tensors, for messages. If there are several tensors,
// all of `out` go first, or with out_first = false all of `in`; the last tensor of one list and the first of
// the other are exchanged together. The two ranks have to agree on the order: states go first, because a
// stage may need all of them before it has gradients.
void exchange_states(Ctx&, States out, int to, States in, int from, std::string_view of,
                     bool out_first = true);

}  // namespace ft
