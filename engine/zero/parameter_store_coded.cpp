// The parts of a ParameterStore that reduce traffic (ZeRO++, Wang et al. 2023, arXiv 2306.10209): values in 8
// bits (qwZ), a second copy of values within a group (hpZ), and gradients in 4 bits (qgZ).
#include "engine/ops/ops.h"
#include "engine/ranks/coded.h"
#include "engine/zero/parameter_store.h"

namespace ft {

struct ParameterStore::CodedSums {
  std::vector<std::pair<const Group*, CodedSum>> all;
};

// Returns whether a parameter is sent in codes. Parts of 4-bit weights are coded already. Vectors are short
// and sensitive to errors.
bool ParameterStore::goes_coded(const Parameter& p) const {
  const bool numbers = p.dtype == DType::f32 || p.dtype == DType::bf16 || p.dtype == DType::f16;
  return (options_.coded_values || (options_.coded_grads && p.trainable)) && shards_.size() > 1 &&
         !persists(p) && p.shape.rank >= 2 && numbers && !p.stands_for;
}

std::int64_t ParameterStore::wire_bytes(const Group& g) const {
  return codes_values(g) ? shards_.size() * coded_bytes(g.count / shards_.size(), kValueBits) : g.bytes();
}

// Takes values that have arrived: saves this rank's part of the second copy, and decodes codes.
void ParameterStore::land(Unit& u) {
  std::byte* at = u.values;
  for (Group& g : u.groups) {
    if (!g.comes) continue;
    if (near_ && !g.copied) {
      const std::int64_t own = g.copy.numel();
      ops_.copy(g.copy, g.whole_value.first.elements(own * near_->rank(), own));
      g.copied = true;
    }
    if (codes_values(g)) {
      const int ranks = shards_.size();
      decode(ops_, {at, g.dtype, {ranks, g.count / ranks}}, g.whole_value.first.data, kValueBits);
    }
    at += g.bytes();
  }
  if (u.codes) values_->give_back(u.codes);
  u.codes = nullptr;
}

void ParameterStore::forget_copies() {
  each_group([](Group& g) {
    if (g.trained) g.copied = false;
  });
}

std::shared_ptr<ParameterStore::CodedSums> ParameterStore::encode_grads(const Unit& u) {
  std::shared_ptr<CodedSums> sums;
  const int near = near_ ? near_->size() : shards_.size(), far = far_ ? far_->size() : 1;
  for (const Group& g : u.groups) {
    if (!codes_grads(g)) continue;
    if (!sums) sums = std::make_shared<CodedSums>();
    std::byte* memory = grads_->take(CodedSum::bytes(g.count, near, far));
    sums->all.emplace_back(&g, CodedSum(ops_, memory, g.count, near, far));
    sums->all.back().second.encode(g.whole_grad);
  }
  return sums;
}

Communicator::Ticket ParameterStore::start_hop(const Unit& u, const std::shared_ptr<CodedSums>& sums,
                                               bool second) {
  Communicator& ranks = second ? *far_ : near_ ? *near_ : shards_;
  return ranks.start([&u, sums, second](Communicator& c) {
    c.enter(u.name);
    for (auto& [group, sum] : sums->all) second ? sum.second(c) : sum.first(c);
  });
}

void ParameterStore::finish_coded(const Reduction& r) {
  const bool goes_on = far_ && !r.second;
  for (auto& [group, sum] : r.coded->all) {
    if (goes_on) {
      sum.between();
    } else {
      sum.add_to(group->grad);
      grads_->give_back(sum.memory());
    }
  }
  if (goes_on)
    reductions_.push_back({r.unit, start_hop(*r.unit, r.coded, true), nullptr, false, r.last, r.coded, true});
}

}  // namespace ft
