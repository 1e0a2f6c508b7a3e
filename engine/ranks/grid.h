// The ranks of a run on four axes. Ranks of a tensor group are neighbours, as they talk most; pipelines,
// which talk least, cross machines:
//   rank = ((pipeline * D + data) * S + sequence) * T + tensor
// Ranks of one data group see other micro-batches, those of a sequence group parts of the same one, those of
// a tensor group and the stages of a pipeline all of it.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "engine/ranks/communicator.h"

namespace ft {

enum class Axis : std::uint8_t { pipeline, data, sequence, tensor };  // from the outermost to the innermost
inline constexpr std::array<Axis, 4> kAxes{Axis::pipeline, Axis::data, Axis::sequence, Axis::tensor};
const char* name_of(Axis);

// How many ranks there are on each axis, or a rank's place on each.
struct GridPoint {
  int pipeline = 0, data = 0, sequence = 0, tensor = 0;
  int operator[](Axis a) const {
    return a == Axis::pipeline ? pipeline : a == Axis::data ? data : a == Axis::sequence ? sequence : tensor;
  }
  bool operator==(const GridPoint&) const = default;
};

// How the ranks of a sequence group attend to each other's tokens: they exchange tokens for heads (Ulysses),
// or pass keys and values on in a ring.
enum class SequenceSharing : std::uint8_t { ulysses, ring };

struct GridShape : GridPoint {
  // How many neighbouring ranks of the data group share the experts: the group of data rank d begins at a
  // multiple of this. 1: every rank has all experts.
  int expert = 1;
  SequenceSharing sharing = SequenceSharing::ulysses;
  bool shards_rows = false;  // within a tensor group: nn/row_shards.h
  int chunks = 1;            // of the model, that each rank of a pipeline has: nn/stage.h

  constexpr GridShape() : GridPoint{1, 1, 1, 1} {}
  constexpr explicit GridShape(const GridPoint& sizes, int experts = 1) : GridPoint(sizes), expert(experts) {}
  static constexpr GridShape of_data(int ranks) {
    return GridShape({.pipeline = 1, .data = ranks, .sequence = 1, .tensor = 1});
  }
  int ranks() const { return pipeline * data * sequence * tensor; }
  // Ranks that have the same parameters, which ZeRO shares out among them, and add up their gradients.
  int zero() const { return data * sequence; }
  GridPoint place_of(int rank) const;
  // The ranks that differ from `rank` on these axes only, in ascending order.
  std::vector<int> group_of(int rank, const std::vector<Axis>& axes) const;
  // The ranks among which experts are dealt out, and those of zero() that have the same ones as `rank`.
  std::vector<int> expert_group_of(int rank) const;
  std::vector<int> same_experts_of(int rank) const;
};

// The communicators of one rank. Where an axis has one rank there is none: nothing is to be said.
class Grid {
 public:
  explicit Grid(Communicator& world);          // all ranks are data's
  Grid(Communicator& world, GridShape shape);  // all ranks call it together; world has shape.ranks()
  Grid(Grid&&) = default;

  const GridShape shape;
  const GridPoint place;
  Communicator& world() const { return *world_; }
  // Data and sequence together: ranks that share out parameters and add up gradients and losses. Its rank is
  // data * S + sequence.
  Communicator& zero() const { return *zero_; }
  Communicator* sequence() const { return sequence_.get(); }  // null: one rank, as below
  Communicator* tensor() const { return tensor_.get(); }
  Communicator* pipeline() const { return pipeline_.get(); }
  // Where experts are dealt out: the ranks that have all of them together, and those with the same ones.
  Communicator* expert() const { return expert_.get(); }
  Communicator* same_experts() const { return same_experts_.get(); }
  // Joins a pipeline's first and last stage, if this rank is in one of the two.
  Communicator* ends() const { return ends_.get(); }

 private:
  std::unique_ptr<Communicator> split(const std::vector<Axis>& axes, bool exact) const;
  std::unique_ptr<Communicator> split(std::vector<int> members, const char* called, bool exact) const;
  std::unique_ptr<Communicator> split_ends() const;

  Communicator* world_;
  std::unique_ptr<Communicator> split_, sequence_, tensor_, pipeline_, ends_, expert_, same_experts_;
  Communicator* zero_;
};

}  // namespace ft
