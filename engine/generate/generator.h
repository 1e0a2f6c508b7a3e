// Answers to prompts, several at once: the loop of generation. A prompt is computed whole when a slot of the
// cache is free; all answers under way then get one token a pass. An answer that ends leaves its slot to the
// next prompt, so that the passes stay full. What an answer is does not depend on the others.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "engine/dist/parameter_store.h"
#include "engine/generate/choose.h"
#include "engine/nn/model.h"

namespace ft {

struct Prompt {
  std::vector<std::int32_t> ids;  // at least one
  std::int64_t max_new_tokens = 0;
  std::uint64_t number = 0;  // names its random numbers
};

// What memory is needed for these prompts, `at_once` of them at a time.
GenerationShape generation_shape(std::span<const Prompt>, std::int64_t at_once);

class Generator {
 public:
  // Takes its memory from the arenas of the context, which a plan with this shape has reserved.
  Generator(Ctx&, ParameterStore&, Model&, GenerationShape, TokenChooser);

  // Called for each new token of prompts[i], but not for the end token; false ends this answer with it.
  using OnToken = std::function<bool(std::size_t i, std::int32_t token)>;
  void run(std::span<const Prompt> prompts, const OnToken&);

 private:
  struct Answer {
    std::size_t index;              // of the prompt
    std::vector<std::int32_t> ids;  // the prompt, then what was chosen
    std::int64_t most;              // ids at the end
    std::int32_t slot, held = 0;    // in the cache; how many of ids are in it
    bool open = true;
  };
  // Prompts from `next` on that fit into the free slots and one pass.
  std::vector<Answer*> admit(std::span<const Prompt> prompts, std::size_t& next);
  // One pass: of each answer all ids that the cache does not hold yet, and the token after them.
  void extend(const std::vector<Answer*>&, std::span<const Prompt>, const OnToken&);
  void download(std::int64_t sequences);  // logits to scores_

  Ctx& context_;
  ParameterStore& store_;
  Model& model_;
  GenerationShape shape_;
  TokenChooser chooser_;
  Scope memory_;
  KvCache cache_;
  Tensor logits_;  // (slots, V)
  std::vector<Answer> answers_;
  std::vector<std::int32_t> free_;  // slots
  std::vector<float> scores_;
  std::vector<bf16> narrow_;
};

}  // namespace ft
