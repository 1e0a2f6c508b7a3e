#include "app/rollouts/sampling.h"

#include <algorithm>

#include "engine/generate/generator.h"

namespace ft {

GenerationConfig sampling_of(const RunConfig& config) {
  const ObjectiveConfig& o = config.objective;
  GenerationConfig g;
  g.max_new_tokens = o.answer_length();
  g.do_sample = true;
  g.temperature = o.temperature.value_or(1);
  g.top_k = o.top_k.value_or(0);
  g.top_p = o.top_p.value_or(1);
  g.min_p = o.min_p;
  g.repetition_penalty = o.repetition_penalty.value_or(1);
  g.seed = config.training.seed;
  return g;
}

GenerationShape generation_shape_of(const RunConfig& config, std::int64_t prompt, std::int64_t answer,
                                    std::int64_t answers) {
  const std::int64_t at_once = std::min(config.generation.batch_size, answers);
  const Prompt longest{.ids = std::vector<std::int32_t>(static_cast<std::size_t>(prompt)),
                       .max_new_tokens = answer};
  return generation_shape(std::vector<Prompt>(static_cast<std::size_t>(at_once), longest), at_once);
}

GenerationShape generation_shape_of(const RunConfig& config, const GeneratedAnswers* train,
                                    const GeneratedAnswers* eval) {
  std::int64_t prompt = 1, answers = 1;
  if (train) {
    prompt = train->prompts().longest();
    answers = answers_of_rank(config);
  }
  if (eval) {
    prompt = std::max(prompt, eval->prompts().longest());
    answers = std::max(answers, eval->answers());
  }
  return generation_shape_of(config, prompt, config.objective.answer_length(), answers);
}

GenerationShape generation_shape_of(const RunConfig& config, const OwnAnswers& own) {
  const std::int64_t prompt = own.longest_prompt(), room = own.options().longest - prompt;
  return generation_shape_of(config, prompt, std::min(own.options().answer, room), answers_of_rank(config));
}

std::int64_t answers_of_rank(const RunConfig& config) {
  const TrainingConfig& t = config.training;
  return t.per_device_train_batch_size *
         config.objective.steps_per_generation.value_or(t.gradient_accumulation_steps);
}

}  // namespace ft
