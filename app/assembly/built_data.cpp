#include "app/assembly/built_data.h"

#include "engine/io/file.h"
#include "engine/io/json.h"
#include "models/registry.h"

namespace ft {

std::int64_t vocab_size_of(const RunConfig& config) {
  return JsonObject::read(join_path(config.model.model_name_or_path, "config.json")).positive("vocab_size");
}

BuiltData build_data(const RunConfig& config, std::int64_t vocab_size, LoadPart part,
                     const LoadProgress& progress, int ranks) {
  BuiltData d;
  const auto tokenizer = std::make_shared<std::shared_ptr<const Tokenizer>>();  // made when it is asked for
  const auto seed = static_cast<std::uint64_t>(config.training.seed);
  LoadContext context{.vocab_size = vocab_size,
                      .tokenizer = [tokenizer, from = config.model.tokenizer()]() -> const Tokenizer& {
                        if (!*tokenizer) *tokenizer = make_tokenizer(from);
                        return **tokenizer;
                      },
                      .progress = progress,
                      .tokenizer_path = config.model.tokenizer()};
  const auto decoder = read_decoder_tokens(join_path(config.model.model_name_or_path, "config.json"));
  if (decoder) context.seq2seq = {decoder->start, decoder->pad, decoder->end};
  d.loaded = load_data(config.data, seed, context, part);
  const TrainingConfig& t = config.training;
  const auto options = [&](std::int64_t size, bool shuffle) {
    BatcherOptions o = batcher_options(config.data, size, shuffle, seed);
    if (context.seq2seq) o.seq2seq = *context.seq2seq;
    return o;
  };
  const BatcherOptions train = options(t.per_device_train_batch_size, config.data.shuffle);
  if (part == LoadPart::train_and_eval && config.data.streaming) {
    if (t.max_steps <= 0)
      throw UserError(Exit::config, "data.streaming: a stream has no end; set training.max_steps");
    context.progress = {};
    d.stream = std::make_unique<Stream>(config.data, context, train,
                                        t.max_steps * t.gradient_accumulation_steps * ranks);
  } else if (part == LoadPart::train_and_eval) {
    d.train = std::make_unique<Batcher>(d.loaded.train, train);
  }
  if (d.loaded.eval.size() > 0)
    d.eval = std::make_unique<Batcher>(d.loaded.eval, options(t.per_device_eval_batch_size, false));
  d.tokenizer = *tokenizer;
  return d;
}

}  // namespace ft
