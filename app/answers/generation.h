// A model that answers, its tokenizer, and the tokens that end an answer: for ft generate, ft chat and ft
// eval --answers.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/answers/args.h"
#include "app/rollouts/prompt.h"
#include "app/run/run.h"

namespace ft {

struct Answerer {
  // Reads the model's files and checks the shapes of the weights, but does not load their values. Settings
  // come from the command line, else from the model's generation_config.json, else from ft's defaults. Throws
  // UserError (input) if that file has a setting that is not available.
  explicit Answerer(const AnswererArgs&);

  Run run;
  const RunConfig& config = run.config;  // only `generation` and the model's settings are used
  BuiltModel& built = run.built;
  std::unique_ptr<Tokenizer> tokenizer;  // null: only token ids can be answered
  std::string no_tokenizer;              // the reason why there is none
  std::vector<std::int32_t> end_tokens;

  // Returns the tokenizer. Throws UserError (input) with no_tokenizer if there is none.
  const Tokenizer& text() const;
  TokenChooser chooser() const { return {config.generation, end_tokens}; }
  GenerationShape shape(std::span<const Prompt> prompts) const {
    return generation_shape(prompts, config.generation.batch_size, config.generation.num_beams);
  }
  // Returns the ids of a text: for a decoder with the usual prefix, for an encoder with its end token.
  std::vector<std::int32_t> ids_of(const std::string& text) const { return ids_of(text, this->text()); }
  std::vector<std::int32_t> ids_of(const std::string& text, const Tokenizer&) const;
  Prompt prompt_of(std::vector<std::int32_t> ids) const;
  bool reads_sources() const { return built.made.info.decoder.has_value(); }  // true: an encoder-decoder
  // Returns the room in tokens for a conversation or a source whose length is not known yet:
  // generation.max_length of a decoder, else the model's context, but at most 4096 to save memory.
  std::int64_t context_length() const;
};

// Takes memory for the shape and the weights. Throws UserError (memory) if there is not enough.
Engine& start_engine(Answerer&, const GenerationShape&);

}  // namespace ft
