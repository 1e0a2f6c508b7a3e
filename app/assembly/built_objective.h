// From a RunConfig to the objective of a run, and the reference that it compares the policy with.
#pragma once
#include <memory>

#include "app/assembly/built_model.h"
#include "engine/train/objectives/objective.h"
#include "engine/train/objectives/teacher_file.h"

namespace ft {

struct BuiltObjective {
  std::unique_ptr<Objective> objective;
  // A frozen model of its own, or the teacher; null: the policy without its adapters, or no reference at all.
  std::unique_ptr<BuiltModel> reference;
  std::unique_ptr<BuiltModel> scorer;         // a reward model; null: none
  std::unique_ptr<BuiltModel> critic;         // trained beside the policy; null: none
  std::shared_ptr<const TeacherFile> taught;  // of objective.teacher_file; null: none
  // The reference's numbers are computed once before training; by the policy as it begins where there is no
  // model for it.
  bool precomputes = false;
  bool is_base =
      false;  // without a model of its own: the policy without its adapters, which begin as nothing
};

// The reference is the policy as the run begins, or objective.ref_model_name_or_path: for a new adapter the
// base without it, which costs no memory; else a copy, which is held beside the policy.
BuiltObjective build_objective(const RunConfig&, const BuiltModel&, Weights);

// The model in this folder, frozen, as a teacher of the run (ft teach).
std::unique_ptr<BuiltModel> build_teacher(const RunConfig&, const std::string& folder,
                                          const BuiltModel& policy, bool load_in_4bit);

// For an evaluation of what a run made: `began` is that run's configuration. UserError (exit 2) where it does
// not say what the reference was.
BuiltObjective build_evaluated_objective(const RunConfig& began, const BuiltModel&);

}  // namespace ft
