// Builds the objective of a run that generates its own answers, from the settings.
#include <algorithm>
#include <filesystem>

#include "app/rollouts/on_policy.h"
#include "app/rollouts/online.h"
#include "app/rollouts/prompt.h"
#include "app/rollouts/reward_command.h"
#include "app/rollouts/sampling.h"
#include "data/tokenizers/new_tokens.h"

namespace ft {
namespace {

bool reads_texts(const ObjectiveConfig& c) {
  return std::any_of(c.reward_funcs.begin(), c.reward_funcs.end(),
                     [](RewardCheck check) { return check != RewardCheck::length; });
}

// Returns the run's tokenizer. Null if it cannot be read and no reward reads texts: prompts may be given as
// tokens.
std::unique_ptr<Tokenizer> tokenizer_of(const RunConfig& config) {
  try {
    return make_tokenizer(config.model.tokenizer(), new_tokens(config.data));
  } catch (const UserError&) {
    if (reads_texts(config.objective)) throw;
    return nullptr;
  }
}

// Returns the tokens that end answers, as in TRL: the model's and the tokenizer's.
std::vector<std::int32_t> ends_of(const BuiltModel& built, const Tokenizer* tokenizer) {
  std::vector<std::int32_t> ends = end_tokens(built.folder, tokenizer);
  if (tokenizer && tokenizer->eos() && std::find(ends.begin(), ends.end(), *tokenizer->eos()) == ends.end())
    ends.push_back(*tokenizer->eos());
  return ends;
}

// Returns the last part of a folder or a hub id. TRL names a reward model so.
std::string name_of(const std::string& model) {
  const std::filesystem::path path = std::filesystem::path(model).lexically_normal();
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

}  // namespace

void go_on_policy(BuiltObjective& objective, const RunConfig& config, const BuiltModel& built,
                  BuiltData& data) {
  if (!data.own) return;
  const auto tokenizer = tokenizer_of(config);
  objective.objective = std::make_unique<OnPolicy>(std::move(objective.objective), *data.own,
                                                   AnswerSampling{generation_shape_of(config, *data.own),
                                                                  {sampling_of(config), {}},
                                                                  ends_of(built, tokenizer.get())});
}

Online* go_online(BuiltObjective& objective, const RunConfig& config, const BuiltModel& built,
                  BuiltData& data) {
  if (!data.generated && !data.generated_eval) return nullptr;
  const ObjectiveConfig& o = config.objective;
  for (const auto* answers : {&data.generated, &data.generated_eval})
    if (*answers) require_answers(o, (*answers)->prompts());
  auto rewards = make_checks(o);
  if (o.reward_command)
    rewards.push_back(std::make_unique<RewardCommand>(*o.reward_command, o.reward_timeout.value_or(60)));
  const std::string scorer = objective.scorer ? name_of(*o.reward_model_name_or_path) : "";
  auto tokenizer = tokenizer_of(config);
  auto ends = ends_of(built, tokenizer.get());
  auto remote = o.rollout_server ? std::make_unique<RemoteAnswers>(config, built, ends) : nullptr;
  auto online = std::make_unique<Online>(
      OnlineParts{.config = o,
                  .learning = std::move(objective.objective),
                  .valuation = o.type->valuation(o),
                  .answers = data.generated.get(),
                  .held_out = data.generated_eval.get(),
                  .vocab_size = built.model().vocab_size()},
      RespondentParts{.config = config,
                      .rewards = std::move(rewards),
                      .end_tokens = std::move(ends),
                      .tokenizer = std::move(tokenizer),
                      .shape = generation_shape_of(config, data.generated.get(), data.generated_eval.get()),
                      .scorer = scorer,
                      .padding = objective.scorer ? *objective.scorer->padding : -1,
                      .remote = std::move(remote)});
  Online* const here = online.get();
  objective.objective = std::move(online);
  return here;
}

}  // namespace ft
