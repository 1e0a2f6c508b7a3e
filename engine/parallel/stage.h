// Pipeline parallelism: what a rank has of a model whose blocks are dealt out. Each stage has consecutive
// blocks, the first also the embedding, the last the head. States go up from stage to stage, and their
// gradients come down. A rank may have several stages, chunks of the model: of P ranks, rank s has s, P + s,
// 2 P + s and so on.
#pragma once
#include <string_view>
#include <vector>

#include "engine/pass/context.h"

namespace ft {

struct Stage {
  int rank = 0, size = 1;           // among all stages
  std::int64_t begin = 0, end = 0;  // blocks of the model; where there is one stage it has all of them
  bool first() const { return rank == 0; }
  bool last() const { return rank + 1 == size; }
};

// What goes from stage to stage, as the model says: states, or their gradients. Empty tensors do not travel.
using States = std::vector<Tensor>;

struct EndCosts {
  double embedding = 0, head = 0;
};

// The stages of a model whose blocks cost this much each, dealt out such that the most expensive stage costs
// as little as can be. Each has a block: there are no fewer than stages.
std::vector<Stage> deal_blocks(const std::vector<double>& blocks, EndCosts ends, int stages);

// A chunk's forward or backward pass over one of a step's micro-batches.
struct StagePass {
  std::int64_t micro_batch = -1;  // -1: none
  int chunk = 0;                  // of the rank's
  bool backward = false;
  std::size_t slot = 0;  // where it is kept from its forward to its backward
  explicit operator bool() const { return micro_batch >= 0; }
};

// The ranks with the stages after this rank's, and before them. They are a ring.
int rank_above(const Communicator& pipeline);
int rank_below(const Communicator& pipeline);

// States or their gradients, to a rank of the pipeline while others come from one; empty: nothing goes, or
// comes. of: what they are, for messages. Of several those of `out` come first, or those of `in`, and the
// last of these together with the first of the others. The two ranks have to agree: states come first, as
// a stage may need all of them before it has gradients.
void exchange_states(Ctx&, States out, int to, States in, int from, std::string_view of,
                     bool out_first = true);

}  // namespace ft
