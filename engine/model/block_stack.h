// The loop over blocks that all models use: residency, recomputation (Chen et al. 2016), backward, reduction.
//
// A Block has: types Saved and Side;
//   Saved forward(Ctx&, Tensor y, Tensor x, const Side&, Keep) const;
//     y is empty when the block runs again before its backward; it may then skip work that only y needs.
//   void backward(Ctx&, Tensor d, Tensor x, const Saved&, const Side&, bool input_grad) const;
//     d: dy in, dx out
//   void visit(Visitor&).
// It may have
//   void take_apart(ParameterStore&, std::vector<Parameter*>&);
// which moves some of the block's parameters from the list into separate units of the store. The block then
// acquires these units itself, through Ctx::store.
// Side may have a member
//   Side of(Ctx&, const PickedRows&) const;
// which returns the Side for the picked rows only; it is valid as long as the PickedRows.
#pragma once
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "engine/layers/keep.h"
#include "engine/layers/picked_rows.h"
#include "engine/layers/visitor.h"
#include "engine/model/offloaded_inputs.h"
#include "engine/model/picked_part.h"
#include "engine/ops/ops.h"
#include "engine/parallel/stage.h"
#include "engine/pass/context.h"
#include "engine/zero/parameter_store.h"

namespace ft {

template <class Block>
class BlockStack {
 public:
  std::span<Block> blocks;  // all blocks of the model, which owns them
  std::string name;         // in Hugging Face's model, such as model.layers
  Stage stage;              // the blocks that run here; below, blocks count from its first
  std::vector<int> units;   // of each block, in the store
  // this block is the first that needs a gradient; earlier ones and their input need none
  std::size_t first = 0;
  // Number of the first blocks that keep only their input and run again before their backward. The model's
  // last block, whose backward directly follows its forward, runs only its MLP again, unless the number is
  // larger than the stack.
  std::int64_t recomputed = 0;
  std::int64_t whole = 0;  // number of the last blocks that also keep tensors that are cheap to recompute
  // Blocks of a segment. Only its first block keeps its input; the others' inputs are recomputed from it in
  // another forward, before the backward of the segment.
  std::int64_t segment = 1;

  // (blocks) random-LTD: the block sees only some of the tokens in forward; empty: none does
  std::vector<bool> drops;

  // Number of blocks that run here.
  std::int64_t size() const { return stage.size == 1 ? std::ssize(blocks) : stage.end - stage.begin; }
  // Makes a slot current: several passes may be between forward and backward, each in its own slot.
  void turn_to(std::size_t slot) {
    if (flights_.size() <= std::max(slot, slot_)) flights_.resize(std::max(slot, slot_) + 1);
    for (const std::size_t with : {slot_, slot}) {
      hidden_.swap(flights_[with].hidden);
      saved_.swap(flights_[with].saved);
      marks_.swap(flights_[with].marks);
    }
    slot_ = slot;
  }

