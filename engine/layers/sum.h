// A sum of products, for layers.
#pragma once
#include <array>
#include <string_view>

#include "engine/ops/ops.h"
#include "engine/pass/context.h"

namespace ft {

// y = c + the sum of everything added, written once: a Linear, its adapter and a residual, or the gradient of
// an input that several Linears share. With an empty y it computes nothing.
class Sum {
 public:
  // alpha: factor of the added terms, not of c.
  Sum(Ops& ops, Tensor y, Tensor c = {}, float alpha = 1)
      : ops_(ops), y_(y), c_(c), alpha_(alpha), goes_on_(c) {}
  explicit operator bool() const { return static_cast<bool>(y_); }

  void add(const Term& term) {
    if (!y_) return;
    if (count_ == terms_.size()) flush();
    terms_[count_] = term;
    terms_[count_++].where = ops_.where();
  }
  // Adds a tensor that stays valid until run(); only if alpha is 1.
  void add(Tensor whole) {
    if (!y_) return;
    require(alpha_ == 1, "a sum adds whole tensors as they are");
    flush();
    ops_.run(op::Add{y_, whole});
  }
  // Repeats the columns of a narrow tensor, as op::FoldColumnsGrad does, and adds them when the sum runs. The
  // tensor stays valid until then; only if alpha is 1.
  void unfold(Tensor narrow, std::int64_t first) {
    if (!y_) return;
    require(alpha_ == 1, "a sum adds unfolded tensors as they are");
    if (folded_count_ == folded_.size()) flush();
    folded_[folded_count_++] = {narrow, first};
  }
  // Declares the sum a partial sum: run() adds up the ranks' parts, unless the sum began with a c; whoever
  // began it adds up.
  void among_ranks(Ctx& c, std::string_view of) {
    ranks_ = &c;
    of_ = of;
  }
  void run() {
    if (y_ && count_ + folded_count_ > 0) flush();
    if (y_ && ranks_ && !goes_on_ && !ranks_->parts_stay) add_up(*ranks_, y_, of_);
  }

 private:
  void flush() {
    if (count_ > 0)
      ops_.run(op::Products{.y = y_, .terms = {terms_.data(), count_}, .alpha = alpha_, .c = c_});
    else if (!c_)
      ops_.run(op::Fill{y_, 0});
    else if (c_.data != y_.data)
      ops_.run(op::Cast{.y = y_, .x = c_});
    c_ = y_;
    count_ = 0;
    for (std::size_t i = 0; i < folded_count_; ++i)
      ops_.run(op::FoldColumnsGrad{.dx = y_, .dy = folded_[i].narrow, .first = folded_[i].first});
    folded_count_ = 0;
  }
  struct Folded {
    Tensor narrow;
    std::int64_t first;
  };

  Ops& ops_;
  Tensor y_, c_;
  float alpha_;
  std::array<Term, 8> terms_{};
  std::size_t count_ = 0;
  std::array<Folded, 4> folded_{};
  std::size_t folded_count_ = 0;
  bool goes_on_;
  Ctx* ranks_ = nullptr;
  std::string_view of_;
};

}  // namespace ft
