// From a RunConfig to the data of a run: its tokenizer and its micro-batches.
#pragma once
#include <memory>

#include "app/config/config.h"
#include "data/batcher.h"
#include "data/load.h"
#include "data/stream.h"

namespace ft {

struct BuiltData {
  std::shared_ptr<const Tokenizer> tokenizer;  // null: the data has no text
  LoadedData loaded;
  std::unique_ptr<Batcher> train, eval;  // eval null: nothing is held out
  std::unique_ptr<Stream> stream;        // with data.streaming, instead of train

  const BatchSource& batches() const { return stream ? static_cast<const BatchSource&>(*stream) : *train; }
};
// What the model's config.json says, without the rest of the model: looking at data needs no more.
std::int64_t vocab_size_of(const RunConfig&);
// `ranks`: those of the run; a stream has as many batches as all of them take.
BuiltData build_data(const RunConfig&, std::int64_t vocab_size, LoadPart, const LoadProgress& progress,
                     int ranks = 1);

}  // namespace ft
