#include "engine/ranks/grid.h"

#include <algorithm>

#include "engine/core/error.h"

namespace ft {
const char* name_of(Axis a) {
  switch (a) {
    case Axis::pipeline:
      return "pipeline";
    case Axis::data:
      return "data";
    case Axis::sequence:
      return "sequence";
    case Axis::tensor:
      return "tensor";
  }
  return "unknown";
}

GridPoint GridShape::place_of(int rank) const {
  return {.pipeline = rank / (tensor * sequence * data),
          .data = rank / (tensor * sequence) % data,
          .sequence = rank / tensor % sequence,
          .tensor = rank % tensor};
}

std::vector<int> GridShape::group_of(int rank, const std::vector<Axis>& axes) const {
  const GridPoint own = place_of(rank);
  std::vector<int> members;
  for (int r = 0; r < ranks(); ++r) {
    const GridPoint other = place_of(r);
    const bool same = std::all_of(kAxes.begin(), kAxes.end(), [&](Axis a) {
      return own[a] == other[a] || std::find(axes.begin(), axes.end(), a) != axes.end();
    });
    if (same) members.push_back(r);
  }
  return members;
}

std::vector<int> GridShape::expert_group_of(int rank) const {
  std::vector<int> members = group_of(rank, {Axis::data});
  const int first = place_of(rank).data / expert * expert;
  return {members.begin() + first, members.begin() + first + expert};
}

std::vector<int> GridShape::same_experts_of(int rank) const {
  std::vector<int> members = group_of(rank, {Axis::data, Axis::sequence});
  std::erase_if(members, [&](int r) { return place_of(r).data % expert != place_of(rank).data % expert; });
  return members;
}

Grid::Grid(Communicator& world) : Grid(world, GridShape::of_data(world.size())) {}

Grid::Grid(Communicator& world, GridShape s)
    : shape(s), place(s.place_of(world.rank())), world_(&world), zero_(&world) {
  require(world.size() == shape.ranks(), "a grid of another number of ranks");
  if (shape.zero() < shape.ranks()) {
    split_ = split({Axis::data, Axis::sequence}, false);
    zero_ = split_.get();
  }
  if (shape.sequence > 1) sequence_ = split({Axis::sequence}, true);
  if (shape.tensor > 1) tensor_ = split({Axis::tensor}, true);
  if (shape.pipeline > 1) pipeline_ = split({Axis::pipeline}, true);
  if (shape.pipeline > 1) ends_ = split_ends();
  if (shape.expert == 1) return;
  require(shape.data % shape.expert == 0, "experts split among a part of the ranks");
  expert_ = split(shape.expert_group_of(world.rank()), "expert", true);
  same_experts_ = split(shape.same_experts_of(world.rank()), "same-experts", false);
}

// exact: the communicator sends activations, unrounded.
std::unique_ptr<Communicator> Grid::split(const std::vector<Axis>& axes, bool exact) const {
  const auto wide = std::find_if(axes.begin(), axes.end(), [&](Axis a) { return shape[a] > 1; });
  return split(shape.group_of(world_->rank(), axes), name_of(wide == axes.end() ? axes.back() : *wide),
               exact);
}

std::unique_ptr<Communicator> Grid::split(std::vector<int> members, const char* called, bool exact) const {
  RankSubset group{.members = std::move(members), .name = {}, .exact = exact};
  group.name = str("the ", called, " group of ranks ");
  for (const int r : group.members) group.name += str(r == group.members[0] ? "" : ", ", r);
  return world_->split(std::move(group));
}

// Pairs the first and the last stage. The stages between them get a group of one.
std::unique_ptr<Communicator> Grid::split_ends() const {
  const std::vector<int> all = shape.group_of(world_->rank(), {Axis::pipeline});
  const bool end = place.pipeline == 0 || place.pipeline + 1 == shape.pipeline;
  auto ends = split(end ? std::vector{all.front(), all.back()} : std::vector{world_->rank()},
                    "pipeline's ends", true);
  return end ? std::move(ends) : nullptr;
}

}  // namespace ft
