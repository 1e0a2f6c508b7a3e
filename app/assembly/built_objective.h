// Builds the objective of a run from a RunConfig, with the other models that it computes with.
#pragma once
#include <memory>

#include "app/assembly/built_model.h"
#include "engine/train/objectives/objective.h"
#include "engine/train/objectives/teacher_file.h"

namespace ft {

struct BuiltObjective {
  std::unique_ptr<Objective> objective;
  // The frozen reference model, or the teacher. Null: the reference is the policy without its adapters, or
  // there is no reference.
  std::unique_ptr<BuiltModel> reference;
  std::unique_ptr<BuiltModel> scorer;         // a reward model; null: none
  std::unique_ptr<BuiltModel> critic;         // trained together with the policy; null: none
  std::shared_ptr<const TeacherFile> taught;  // of objective.teacher_file; null: none
  // The reference's log-probabilities are computed once before training, by `reference` or, if null, by the
  // policy as it begins.
  bool precomputes = false;
  // The reference is the policy without its adapters, which change nothing at first.
  bool is_base = false;
};

// Builds the objective. Its reference is objective.ref_model_name_or_path, else the policy as the run begins.
// For a new adapter this is the base without it, which costs no memory; else it is a frozen copy.
BuiltObjective build_objective(const RunConfig&, const BuiltModel&, Weights);

// Builds the model in this folder, frozen, as a teacher of the run (ft teach). Throws UserError (config) if
// its vocabulary is not the policy's.
std::unique_ptr<BuiltModel> build_teacher(const RunConfig&, const std::string& folder,
                                          const BuiltModel& policy, bool load_in_4bit);

// Builds the objective to evaluate a trained model. `began`: the configuration of the run that trained it.
// Throws UserError (config) if the objective has no evaluation, or if the reference is the model that
// training began with and is not named.
BuiltObjective build_evaluated_objective(const RunConfig& began, const BuiltModel&);

}  // namespace ft
