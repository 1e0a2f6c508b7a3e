// What precompute_ref_log_probs computed, kept in a file: a run that is resumed, or another one with the
// same reference, does not compute it again. The file says what it was computed of, as SHA-256 of the weights
// and of the tokens of the data, and has a checksum: what is damaged, or of anything else, is not used.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/assembly/built_data.h"
#include "app/assembly/built_objective.h"
#include "engine/files/json.h"

namespace ft {

// Log-probabilities of every sequence of the data, in its order.
struct ReferenceLogps {
  std::vector<double> train, eval;
};

// The number of sequences in a part of the data; null: none.
std::size_t sequences_of(const Batcher* part);

class ReferenceFile {
 public:
  // reference.safetensors in training.output_dir; or in data.dataset_prepared_path, where runs share it and
  // its name says what it is of. Reads the weights' files to hash them.
  ReferenceFile(const RunConfig&, const BuiltModel&, const BuiltObjective&, const BuiltData&);

  const std::string& path() const { return path_; }
  // Nothing: there is none, or `why` says what is wrong with it.
  std::optional<ReferenceLogps> read(std::string& why) const;
  void write(const ReferenceLogps&) const;

 private:
  std::string path_;
  Json of_;  // what the numbers depend on
  std::size_t train_, eval_;
};

}  // namespace ft
