// The loop over blocks, once for all models: residency, recomputation (Chen et al. 2016), backward,
// reduction.
//
// A Block has: types Saved and Side;
//   Saved forward(Ctx&, Tensor y, Tensor x, const Side&, Keep) const;
//     y is empty where the block runs again before its backward, which makes by itself what only y needed.
//   void backward(Ctx&, Tensor d, Tensor x, const Saved&, const Side&, bool input_grad) const;
//     d: dy in, dx out
//   void visit(Visitor&).
#pragma once
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "engine/dist/parameter_store.h"
#include "engine/nn/context.h"
#include "engine/nn/keep.h"
#include "engine/nn/visitor.h"

namespace ft {

template <class Block>
class BlockStack {
 public:
  std::vector<Block> blocks;
  std::string name;        // in Hugging Face's model, such as model.layers
  std::vector<int> units;  // of each block, in the store
  std::size_t first = 0;   // blocks before this one, and what feeds it, need no gradient
  // The first blocks, this many, keep only their input and run again before their backward. Of the last
  // block, whose backward directly follows its forward, only the MLP does, unless the number is larger than
  // the stack.
  std::int64_t recomputed = 0;
  // Of this many of these in a row only the first keeps its input; the others' are recomputed from it, in
  // another forward before the backward of them all.
  std::int64_t segment = 1;

  std::int64_t size() const { return static_cast<std::int64_t>(blocks.size()); }

  void visit(Visitor& v) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      v.unit(str(name, ".", i));
      blocks[i].visit(v);
    }
  }
  // Gives the store a unit for each block. all: every block's input has a gradient, for something before the
  // stack or beside it.
  void add_units(ParameterStore& store, bool all) {
    units.clear();
    first = blocks.size();
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      units.push_back(store.add_unit(str(name, ".", i), parameters_of(blocks[i])));
      if (first == blocks.size() && (all || any_trained(blocks[i]))) first = i;
    }
  }

  // x stays as it is; the result and what backward needs are taken from c.saved.
  Tensor forward(Ctx& c, ParameterStore& store, Tensor x, const typename Block::Side& side) {
    expect_own(store, units);
    hidden_.assign(blocks.size() + 1, {});
    saved_.assign(blocks.size(), {});
    marks_.assign(blocks.size(), 0);
    hidden_[0] = x;
    for (std::size_t begin = 0, end = 0; begin < blocks.size(); begin = end) {
      end = end_of_segment(begin);
      marks_[begin] = c.saved.mark();
      hidden_[end] = c.save(x.rows(), x.cols());
      const std::int64_t mark = c.saved.mark();
      Tensor between[2];
      for (std::size_t i = begin; i < end; ++i) {
        Tensor& turn = between[i % 2];
        if (i + 1 < end) hidden_[i + 1] = turn = turn ? turn : c.save(x.rows(), x.cols());
        run(c, store, i, side);
      }
      if (kept(begin) == Keep::nothing) c.saved.rewind(mark);
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
    expect_own(store, backward_units());
    each_segment_back([&](std::size_t begin, std::size_t end) {
      if (kept(begin) == Keep::nothing) c.saved.rewind(marks_[begin]);
      for (std::size_t i = begin; i + 1 < end; ++i) {
        marks_[i] = c.saved.mark();
        hidden_[i + 1] = c.save(d.rows(), d.cols());
        run(c, store, i, side);
        marks_[i + 1] = c.saved.mark();
      }
      for (std::size_t i = end; i-- > begin;) {
        Use use(store, units[i], true);
        if (kept(i) == Keep::nothing) {
          c.saved.rewind(marks_[i]);  // the next block's input
          Scope forget(c.scratch);
          saved_[i] = blocks[i].forward(c, {}, hidden_[i], side, Keep::all);
        }
        blocks[i].backward(c, d, hidden_[i], saved_[i], side, input_grad || i > first);
        store.reduce(units[i], true);
        c.saved.rewind(marks_[i]);  // the blocks below may take it
      }
    });
  }

  // In the order that backward uses them.
  std::vector<int> backward_units() const {
    std::vector<int> order;
    each_segment_back([&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i + 1 < end; ++i) order.push_back(units[i]);
      for (std::size_t i = end; i-- > begin;) order.push_back(units[i]);
    });
    return order;
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

  // Blocks [begin, end) keep nothing but the input of the first of them; or there is one, which may.
  std::size_t end_of_segment(std::size_t begin) const {
    if (begin < first) return first;
    std::size_t end = begin + 1;
    while (kept(begin) == Keep::nothing && end < blocks.size() && kept(end) == Keep::nothing &&
           end < begin + static_cast<std::size_t>(segment))
      ++end;
    return end;
  }
  void each_segment_back(auto f) const {
    std::vector<std::size_t> begins;
    for (std::size_t begin = first; begin < blocks.size(); begin = end_of_segment(begin))
      begins.push_back(begin);
    std::size_t end = blocks.size();
    while (!begins.empty()) {
      f(begins.back(), end);
      end = begins.back();
      begins.pop_back();
    }
  }

  void run(Ctx& c, ParameterStore& store, std::size_t i, const typename Block::Side& side) {
    Use use(store, units[i], false);
    const std::int64_t mark = c.saved.mark();
    saved_[i] = blocks[i].forward(c, hidden_[i + 1], hidden_[i], side, kept(i));
    if (kept(i) == Keep::nothing) c.saved.rewind(mark);  // but its result
  }

  std::vector<Tensor> hidden_;  // inputs of the blocks, and the result; not all of them at all times
  std::vector<typename Block::Saved> saved_;
  std::vector<std::int64_t> marks_;  // of c.saved, before each block
};

}  // namespace ft
