// Has a model answer prompts, which the ranks divide. A token depends on the seed, the prompt's number and
// the token's place in the answer, but not on the number of ranks, the stage or the number of answers at
// once.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/generate/choose.h"
#include "engine/generate/generator.h"
#include "engine/train/objectives/objective.h"

namespace ft {

struct AnswerSampling {
  GenerationShape shape;
  TokenChooser chooser;  // knows no end token, because an answer includes its end token
  std::vector<std::int32_t> end_tokens;

  bool ended(const std::vector<std::int32_t>& answer) const;
};

// Reports progress: `begun` of `of` answers of this rank.
using BegunAnswers = std::function<void(std::int64_t begun, std::int64_t of)>;

// Returns the answers on all ranks, in the order of the prompts. All ranks call it with the same prompts.
std::vector<std::vector<std::int32_t>> answers_to(std::span<const Prompt>, const Ctx&, const Policy&,
                                                  const AnswerSampling&, const BegunAnswers& = {});

}  // namespace ft