  void visit(Visitor& v) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      v.block(str(name, ".", i));
      blocks[i].visit(v);
    }
  }
  // Gives the store a unit for each block. all: every block's input needs a gradient, because something
  // before or beside the stack is trained.
  void add_units(ParameterStore& store, bool all) {
    units.clear();
    names_.clear();
    first = count();
    for (std::size_t i = 0; i < count(); ++i) {
      names_.push_back(str(name, ".", stage.begin + static_cast<std::int64_t>(i)));
      std::vector<Parameter*> own = parameters_of(block(i));
      if constexpr (requires { block(i).take_apart(store, own); }) block(i).take_apart(store, own);
      units.push_back(store.add_unit(names_.back(), own));
      if (first == count() && (all || any_trained(block(i)))) first = i;
    }
  }

  // Turns on random-LTD in the blocks `dropping`. Throws UserError (config) if one of them does not exist, or
  // if the stack does not have `all` blocks.
  void drop_tokens(const std::vector<std::int64_t>& dropping, std::int64_t all) {
    if (all != size())
      throw UserError(Exit::config,
                      str(kRandomLtd, ".total_layer_num: ", all, ", and ", name, " has ", size(), " blocks"));
    drops.assign(blocks.size(), false);
    for (const std::int64_t i : dropping) {
      if (i >= size())
        throw UserError(Exit::config, str(kRandomLtd, ".random_ltd_layer_id: ", i, " is not below ", size(),
                                          "; blocks count from 0"));
      drops[static_cast<std::size_t>(i)] = true;
    }
  }

  // Leaves x unchanged. Takes the tensors that backward needs from c.saved, and the result too unless y is
  // given. kept_starts: Batch::kept_starts.
  Tensor forward(Ctx& c, ParameterStore& store, Tensor x, const typename Block::Side& side,
                 std::span<const std::int32_t> kept_starts = {}, Tensor y = {}) {
    expect_own(store, units);
    c.store = &store;
    pick(c, side, kept_starts);
    hidden_.assign(count() + 1, {});
    saved_.assign(count(), {});
    marks_.assign(count(), 0);
    hidden_[0] = x;
    for (std::size_t begin = 0, end = 0; begin < count(); begin = end) {
      end = end_of_segment(begin);
      marks_[begin] = c.saved.mark();
      c.ops.enter(names_[begin]);
      if (begin == 0) inputs_.begin(c, leaving(c), x);
      if (inputs_.leaves(end))
        hidden_[end] = inputs_.take(end);
      else
        hidden_[end] = end == count() && y ? y : c.save(x.rows(), x.cols());
      const std::int64_t mark = c.saved.mark();
      Tensor between[2];
      for (std::size_t i = begin; i < end; ++i) {
        Tensor& turn = between[i % 2];
        if (i + 1 < end) hidden_[i + 1] = turn = turn ? turn : c.save(x.rows(), x.cols());
        run(c, store, i, side);
      }
      if (kept(begin) == Keep::nothing) c.saved.rewind(mark);
      if (inputs_.leaves(end)) inputs_.put(end);
    }
    return hidden_.back();
  }

  // Runs forward and keeps only the result: two tensors for hidden states take turns.
  Tensor evaluate(Ctx& c, ParameterStore& store, Tensor x, const typename Block::Side& side) {
    expect_own(store, units);
    c.store = &store;
    Tensor y[2] = {x, c.save(x.rows(), x.cols())};
    for (std::size_t i = 0; i < count(); ++i) {
      Use use(store, units[i], false);
      Scope forget(c.saved);
      block(i).forward(c, y[(i + 1) % 2], y[i % 2], side, Keep::nothing);
    }
    return y[count() % 2];
  }

  // d: in: the gradient of the result; out: the gradient of x, only if input_grad is set. Frees what forward
  // took from c.saved, and everything taken since.
  void backward(Ctx& c, ParameterStore& store, Tensor d, const typename Block::Side& side, bool input_grad) {
    expect_own(store, backward_units());
    c.store = &store;
    each_segment_back([&](std::size_t begin, std::size_t end) {
      if (kept(begin) == Keep::nothing) c.saved.rewind(marks_[begin]);
      for (std::size_t i = begin; i + 1 < end; ++i) {
        marks_[i] = c.saved.mark();
        hidden_[i + 1] = c.save(d.rows(), d.cols());
        during(c.ops.phases(), Phase::recompute, [&] { run(c, store, i, side); });
        marks_[i + 1] = c.saved.mark();
      }
      for (std::size_t i = end; i-- > begin;) {
        inputs_.bring_back(i);
        Use use(store, units[i], true);
        Ctx room = room_of(c, i);
        if (kept(i) == Keep::nothing) {
          c.saved.rewind(marks_[i]);  // frees the next block's input
          Scope forget(c.scratch);
          during(c.ops.phases(), Phase::recompute,
                 [&] { saved_[i] = run_block(room, i, {}, side, Keep::all); });
        }
        run_block_back(room, i, d, side, input_grad || i > first);
        store.reduce(units[i], true);
        c.saved.rewind(marks_[i]);  // frees the memory for the blocks below
        if (c.again) c.again->rewind(0);
      }
    });
    inputs_.end();
  }

  // Units in the order in which backward uses them.
  std::vector<int> backward_units() const {
    std::vector<int> order;
    each_segment_back([&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i + 1 < end; ++i) order.push_back(units[i]);
      for (std::size_t i = end; i-- > begin;) order.push_back(units[i]);
    });
    return order;
  }

 private:
  std::size_t count() const { return static_cast<std::size_t>(size()); }
  Block& block(std::size_t i) { return blocks[static_cast<std::size_t>(stage.begin) + i]; }

  // Tells the store the order of the blocks, unless the model announced the units of its full pass: the
  // blocks are then still gathered ahead.
  static void expect_own(ParameterStore& store, const std::vector<int>& order) {
    if (!store.residency().expects()) store.expect(order);
  }

  Keep kept(std::size_t block) const {
    const auto number = static_cast<std::int64_t>(block) + 1;
    const bool follows = number == size() && stage.last();
    if (block < first || recomputed > number || (recomputed == number && !follows)) return Keep::nothing;
    if (recomputed == number) return Keep::but_the_mlp;
    return number > size() - whole ? Keep::whole : Keep::all;
  }

  // End of the segment of blocks [begin, end) that keep only the first one's input. A block that keeps more
  // is a segment by itself.
  std::size_t end_of_segment(std::size_t begin) const {
    if (begin < first) return first;
    std::size_t end = begin + 1;
    while (kept(begin) == Keep::nothing && end < count() && kept(end) == Keep::nothing &&
           end < begin + static_cast<std::size_t>(segment))
      ++end;
    return end;
  }
  void each_segment_back(auto f) const {
    std::vector<std::size_t> begins;
    for (std::size_t begin = first; begin < count(); begin = end_of_segment(begin)) begins.push_back(begin);
    std::size_t end = count();
    while (!begins.empty()) {
      f(begins.back(), end);
      end = begins.back();
      begins.pop_back();
    }
  }

  // Returns (blocks) if the block's input leaves the device until backward.
  std::vector<bool> leaving(const Ctx& c) const {
    std::vector<bool> leave(count());
    for (std::size_t i = first + 1; c.inputs && segment == 1 && i < count(); ++i)
      leave[i] = kept(i) == Keep::nothing;
    return leave;
  }

  void run(Ctx& c, ParameterStore& store, std::size_t i, const typename Block::Side& side) {
    Use use(store, units[i], false);
    c.ops.enter(names_[i]);
    Ctx room = room_of(c, i);
    const std::int64_t mark = room.saved.mark();
    saved_[i] = run_block(room, i, hidden_[i + 1], side, kept(i));
    if (kept(i) == Keep::nothing) room.saved.rewind(mark);  // keeps only its result
    c.ops.enter(names_[i]);
  }
  // The context in which block i saves: with c.again in place of c.saved if the block keeps nothing after its
  // pass.
  Ctx room_of(const Ctx& c, std::size_t i) const {
    return kept(i) == Keep::nothing && c.again ? c.keeping_in(*c.again) : c;
  }

  // Picks the rows that the blocks with token dropping see in this pass. They are valid until the caller
  // rewinds c.saved.
  void pick(Ctx& c, const typename Block::Side& side, std::span<const std::int32_t> kept_starts) {
    parts_.clear();
    if (drops.empty() || kept_starts.empty()) return;
    parts_.resize(count());
    for (std::size_t i = 0; i < count(); ++i) {
      if (!drops[i]) continue;
      PickedPart<Block>& part = parts_[i].emplace();
      part.picked = pick_rows(side.starts, kept_starts, c.random.with("random_ltd").with(str(name, ".", i)));
      part.rows = upload(c, part.picked.rows);
      part.side = side.of(c, part.picked);
    }
  }
  // Null: the block sees all rows.
  const PickedPart<Block>* part_of(std::size_t i) const {
    return !parts_.empty() && parts_[i] ? &*parts_[i] : nullptr;
  }

  typename Block::Saved run_block(Ctx& c, std::size_t i, Tensor y, const typename Block::Side& side,
                                  Keep keep) {
    const auto* const part = part_of(i);
    return part ? part->forward(c, block(i), y, hidden_[i], keep)
                : block(i).forward(c, y, hidden_[i], side, keep);
  }
  void run_block_back(Ctx& c, std::size_t i, Tensor d, const typename Block::Side& side, bool input_grad) {
    if (const auto* const part = part_of(i))
      part->backward(c, block(i), d, hidden_[i], saved_[i], input_grad);
    else
      block(i).backward(c, d, hidden_[i], saved_[i], side, input_grad);
  }

  std::vector<std::optional<PickedPart<Block>>> parts_;  // empty: all blocks see all rows

  OffloadedInputs inputs_;

  std::vector<std::string> names_;  // names of the blocks
  // (blocks + 1) inputs of the blocks, then the result; only some are valid at a time
  std::vector<Tensor> hidden_;
  std::vector<typename Block::Saved> saved_;
  std::vector<std::int64_t> marks_;  // marks of c.saved, before each block
  struct Flight {                    // the three vectors above, of another slot
    std::vector<Tensor> hidden;
    std::vector<typename Block::Saved> saved;
    std::vector<std::int64_t> marks;
  };
  std::vector<Flight> flights_;
  std::size_t slot_ = 0;
};

}  // namespace ft
