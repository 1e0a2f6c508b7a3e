// EVA (Paischer et al. 2024), as PEFT's initialize_lora_eva_weights: A begins as the principal components of
// what its Linear reads from the data, and the ranks go to the Linears whose components explain most. Batches
// come until the components that are chosen no longer turn (tau).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/ranks/communicator.h"
#include "lora/attach.h"
#include "lora/incremental_svd.h"

namespace ft::lora {

// The choice of components, of Linears in the model's order. Every rank calls with the same rows and comes to
// the same choice; the decompositions are shared out among the ranks.
class Eva {
 public:
  struct Layer {
    std::string name;
    std::int64_t in, rank;  // as configured
  };
  // UserError(Exit::config) where a Linear has fewer inputs than components.
  Eva(std::vector<Layer>, const EvaConfig&, Communicator&);

  // The first batch tells which Linears read the same: one decomposition serves all of them. Then begin().
  void compare(std::size_t layer, MatrixView rows);
  void begin();

  // A batch: the rows of every layer of which this rank wants them, in any order, and its end.
  bool wants(std::size_t layer) const;
  void add(std::size_t layer, MatrixView rows);
  void end_batch();
  bool done() const;                     // all components that are chosen hold still
  std::int64_t settled() const;          // layers of which that is so
  bool decomposes() const;               // a batch had enough rows for every layer
  std::int64_t most_components() const;  // of a layer
  const std::vector<std::int64_t>& ranks() const { return ranks_; }  // (layers); 0: no adapter
  std::vector<float> start_of(std::size_t layer) const;              // A (rank, in); every rank calls

 private:
  struct State {  // of a layer that others may have in common
    IncrementalSvd svd;
    int owner;                       // the rank that decomposes
    std::vector<double> explained;   // (components); empty: nothing was decomposed yet
    std::vector<double> similarity;  // (components)
  };
  bool still(std::size_t layer) const;
  void distribute();

  std::vector<Layer> layers_;
  EvaConfig config_;
  Communicator& comm_;
  std::vector<std::string> seen_;           // (layers) a digest of what each read first
  std::vector<std::size_t> shared_;         // (layers) the first layer that reads the same
  std::vector<std::int64_t> most_, ranks_;  // (layers) components
  std::vector<std::size_t> state_of_;       // (layers) of shared_, in states_
  std::vector<State> states_;
};

// What the configuration becomes: rank_pattern and alpha_pattern by the names of Linears, and target_modules
// where some got no rank. `ranks`: of attached.linears.
LoraConfig redistributed(const LoraConfig&, const Attached&, const std::vector<std::int64_t>& ranks,
                         const Origin&);

}  // namespace ft::lora
