#include "engine/zero/store/coded_gradients.h"

namespace ft::zero {

std::shared_ptr<CodedGradients> CodedGradients::encode(Ops& ops, const StoreRanks& ranks, const Unit& u,
                                                       CompleteGradients& complete) {
  const int near = ranks.near ? ranks.near->size() : ranks.shards.size(),
            far = ranks.far ? ranks.far->size() : 1;
  std::shared_ptr<CodedGradients> coded;
  for (const Group& g : u.groups) {
    if (!g.coded_grads) continue;
    if (!coded) coded.reset(new CodedGradients(ranks, u));
    std::byte* memory = complete.heap->take(CodedSum::bytes(g.count, near, far));
    coded->sums_.emplace_back(&g, CodedSum(ops, memory, g.count, near, far));
    coded->sums_.back().second.encode(complete.of(g));
  }
  return coded;
}

Communicator::Ticket CodedGradients::start_first() {
  return (ranks_.near ? *ranks_.near : ranks_.shards).start([self = shared_from_this()](Communicator& c) {
    c.enter(self->unit_.name);
    for (auto& [group, sum] : self->sums_) sum.first(c);
  });
}

Communicator::Ticket CodedGradients::start_second() {
  for (auto& [group, sum] : sums_) sum.between();
  return ranks_.far->start([self = shared_from_this()](Communicator& c) {
    c.enter(self->unit_.name);
    for (auto& [group, sum] : self->sums_) sum.second(c);
  });
}

void CodedGradients::add_to(const GradientHome& home, CompleteGradients& complete) {
  for (auto& [group, sum] : sums_) {
    sum.add_to(home.kept(*group).here);
    complete.heap->give_back(sum.memory());
  }
}

}  // namespace ft::zero
