// Communicators of a ParameterStore: the ranks among which it shards data and adds up gradients, and the
// ranks with other parts of the model.
#pragma once
#include <memory>

#include "engine/ranks/communicator.h"
#include "engine/ranks/grid.h"
#include "engine/zero/options.h"

namespace ft::zero {

// Ranks may form groups that each hold everything between them (MiCS, Zhang et al., VLDB 2022): "sharded"
// then means within a group. If experts are split among ranks, `experts` are the ranks of `all` with the same
// experts: they shard these and add up their gradients.
struct StoreRanks {
  // All ranks of `all` call it together. grid: null if every rank has the complete model.
  StoreRanks(Communicator& all, const ZeroOptions&, const Grid* grid);

  Communicator& all;  // ranks with the same parameters, except for split experts
  // Ranks with other parts of the model, each at this rank's place in its own `all`; null: there are none.
  Communicator *const tensor, *const pipeline, *const ends;
  Communicator* const experts;  // null: every rank has all experts
  // The ranks that shard everything among them, and the ranks that hold the same pieces. Null: all, and none.
  const std::unique_ptr<Communicator> group, across;
  Communicator& shards;  // group, or all
  // Groups of ZeroOptions::near ranks within `shards`, and the ranks at the same place in each. Null: all,
  // and none.
  const std::unique_ptr<Communicator> near, far;

  // The ranks that shard a parameter. dealt: of an expert.
  Communicator& sharing(bool dealt) const { return dealt && experts ? *experts : shards; }
};

}  // namespace ft::zero
