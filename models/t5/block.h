// One block of T5: h = x + attention(norm(x)), y = h + mlp(norm(h)), and in the decoder between them
// h = h + cross(norm(h), memory). Each branch is dropped out before it is added.
#pragma once
#include <optional>

#include "engine/layers/mlp.h"
#include "engine/layers/norm.h"
#include "engine/layers/picked_rows.h"
#include "models/t5/attention.h"
#include "models/t5/config.h"
#include "models/t5/relative_bias.h"

namespace ft::t5 {

// Generation: where the keys are, and what each new token sees of them.
struct Extending {
  const KvCache* cache;
  Tensor rows;               // (rows) i32: where the new tokens' own keys go
  KeyRanges own, of_memory;  // of a layer; of a memory
};

// What a whole stack shares in one pass.
struct Side {
  std::span<const std::int32_t> starts;  // of the sequences
  RelativeBias::Pass bias;
  BlockMask blocks = {};  // the encoder's: sparse attention
  // The decoder's: the encoder's states (source rows, C), their gradient (f32 +=, empty: not wanted), and
  // where their sequences begin.
  Tensor memory, d_memory;
  std::span<const std::int32_t> memory_starts;
  const Extending* extending = nullptr;
  Communicator* parts = nullptr;  // ranks that have other rows of the sequences; null: none
  RowNumbers memory_rows = {};    // of the memory, as Ctx::numbers

  // The side of some of the rows: distances, as the bias has them, then count these rows only.
  Side of(Ctx&, const PickedRows& picked) const {
    Side side = *this;
    side.starts = picked.starts;
    return side;
  }
};

struct Block {
  // A layer with its norm.
  template <class Layer>
  struct Normed {
    Norm norm;
    Layer layer;
  };
  Normed<Attention> self;
  std::optional<Normed<Attention>> cross;  // the decoder's
  Normed<Mlp> mlp;
  Dropout dropout;
  std::size_t number = 0;  // in its stack

  using Side = t5::Side;
  struct Saved {
    Tensor statistics[3];  // of each norm
    Tensor normed[3];      // (rows, C) what each makes; empty: it is made again
    Tensor h, h2;          // (rows, C) after self- and cross-attention
    Attention::Saved self, cross;
    Mlp::Saved mlp;  // and its statistics: of a block that runs again, not before its backward
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
