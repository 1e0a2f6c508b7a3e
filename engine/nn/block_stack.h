// The loop over blocks, once for all models: residency, recomputation (Chen et al. 2016, one segment a
// block), backward, reduction.
//
// A Block has: types Saved and Side;
//   Saved forward(Ctx&, Tensor y, Tensor x, const Side&, Keep) const;
//     y is empty where the block runs again before its backward, which makes by itself what only y needed.
//   void backward(Ctx&, Tensor d, Tensor x, const Saved&, const Side&, bool input_grad) const;
//     d: dy in, dx out
//   void visit(Visitor&).
#pragma once
#include <vector>

#include "engine/dist/parameter_store.h"
#include "engine/nn/context.h"
#include "engine/nn/keep.h"

namespace ft {

template <class Block>
class BlockStack {
 public:
  std::vector<Block> blocks;
  std::vector<int> units;  // of each block, in the store
  std::size_t first = 0;   // blocks before this one, and what feeds it, need no gradient
  // The first so many blocks keep only their input and run again before their backward; of the last one,
  // whose backward follows its forward, only the MLP does, unless the number is larger than the stack.
  std::int64_t recomputed = 0;

  std::int64_t size() const { return static_cast<std::int64_t>(blocks.size()); }

  // x stays as it is; the result and what backward needs are taken from c.saved.
  Tensor forward(Ctx& c, ParameterStore& store, Tensor x, const typename Block::Side& side) {
    expect_own(store, units);
    hidden_.assign(1, x);
    saved_.clear();
    marks_.clear();
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      Use use(store, units[i], false);
      marks_.push_back(c.saved.mark());
      Tensor y = c.save(x.rows(), x.cols());
      const std::int64_t mark = c.saved.mark();
      saved_.push_back(blocks[i].forward(c, y, hidden_.back(), side, kept(i)));
      if (kept(i) == Keep::nothing) c.saved.rewind(mark);  // but y
      hidden_.push_back(y);
    }
    return hidden_.back();
  }

  // Forward with nothing kept but the result: two hidden states take turns.
  Tensor evaluate(Ctx& c, ParameterStore& store, Tensor x, const typename Block::Side& side) {
    expect_own(store, units);
    Tensor y[2] = {x, c.save(x.rows(), x.cols())};
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      Use use(store, units[i], false);
      Scope forget(c.saved);
      blocks[i].forward(c, y[(i + 1) % 2], y[i % 2], side, Keep::nothing);
    }
    return y[blocks.size() % 2];
  }

  // d: the gradient of the result in, of x out (only where input_grad says that it is wanted). Gives back
  // what was taken from c.saved in forward and since.
  void backward(Ctx& c, ParameterStore& store, Tensor d, const typename Block::Side& side, bool input_grad) {
    expect_own(store, {units.rbegin(), units.rend() - static_cast<std::ptrdiff_t>(first)});
    for (std::size_t i = blocks.size(); i-- > first;) {
      Use use(store, units[i], true);
      if (kept(i) == Keep::nothing) {
        Scope forget(c.scratch);
        saved_[i] = blocks[i].forward(c, {}, hidden_[i], side, Keep::all);
      }
      blocks[i].backward(c, d, hidden_[i], saved_[i], side, input_grad || i > first);
      store.reduce(units[i], true);
      c.saved.rewind(marks_[i]);  // the blocks below may take it
    }
  }

 private:
  // A model that does not say what its whole pass uses still has its blocks gathered ahead.
  static void expect_own(ParameterStore& store, const std::vector<int>& order) {
    if (!store.expects()) store.expect(order);
  }

  Keep kept(std::size_t block) const {
    const auto number = static_cast<std::int64_t>(block) + 1;
    if (block < first || recomputed > number || (recomputed == number && number < size()))
      return Keep::nothing;
    return recomputed == number ? Keep::but_the_mlp : Keep::all;
  }

  std::vector<Tensor> hidden_;  // inputs of the blocks, and the result
  std::vector<typename Block::Saved> saved_;
  std::vector<std::int64_t> marks_;  // of c.saved, before each block
};

}  // namespace ft
