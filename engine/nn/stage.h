// Pipeline parallelism: what a rank has of a model whose blocks are dealt out. Each stage has consecutive
// blocks, the first also the embedding, the last the head. States go up from stage to stage, and their
// gradients come down.
#pragma once
#include <string_view>
#include <vector>

#include "engine/nn/context.h"

namespace ft {

struct Stage {
  int rank = 0, size = 1;           // of the pipeline
  std::int64_t begin = 0, end = 0;  // blocks of the model; where there is one stage it has all of them
  bool first() const { return rank == 0; }
  bool last() const { return rank + 1 == size; }
};

struct EndCosts {
  double embedding = 0, head = 0;
};

// The stages of a model whose blocks cost this much each, dealt out such that the most expensive stage costs
// as little as can be. Each has a block: there are no fewer than stages.
std::vector<Stage> deal_blocks(const std::vector<double>& blocks, EndCosts ends, int stages);

// States or their gradients, to this stage and from it at the same time; empty: nothing goes, or comes. of:
// what they are, for messages.
void exchange_states(Ctx&, int stage, Tensor out, Tensor in, std::string_view of);

}  // namespace ft
