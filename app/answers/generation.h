// What ft generate, ft chat and ft eval --answers share: a model that answers, its tokenizer and the ends of
// answers.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/answers/args.h"
#include "app/assembly/engine.h"
#include "app/ranks/ranks.h"
#include "app/screen/screen.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/generate/generator.h"

namespace ft {

struct Answerer {
  RunConfig config;  // of it `generation` counts, and what the model is made of
  Ranks ranks;
  BuiltModel built;
  std::unique_ptr<Tokenizer> tokenizer;  // null: there is none, only ids can be answered
  std::string no_tokenizer;              // why not
  std::vector<std::int32_t> end_tokens;

  // The tokenizer, or the error that says why there is none.
  const Tokenizer& text() const;
  TokenChooser chooser() const { return {config.generation, end_tokens}; }
  GenerationShape shape(std::span<const Prompt> prompts) const {
    return generation_shape(prompts, config.generation.batch_size, config.generation.num_beams);
  }
  // A decoder continues the text, with the usual prefix before it; an encoder reads it with its end token.
  std::vector<std::int32_t> ids_of(const std::string& text) const { return ids_of(text, this->text()); }
  std::vector<std::int32_t> ids_of(const std::string& text, const Tokenizer&) const;
  Prompt prompt_of(std::vector<std::int32_t> ids) const;
  bool reads_sources() const { return built.made.info.decoder.has_value(); }  // an encoder-decoder
  // Tokens of a conversation, or of a source, where nobody says how many will come: those that the model
  // sees, but not more memory than people expect.
  std::int64_t context_length() const;
};

// Reads everything but the weights' values, which are checked for shape. Settings: those of the command line,
// else of the model's generation_config.json, else ft's; what they hold that is not available is a UserError.
Answerer open_answerer(const AnswererArgs&);

// End tokens: of generation_config.json, else of config.json, else the tokenizer's (null: none).
std::vector<std::int32_t> end_tokens(const std::string& folder, const Tokenizer*);

// What a model of this kind is given to answer.
Prompt prompt_of(std::vector<std::int32_t> ids, const ModelInfo&);

// UserError where a token that is forced is none of the model's.
void check_forced_tokens(const GenerationConfig&, std::int64_t vocab_size);

// Memory for the shape and the weights. UserError(Exit::memory) when there is not enough.
std::unique_ptr<Engine> start_engine(const Answerer&, const GenerationShape&, const Ranks& ranks = {});

}  // namespace ft
