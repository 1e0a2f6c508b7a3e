#include "engine/model/offloaded_inputs.h"

#include <algorithm>
#include <utility>

namespace ft {
namespace {

Tensor flat(const Tensor& t) { return {t.data, t.dtype, {t.rows() * t.stride}}; }

}  // namespace

void OffloadedInputs::begin(Ctx& c, std::vector<bool> leave, const Tensor& x) {
  home_ = c.inputs;
  leave_ = std::move(leave);
  passing_.assign(leave_.size(), {});
  if (!home_) return;
  mark_ = home_->used;
  const bool any = std::ranges::count(leave_, true) > 0;
  for (Tensor& turn : turns_) turn = any ? c.save(x.rows(), x.cols()) : Tensor{};
}

Tensor OffloadedInputs::take(std::size_t block) {
  if (block >= kTurns && passing_[block - kTurns].moved) home_->depot.finish(*passing_[block - kTurns].moved);
  passing_[block].at = home_->take(flat(place(block)).bytes());
  return place(block);
}

void OffloadedInputs::put(std::size_t block) {
  passing_[block].moved = home_->depot.put(passing_[block].at, flat(place(block)));
}

void OffloadedInputs::bring_back(std::size_t block) {
  for (std::size_t k = block + 1; k-- > 0 && k + kTurns > block;) {
    if (!leaves(k) || passing_[k].back) continue;
    passing_[k].moved = home_->depot.fetch(flat(place(k)), passing_[k].at);
    passing_[k].back = true;
  }
  if (leaves(block)) home_->depot.finish(*passing_[block].moved);
}

void OffloadedInputs::end() {
  if (home_) home_->used = mark_;
}

}  // namespace ft
