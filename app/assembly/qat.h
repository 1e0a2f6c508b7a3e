// training.qat: linears that compute with the values of a quantized GGUF file.
#pragma once
#include <optional>
#include <set>
#include <string>

#include "app/assembly/built_model.h"

namespace ft {

// The format of a run's quantized weights, and the type of its computation, to which values are rounded
// before they are quantized.
struct QatRun {
  BlockFormat format;
  DType dtype;
};
// Returns the format and the type of the run that wrote a folder (a result, its average or a checkpoint),
// from its run.json; nothing: training.qat was not set, or the folder is not of a run. Throws UserError
// (input) if run.json is damaged.
std::optional<QatRun> qat_of(const std::string& folder);

// Returns the stored names of the weights that training.qat quantizes: of the linears of the blocks that do
// not compute in f32.
std::set<std::string> weights_for_qat(const BuiltModel&);

// Lets these linears compute with quantized weights. Throws UserError (config) if the model has experts,
// scores texts or has more tokens than its base, if its weights are coded, if a weight's rows, or a rank's
// part of them, are not whole blocks, or if ft export would not write the weight in such blocks; UserError
// (input) if the adapter that the run starts from cannot be merged in each pass.
void quantize_in_passes(const BuiltModel&, const RunConfig&);

}  // namespace ft
