// From a RunConfig to the data of a run: its tokenizer and its micro-batches.
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
#include "engine/train/objectives/rollouts.h"

namespace ft {

struct BuiltData {
  std::shared_ptr<const Tokenizer> tokenizer;  // null: the data has no text
  LoadedData loaded;
  Written written = Written::unknown;           // how most rows were
  std::unique_ptr<Batcher> train, eval;         // eval null: nothing is held out
  std::unique_ptr<Stream> stream;               // with data.streaming, instead of train
  std::unique_ptr<EfficientBatches> efficient;  // with data_efficiency: of train or stream
  std::unique_ptr<Rollouts> rollouts;           // of train, where answers have rewards
  // To the prompts of train and eval, where answers are yet to be given.
  std::unique_ptr<GeneratedAnswers> generated, generated_eval;

  // What is trained on.
  const BatchSource& batches() const {
    if (efficient) return *efficient;
    if (rollouts) return *rollouts;
    if (generated) return *generated;
    return stream ? static_cast<const BatchSource&>(*stream) : *train;
  }
  // What is evaluated on; null: nothing is held out.
  BatchSource* held_out() const {
    return generated_eval ? static_cast<BatchSource*>(generated_eval.get()) : eval.get();
  }
};
// What the model's config.json says, without the rest of the model: looking at data needs no more.
std::int64_t vocab_size_of(const RunConfig&);
// How data are read for the model and the objective. `tokenizer` is null until text asks for it.
LoadContext load_context(const RunConfig&, std::int64_t vocab_size,
                         const std::shared_ptr<std::shared_ptr<const Tokenizer>>& tokenizer);
// `ranks`: those of the run; a stream has as many batches as all of them take.
BuiltData build_data(const RunConfig&, std::int64_t vocab_size, LoadPart, const LoadProgress& progress,
                     int ranks = 1);

// Whether a pair's prompt is computed once for both answers.
bool shares_prompts(const RunConfig&, bool encoder_decoder);

// All of it, with what is done of it on the screen.
BuiltData read_data(const RunConfig&, const BuiltModel&, int ranks, Screen&);

}  // namespace ft
