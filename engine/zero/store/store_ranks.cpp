#include "engine/zero/store/store_ranks.h"

#include <vector>

namespace ft::zero {
namespace {

// Splits `comm` into groups. in_a_row: the ranks with this rank's `number / width`. Otherwise: the ranks with
// this rank's `number % width`.
std::unique_ptr<Communicator> group_of(Communicator& comm, int width, bool in_a_row) {
  if (width == 0 || width == comm.size()) return nullptr;
  std::vector<int> members;
  for (int r = 0; r < comm.size(); ++r)
    if (in_a_row ? r / width == comm.rank() / width : r % width == comm.rank() % width) members.push_back(r);
  return comm.split({.members = std::move(members)});
}

}  // namespace

StoreRanks::StoreRanks(Communicator& comm, const ZeroOptions& options, const Grid* grid)
    : all(comm),
      tensor(grid ? grid->tensor() : nullptr),
      pipeline(grid ? grid->pipeline() : nullptr),
      ends(grid ? grid->ends() : nullptr),
      experts(grid ? grid->same_experts() : nullptr),
      group(group_of(comm, options.group, true)),
      across(group_of(comm, options.group, false)),
      shards(group ? *group : comm),
      near(group_of(shards, options.near > 1 ? options.near : 0, true)),
      far(group_of(shards, options.near > 1 ? options.near : 0, false)) {
  require(options.group == 0 || comm.size() % options.group == 0, "groups of ranks of unequal size");
  require(options.near < 2 || shards.size() % options.near == 0, "groups of copies of unequal size");
  require(!experts || !group, "ranks with experts of their own form no groups");
}

}  // namespace ft::zero
