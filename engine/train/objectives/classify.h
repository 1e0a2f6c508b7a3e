// Settings of a model that classifies, with the names of transformers' configurations.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/rules.h"
#include "engine/core/words.h"

namespace ft {

// Meaning of a row's label: one class; 0 or 1 for each label; or a number for each label.
enum class ProblemType : std::uint8_t { single, multi, regression };
constexpr auto words(ProblemType) {
  using enum ProblemType;
  return to_words<ProblemType>({{single, "single_label_classification"},
                                {multi, "multi_label_classification"},
                                {regression, "regression"}});
}

// Part of the input that has a label: PEFT's task types of sequences and of tokens.
enum class ClassifyTask : std::uint8_t { sequence, token };
constexpr auto words(ClassifyTask) {
  using enum ClassifyTask;
  return to_words<ClassifyTask>({{sequence, "SEQ_CLS"}, {token, "TOKEN_CLS"}});
}

struct ClassifySettings {
  std::optional<ClassifyTask> task_type;
  std::optional<ProblemType> problem_type;
  std::optional<std::int64_t> num_labels;
  std::vector<std::string> id2label;

  void fields(auto& f) {
    f("task_type", task_type,
      "classify: SEQ_CLS, a label of each text, or TOKEN_CLS, one of each token; null: as config.json "
      "says, else SEQ_CLS.");
    f("problem_type", problem_type,
      "classify: single_label_classification (cross-entropy of one class), multi_label_classification (any "
      "of the labels, binary cross-entropy) or regression (numbers, mean squared error); null: as "
      "config.json says, else regression with one label and single_label_classification with more.");
    f("num_labels", num_labels, "classify: number of labels; null: of id2label or config.json, else 2.",
      at_least(1), at_most(1 << 20));
    f("id2label", id2label,
      "classify: names of the labels in the order of their ids, which rows may use; null: as config.json "
      "says, else LABEL_0, LABEL_1, ...",
      or_null());
  }
};

// Complete settings, as the head and the loss need them.
struct Classes {
  ClassifyTask task = ClassifyTask::sequence;
  ProblemType problem = ProblemType::single;
  std::vector<std::string> names;  // of the labels

  std::int64_t size() const { return static_cast<std::int64_t>(names.size()); }
  // Numbers of a target's label.
  std::int64_t label_size() const { return problem == ProblemType::single ? 1 : size(); }
};
Classes classes_of(const ClassifySettings&);

}  // namespace ft
