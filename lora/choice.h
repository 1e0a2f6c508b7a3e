// Several adapters over one model, for generation: every row of a pass uses one of them, or none. A pass
// reads the model's weights once for all of its rows. Each adapter's A is multiplied with this adapter's rows
// only; the other rows of its u are zero. So a row's bits do not depend on the other rows.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/layers/adapter_rows.h"
#include "engine/ops/ops.h"
#include "lora/attach.h"
#include "lora/peft.h"

namespace ft::lora {

// The values of an adapter for a slot, in the host's memory: A and B of each linear.
struct SlotValues {
  std::vector<std::vector<std::byte>> of;
};

class AdapterChoice {
 public:
  struct Named {
    std::string name, folder;
  };
  // Adapters that get their values later: `count` of LoRA, each with at most `rank`, on all Linears inside
  // the blocks. At first they are zero and change nothing.
  struct Slots {
    std::int32_t count = 0;
    std::int64_t rank = 0;
  };
  // Attaches all of these adapters to a model without adapters. Throws UserError (input) if one is more than
  // additions to the outputs of Linears inside the blocks: it would change computations that all rows share.
  // `head`, `embedding`: their names in the model.
  AdapterChoice(Model&, const std::vector<Named>&, DType, const std::string& head,
                const std::string& embedding, const Slots& slots);
  ~AdapterChoice();
  AdapterChoice(const AdapterChoice&) = delete;
  AdapterChoice& operator=(const AdapterChoice&) = delete;

  // Sets the rows of the following passes. Adapters are numbered from 0 in the order in which the constructor
  // got them; slots follow.
  void set_rows(std::span<const AdapterRows>);

  // Parameters get new names, because several adapters may adapt the same Linear.
  bool has(const Parameter& p) const { return stored_.contains(p.name); }
  void read(const Parameter&, Tensor y, std::int64_t first) const;

  // Reads an adapter for any slot; any thread may call it. Throws UserError (input) if the folder is not an
  // adapter, does more than add to outputs of Linears inside the blocks, or has a larger rank.
  SlotValues read_slot(const std::string& folder) const;
  // Gives a slot these values. Call it between two passes.
  void write_slot(Ops&, std::int32_t slot, const SlotValues&);

 private:
  // An adapter of a slot, with the names of its parameters in PEFT's files.
  struct OfSlot {
    Parameter *a, *b;
    std::string name_a, name_b;
  };
  class OfLinear;
  void attach_named(Model&, const std::vector<Named>&, DType);
  void attach_slots(Model&, std::int32_t first, DType);
  void take(Linear&, std::int32_t number, const std::string& name, const AdapterFolder* folder);

  struct Stored {
    const AdapterFolder* folder;  // null: zeros
    std::string name;             // the parameter's name in the folder
  };
  std::string head_, embedding_;
  Slots slots_;
  std::map<Linear*, std::unique_ptr<OfLinear>>
      chosen_;  // until the constructor has given them to the Linears
  std::vector<std::vector<OfSlot>> of_slots_;
  std::vector<std::unique_ptr<AdapterFolder>> folders_;
  std::map<std::string, Stored> stored_;
  std::shared_ptr<std::vector<AdapterRows>> rows_;
};

}  // namespace ft::lora
