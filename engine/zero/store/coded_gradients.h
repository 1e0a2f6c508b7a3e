// A unit's gradients while ranks add them up in 4 bits (ZeRO++'s qgZ; engine/ranks/coded.h): the groups with
// Group::coded_grads.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "engine/core/heap.h"
#include "engine/ranks/coded.h"
#include "engine/zero/store/gradient_home.h"

namespace ft::zero {

class CodedGradients : public std::enable_shared_from_this<CodedGradients> {
 public:
  // Encodes a unit's complete gradients. Returns null if none are sent in codes.
  static std::shared_ptr<CodedGradients> encode(Ops&, const StoreRanks&, const Unit&, CompleteGradients&);

  // Starts the first hop, among near ranks, and after it the second. The works keep this object alive.
  Communicator::Ticket start_first();
  bool has_second() const { return ranks_.far != nullptr; }
  Communicator::Ticket start_second();
  // Adds the sums to the gradients that are kept, and gives back memory.
  void add_to(const GradientHome&, CompleteGradients&);

 private:
  CodedGradients(const StoreRanks& ranks, const Unit& u) : ranks_(ranks), unit_(u) {}

  const StoreRanks& ranks_;
  const Unit& unit_;
  std::vector<std::pair<const Group*, CodedSum>> sums_;
};

}  // namespace ft::zero
