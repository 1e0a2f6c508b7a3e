// What ft generate, ft chat and ft eval --answers share: a model that answers, its tokenizer and the ends of
// answers.
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
  // Reads everything but the weights' values, which are checked for shape. Settings: those of the command
  // line, else of the model's generation_config.json, else ft's. Throws UserError for a setting in that file
  // which is not available.
  explicit Answerer(const AnswererArgs&);

  Run run;
  const RunConfig& config = run.config;  // its `generation` counts, and the settings of the model
  BuiltModel& built = run.built;
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

// Takes memory for the shape and the weights. Throws UserError (memory) if there is not enough.
Engine& start_engine(Answerer&, const GenerationShape&);

}  // namespace ft
