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
#include "lora/attach.h"
#include "lora/peft.h"

namespace ft::lora {

class AdapterChoice {
 public:
  struct Named {
    std::string name, folder;
  };
  // Attaches all of these adapters to a model without adapters. Throws UserError (input) if one is more than
  // additions to the outputs of Linears inside the blocks: it would change computations that all rows share.
  // `head`, `embedding`: their names in the model.
  AdapterChoice(Model&, const std::vector<Named>&, DType, const std::string& head,
                const std::string& embedding);
  AdapterChoice(const AdapterChoice&) = delete;
  AdapterChoice& operator=(const AdapterChoice&) = delete;

  // Sets the rows of the following passes. Adapters are numbered from 0 in the order in which the constructor
  // got them.
  void set_rows(std::span<const AdapterRows>);

  // Parameters get new names, because several adapters may adapt the same Linear.
  bool has(const Parameter& p) const { return stored_.contains(p.name); }
  void read(const Parameter&, Tensor y, std::int64_t first) const;

 private:
  struct Stored {
    const AdapterFolder* folder;
    std::string name;  // the parameter's name in the folder
  };
  std::vector<std::unique_ptr<AdapterFolder>> folders_;
  std::map<std::string, Stored> stored_;
  std::shared_ptr<std::vector<AdapterRows>> rows_;
};

}  // namespace ft::lora
