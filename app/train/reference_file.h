// Keeps the numbers of precompute_ref_log_probs in a file, so that a resumed run, or another run with the
// same reference, does not compute them again. The file records its sources, as SHA-256 of the weights and of
// the data's tokens, and a checksum. A damaged file, or one of other sources, is not used.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/assembly/built_data.h"
#include "app/assembly/built_objective.h"
#include "engine/files/json.h"

namespace ft {

// Log-probabilities of all sequences, in the order of the data.
struct ReferenceLogps {
  std::vector<double> train, eval;
};

// Returns the number of sequences in a part of the data; a null part has none.
std::size_t sequences_of(const Batcher* part);

class ReferenceFile {
 public:
  // The file is reference.safetensors in training.output_dir. With data.dataset_prepared_path it is in that
  // folder, where runs share it, and its name has a hash of its sources. Reads the weights' files to hash
  // them.
  ReferenceFile(const RunConfig&, const BuiltModel&, const BuiltObjective&, const BuiltData&);

  const std::string& path() const { return path_; }
  // Returns the numbers. Returns nothing if there is no file, or if it cannot be used: then `why` gives the
  // reason.
  std::optional<ReferenceLogps> read(std::string& why) const;
  void write(const ReferenceLogps&) const;

 private:
  std::string path_;
  Json of_;  // the sources of the numbers
  std::size_t train_, eval_;
};

}  // namespace ft
