// Builds the data of a run from a RunConfig: its tokenizer and its micro-batches.
#pragma once
#include <memory>

#include "app/assembly/built_model.h"
#include "app/config/config.h"
#include "app/screen/screen.h"
#include "data/batches/batcher.h"
#include "data/batches/load.h"
#include "data/batches/stream.h"
#include "data/efficiency/batches.h"
#include "data/preference/generated.h"
#include "data/preference/own_answers.h"
#include "engine/train/objectives/rollouts.h"

namespace ft {

struct BuiltData {
  std::shared_ptr<const Tokenizer> tokenizer;  // null: the data has no text
  LoadedData loaded;
  Written written = Written::unknown;           // form of most rows' prompts
  std::unique_ptr<Batcher> train, eval;         // eval null: nothing is held out
  std::unique_ptr<Stream> stream;               // with data.streaming, instead of train
  std::unique_ptr<EfficientBatches> efficient;  // with data_efficiency: made from train or stream
  std::unique_ptr<Rollouts> rollouts;           // with grpo on given answers: made from train
  // Answers that the run generates to the prompts of train and of eval; null: it generates none.
  std::unique_ptr<GeneratedAnswers> generated, generated_eval;

  std::unique_ptr<OwnAnswers> own;  // train's examples, answered by models; null: by the data

  // Returns the training batches.
  const BatchSource& batches() const {
    if (efficient) return *efficient;
    if (rollouts) return *rollouts;
    if (generated) return *generated;
    if (own) return *own;
    return stream ? static_cast<const BatchSource&>(*stream) : *train;
  }
  // Returns the evaluation batches; null: nothing is held out.
  BatchSource* held_out() const {
    return generated_eval ? static_cast<BatchSource*>(generated_eval.get()) : eval.get();
  }
};
// Returns the rows of the embedding (see vocabulary_size) without building the model, for commands that only
// look at data.
std::int64_t vocab_size_of(const RunConfig&);
// Returns the context in which rows are read for this model and objective. `tokenizer` stays null until a row
// with text needs it. Throws UserError (config) if the model is an encoder-decoder and the objective is not
// for these.
LoadContext load_context(const RunConfig&, std::int64_t vocab_size,
                         const std::shared_ptr<std::shared_ptr<const Tokenizer>>& tokenizer);
// Reads the data and makes batches. `ranks`: number of ranks that train on different batches; a stream has
// enough batches for all of them. Of the model only the size of its vocabulary and its positions matter.
BuiltData build_data(const RunConfig&, const ModelInfo&, LoadPart, const LoadProgress& progress,
                     int ranks = 1);

// Returns true if the prompt of a pair is computed once for both answers.
bool shares_prompts(const RunConfig&, bool encoder_decoder);

// Reads the training data and the held-out data, with progress on the screen.
BuiltData read_data(const RunConfig&, const BuiltModel&, int ranks, Screen&);

}  // namespace ft
