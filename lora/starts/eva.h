// EVA (Paischer et al. 2024), as PEFT's initialize_lora_eva_weights: A starts as the principal components of
// its Linear's inputs on the data, and the ranks go to the Linears whose components explain most. Batches are
// processed until the chosen components no longer change direction (tau).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/ranks/communicator.h"
#include "lora/attach.h"
#include "lora/starts/incremental_svd.h"

namespace ft::lora {

// Chooses components for Linears, in the model's order. Every rank calls with the same rows and makes the
// same choice. The decompositions are distributed over the ranks.
class Eva {
 public:
  struct Layer {
    std::string name;
    std::int64_t in, rank;  // as configured
  };
  // Throws UserError (config) if a Linear has fewer inputs than components.
  Eva(std::vector<Layer>, const EvaConfig&, Communicator&);

  // Call compare() for the first batch, which shows which Linears have the same inputs and share one
  // decomposition. Then call begin().
  void compare(std::size_t layer, MatrixView rows);
  void begin();

  // For each batch, call add() for every layer that this rank wants(), in any order; then end_batch().
  bool wants(std::size_t layer) const;
  void add(std::size_t layer, MatrixView rows);
  void end_batch();
  bool done() const;                     // the directions of all chosen components are stable
  std::int64_t settled() const;          // number of layers whose directions are stable
  bool decomposes() const;               // a batch had enough rows for every layer
  std::int64_t most_components() const;  // the largest number in a layer
  const std::vector<std::int64_t>& ranks() const { return ranks_; }  // (layers); 0: no adapter
  std::vector<float> start_of(std::size_t layer) const;              // A (rank, in); all ranks must call it

 private:
  struct State {  // state of a layer, shared by layers with the same inputs
    IncrementalSvd svd;
    int owner;                       // rank that computes the decomposition
    std::vector<double> explained;   // (components); empty: not decomposed yet
    std::vector<double> similarity;  // (components)
  };
  bool still(std::size_t layer) const;
  void distribute();

  std::vector<Layer> layers_;
  EvaConfig config_;
  Communicator& comm_;
  std::vector<std::string> seen_;           // (layers) hash of each layer's first inputs
  std::vector<std::size_t> shared_;         // (layers) the first layer with the same inputs
  std::vector<std::int64_t> most_, ranks_;  // (layers) components
  std::vector<std::size_t> state_of_;       // (layers) index in states_ of the layer in shared_
  std::vector<State> states_;
};

// Returns the configuration with the chosen ranks: rank_pattern and alpha_pattern by the names of Linears,
// and target_modules if some Linears get no rank. `ranks`: for attached.linears.
LoraConfig redistributed(const LoraConfig&, const Attached&, const std::vector<std::int64_t>& ranks,
                         const Origin&);

}  // namespace ft::lora
