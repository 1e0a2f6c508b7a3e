// The ranks of a run on four axes. Ranks of a tensor group are neighbours, because they communicate most.
// Pipelines, which communicate least, cross machines:
//   rank = ((pipeline * D + data) * S + sequence) * T + tensor
// The ranks of a data group process different micro-batches, those in a sequence group parts of one
// micro-batch. The ranks of a tensor group, and the stages of a pipeline, process all of a micro-batch.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "engine/ranks/communicator.h"

namespace ft {

enum class Axis : std::uint8_t { pipeline, data, sequence, tensor };  // outermost first
inline constexpr std::array<Axis, 4> kAxes{Axis::pipeline, Axis::data, Axis::sequence, Axis::tensor};
const char* name_of(Axis);

// The number of ranks on each axis, or a rank's place on each.
struct GridPoint {
  int pipeline = 0, data = 0, sequence = 0, tensor = 0;
  int operator[](Axis a) const {
    return a == Axis::pipeline ? pipeline : a == Axis::data ? data : a == Axis::sequence ? sequence : tensor;
  }
  bool operator==(const GridPoint&) const = default;
};

// Method by which the ranks of a sequence group attend to each other's tokens: they exchange tokens for heads
// (Ulysses), or pass keys and values on in a ring.
enum class SequenceSharing : std::uint8_t { ulysses, ring };

struct GridShape : GridPoint {
  // Number of neighbouring ranks of a data group that split the experts. A data rank's group begins at a
  // multiple of this. 1: every rank has all experts.
  int expert = 1;
  SequenceSharing sharing = SequenceSharing::ulysses;
  bool shards_rows = false;  // within a tensor group: see nn/row_shards.h
  int chunks = 1;            // model chunks on each rank of a pipeline: see nn/stage.h

  constexpr GridShape() : GridPoint{1, 1, 1, 1} {}
  constexpr explicit GridShape(const GridPoint& sizes, int experts = 1) : GridPoint(sizes), expert(experts) {}
  static constexpr GridShape of_data(int ranks) {
    return GridShape({.pipeline = 1, .data = ranks, .sequence = 1, .tensor = 1});
  }
  int ranks() const { return pipeline * data * sequence * tensor; }
  // Number of ranks with the same parameters. ZeRO shards these among them, and adds up their gradients.
  int zero() const { return data * sequence; }
  GridPoint place_of(int rank) const;
  // The ranks that differ from `rank` on these axes only, in ascending order.
  std::vector<int> group_of(int rank, const std::vector<Axis>& axes) const;
  // expert_group_of: the ranks that split the experts with `rank`. same_experts_of: the ranks of zero() with
  // the same experts as `rank`.
  std::vector<int> expert_group_of(int rank) const;
  std::vector<int> same_experts_of(int rank) const;
};

// The communicators of one rank. All but world() and zero() are null if they would have one rank.
class Grid {
 public:
  explicit Grid(Communicator& world);          // all ranks are on the data axis
  Grid(Communicator& world, GridShape shape);  // all ranks call it together; world has shape.ranks() ranks
  Grid(Grid&&) = default;

  const GridShape shape;
  const GridPoint place;
  Communicator& world() const { return *world_; }
  // Data and sequence axes together: the ranks that shard parameters and add up gradients and losses. This
  // rank's number in it is data * S + sequence.
  Communicator& zero() const { return *zero_; }
  Communicator* sequence() const { return sequence_.get(); }  // null: one rank; so are the next two
  Communicator* tensor() const { return tensor_.get(); }
  Communicator* pipeline() const { return pipeline_.get(); }
  // If experts are split: the ranks that together have all experts, and the ranks with the same ones as this
  // rank.
  Communicator* expert() const { return expert_.get(); }
  Communicator* same_experts() const { return same_experts_.get(); }
  // Joins a pipeline's first and last stage; null on other stages.
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
