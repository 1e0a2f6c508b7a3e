// A model that scores or embeds texts, ready to compute: for ft score and ft serve.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/run/run.h"

namespace ft {

// Returns a configuration for a model that scores or embeds texts, with the objective that trained it, or a
// reward model's. adapter "": none. dtype: float32, bfloat16, float16. overrides: settings, already checked.
RunConfig text_model_config(const std::string& model, const std::string& adapter, const std::string& dtype,
                            const std::vector<std::string>& overrides, const std::string& command);

class TextModel {
 public:
  // Builds the model; throws UserError for one that does not fit its settings.
  explicit TextModel(const RunConfig&);
  ~TextModel();

  const RunConfig& config() const { return run_.config; }
  const BuiltModel& built() const { return run_.built; }
  // Adds a text to a batch, with the targets whose values the objective reads.
  void add(Batch&, std::span<const std::int32_t> ids) const;
  // Plans and takes the memory for batches of these shapes; call it once. Throws UserError (memory) if there
  // is not enough.
  void start(const std::vector<BatchShape>&);
  // Returns the values of a batch's targets, one target's after another's: scores, or states.
  std::vector<float> values(const Batch&);
  // Returns the embeddings of a batch's texts, of length 1 if the model's are.
  std::vector<std::vector<float>> embeddings(const Batch&);

 private:
  class Kept;
  Run run_;
  std::unique_ptr<Kept> kept_;
};

}  // namespace ft
