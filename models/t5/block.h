// A block of T5: h = x + attention(norm(x)), y = h + mlp(norm(h)), and in the decoder between them
// h = h + cross(norm(h), memory). Dropout is applied to each branch before it is added.
#pragma once
#include <optional>

#include "engine/layers/mlp.h"
#include "engine/layers/norm.h"
#include "engine/layers/picked_rows.h"
#include "models/t5/attention.h"
#include "models/t5/config.h"
#include "models/t5/relative_bias.h"

namespace ft::t5 {

// Generation: the cache, and the ranges of keys that each new token attends to.
struct Extending {
  const KvCache* cache;
  Tensor rows;               // (rows) i32: cache rows for the new tokens' keys and values
  KeyRanges own, of_memory;  // ranges of the self-attention's keys, and of the memory's
};

// Inputs that all blocks of a stack share in one pass.
struct Side {
  std::span<const std::int32_t> starts;  // where sequences begin
  RelativeBias::Pass bias;
  BlockMask blocks = {};  // the encoder's: sparse attention
  // The decoder's: the encoder's states (source rows, C), their gradient (f32 +=; empty: not wanted), and
  // where the source sequences begin.
  Tensor memory, d_memory;
  std::span<const std::int32_t> memory_starts;
  const Extending* extending = nullptr;
  Communicator* parts = nullptr;  // ranks that hold other rows of the sequences; null: none
  RowNumbers memory_rows = {};    // of the memory, see Ctx::numbers

  // Returns the Side of some of the rows (token dropping): distances in the bias then count these rows only.
  Side of(Ctx&, const PickedRows& picked) const {
    Side side = *this;
    side.starts = picked.starts;
    return side;
  }
};

struct Block {
  // A layer and the norm before it.
  template <class Layer>
  struct Normed {
    Norm norm;
    Layer layer;
  };
  Normed<Attention> self;
  std::optional<Normed<Attention>> cross;  // in the decoder only
  Normed<Mlp> mlp;
  Dropout dropout;
  std::size_t number = 0;  // index in its stack

  using Side = t5::Side;
  struct Saved {
    Tensor statistics[3];  // by norm
    Tensor normed[3];      // (rows, C) outputs of the norms; empty: backward computes them again
    Tensor h, h2;          // (rows, C) after self- and cross-attention
    Attention::Saved self, cross;
    Mlp::Saved mlp;  // empty in a block that runs again: there backward() sets statistics[2]
  };
  Saved forward(Ctx&, Tensor y, Tensor x, const Side&, Keep) const;
  void backward(Ctx&, Tensor d, Tensor x, const Saved&, const Side&, bool input_grad) const;
  void visit(Visitor&);
  void cut(TensorRank);

 private:
  Scores scores(const Ctx&, const Attention&, Tensor bias) const;
  Over over_self(Ctx&, Tensor x, const Side&) const;
  Over over_memory(Ctx&, const Side&) const;
  template <class Run>
  void branch(Ctx&, Tensor y, Tensor residual, const Norm&, Run) const;
  Tensor dropped(Ctx&, Tensor d, const Norm&) const;
  void extend(Ctx&, Tensor y, Tensor x, const Side&) const;
};

Block make_block(const Config&, bool decoder, std::int64_t number, DType);

}  // namespace ft::t5
