// Settings of distillation.
#pragma once
#include <optional>
#include <string>

#include "engine/core/rules.h"

namespace ft {

struct DistillSettings {
  std::optional<std::string> teacher_model_name_or_path, teacher_file;

  void fields(auto& f) {
    f("teacher_model_name_or_path", teacher_model_name_or_path,
      "distill: folder or id of the model to learn from, with the same vocabulary.", is_path_or_hub_id(),
      not_empty());
    f("teacher_file", teacher_file,
      "distill: file of what a teacher says of the data, made with ft teach, in place of the teacher.",
      is_path(), not_empty());
  }
};

}  // namespace ft
