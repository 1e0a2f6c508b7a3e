// Settings of distillation.
#pragma once
#include <optional>
#include <string>

#include "engine/core/rules.h"

namespace ft {

struct DistillSettings {
  std::optional<std::string> teacher_model_name_or_path, teacher_file;
  std::optional<double> lmbda;
  std::optional<bool> seq_kd;

  void fields(auto& f) {
    f("teacher_model_name_or_path", teacher_model_name_or_path,
      "distill: folder or id of the model to learn from, with the same vocabulary.", is_path_or_hub_id(),
      not_empty());
    f("teacher_file", teacher_file,
      "distill: file of what a teacher says of the data, made with ft teach, in place of the teacher.",
      is_path(), not_empty());
    f("lmbda", lmbda,
      "distill: share of the micro-batches whose answers the student gives itself, anew at each step (GKD); "
      "1: "
      "on-policy distillation; null: 0, all answers are the data's.",
      at_least(0), at_most(1));
    f("seq_kd", seq_kd,
      "distill: the teacher answers the other micro-batches (sequence-level distillation); null: false, "
      "their "
      "answers are the data's.");
  }
};

}  // namespace ft
