// Several adapters over one model that answers: every row of a pass has one of them, or none. A pass reads
// the model's weights once for all of its rows; each adapter's A is multiplied with its own rows only, and
// the other rows of its u are zero. So a row's bits do not depend on the rows beside it.
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
  // Attaches all of them to a model without adapters. UserError for one that is more than LoRA of Linears
  // inside the blocks: those change what all rows share. `head`, `embedding`: what the model calls them.
  AdapterChoice(Model&, const std::vector<Named>&, DType, const std::string& head,
                const std::string& embedding);
  AdapterChoice(const AdapterChoice&) = delete;
  AdapterChoice& operator=(const AdapterChoice&) = delete;

  // For the passes from now on; adapters count from 0 in the order of their names.
  void set_rows(std::span<const AdapterRows>);

  // Its parameters have names of their own, for every adapter may adapt the same Linear.
  bool has(const Parameter& p) const { return stored_.contains(p.name); }
  void read(const Parameter&, Tensor y, std::int64_t first) const;

 private:
  struct Stored {
    const AdapterFolder* folder;
    std::string name;  // in it
  };
  std::vector<std::unique_ptr<AdapterFolder>> folders_;
  std::map<std::string, Stored> stored_;
  std::shared_ptr<std::vector<AdapterRows>> rows_;
};

}  // namespace ft::lora
