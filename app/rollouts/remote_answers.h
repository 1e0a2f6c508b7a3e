// Answers of a run that a server generates (objective.rollout_server). Rank 0 asks it, and all ranks get the
// answers. A run that trains hands its adapter over before a generation, at most every
// objective.rollout_sync_steps steps, and before each evaluation, under a new name each time, because servers
// keep what they computed by name. An evaluation alone hands over the adapter that it evaluates. With
// objective.rollout_lookahead a generation's answers are asked for when the one before it begins.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/assembly/built_model.h"
#include "app/rollouts/answers_ahead.h"
#include "app/rollouts/rollout_server.h"
#include "engine/generate/decoding.h"
#include "engine/train/checkpoint.h"
#include "engine/train/objectives/objective.h"

namespace ft {

// The folder in the run's folder with the adapter for the server.
inline constexpr const char* kRolloutAdapter = "rollout_adapter";

class RemoteAnswers {
 public:
  // Throws UserError (config) if the file of the key cannot be read.
  RemoteAnswers(const RunConfig&, const BuiltModel&, std::vector<std::int32_t> end_tokens);
  // Takes the adapter away from the server, if that does so at once.
  ~RemoteAnswers();
  RemoteAnswers(const RemoteAnswers&) = delete;
  RemoteAnswers& operator=(const RemoteAnswers&) = delete;

  // Returns the answers to the prompts on all ranks; `group` neighbouring prompts are the same. step: the
  // step that trains on them; empty: an evaluation. Throws StepRefused on all ranks if the server fails.
  // Takes the answers that were asked for ahead of this step, if there are any.
  SampledAnswers give(const Pass&, std::span<const Prompt>, std::int64_t group,
                      std::optional<std::int64_t> step);
  // Hands the adapter over as before step `now`, and begins to ask for the answers of step `next`.
  void ask_ahead(const Pass&, std::vector<Prompt>, std::int64_t group, std::int64_t now, std::int64_t next);

  // Return and set the answers that were asked for ahead, for checkpoints; waits for them. Empty: there are
  // none, or the server failed, which the next give() throws. Every rank calls them.
  std::vector<double> state(Communicator&);
  // Throws UserError (checkpoint) if these are no answers of this run.
  void set_state(std::span<const double>);

 private:
  std::vector<AskedPrompt> asked(std::span<const Prompt>, std::int64_t group) const;
  const std::string& asked_of() const { return held_.empty() ? model_ : held_; }
  void hand_over(const Pass&, std::optional<std::int64_t> step);
  std::string write(const Pass&);
  void meet();
  std::string name_of_run() const;
  std::int64_t round_of(std::int64_t step) const;

  const RunConfig& config_;
  const BuiltModel& built_;
  RolloutServer server_;
  std::unique_ptr<ModelFiles> files_;  // null: the run does not train
  std::string model_;                  // the name to ask for; on rank 0
  std::string held_;                   // the adapter that the server has; on rank 0, empty: none
  AnswersAhead ahead_;
  std::int64_t round_ = -1;  // of the last hand-over: see round_of(); -1: none, or an evaluation's
};

}  // namespace ft
