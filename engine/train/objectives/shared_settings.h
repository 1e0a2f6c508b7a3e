// Settings that several objectives have. Such a part is a struct with fields(); an objective names its parts
// in its description. An empty optional means the objective's default.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/rules.h"
#include "engine/train/objectives/kind.h"

namespace ft {

struct LossSettings {
  std::vector<std::string> loss_type;

  void fields(auto& f) {
    f("loss_type", loss_type,
      "dpo: one or several of sigmoid (the default), hinge, ipo, robust, exo_pair, nca_pair, bco_pair, "
      "sppo_hard, aot, aot_unpaired, apo_zero, apo_down, discopop, sigmoid_norm and sft, which are added up; "
      "kto: kto or apo_zero_unpaired; cpo: sigmoid, hinge, ipo, simpo or alphapo; distill: jsd or kd; grpo: "
      "dapo (the default), grpo, bnpo, dr_grpo, cispo or sapo; sft: nll (the default) or dft.",
      or_one(), or_null(), [](Rules& r) { r.choices = all_losses(); });
  }
};

struct BetaSetting {
  std::optional<double> beta;

  void fields(auto& f) {
    f("beta", beta,
      "How far the policy may leave the reference, or the scale of log-probabilities; null: 0.1. grpo: "
      "weight of "
      "the KL to the reference; null: 0, none. rloo: weight of the KL in an answer's reward; null: 0.05. "
      "reinforce++: weight of the KL in each token's reward; null: 0.01. "
      "distill: between forward KL (0) and reverse KL (1); null: 0.5.",
      at_least(0));
  }
};
// Checks the scale of log-probabilities.
void check_scale(const BetaSetting&, const Refuse&);

struct LabelSmoothingSetting {
  std::optional<double> label_smoothing;

  void fields(auto& f) {
    f("label_smoothing", label_smoothing,
      "Share of preferences taken as wrong: of robust, exo_pair and aot, and of cpo; null: 0.", at_least(0),
      at_most(1));
  }
};

struct ReferenceSetting {
  std::optional<std::string> ref_model_name_or_path;

  void fields(auto& f) {
    f("ref_model_name_or_path", ref_model_name_or_path,
      "dpo, kto, grpo, rloo, reinforce++, ppo: folder or id of the reference model; null: the policy as the "
      "run began.",
      is_path_or_hub_id(), not_empty());
  }
};

struct AlphaSetting {
  std::optional<double> alpha;

  void fields(auto& f) {
    f("alpha", alpha,
      "cpo, simpo: AlphaPO's reward shape; null: 0, the log-probability itself. distill, kd: weight of the "
      "cross-entropy; null: 0.5.");
  }
};

struct TemperatureSetting {
  std::optional<double> temperature;

  void fields(auto& f) {
    f("temperature", temperature,
      "distill, grpo, rloo, reinforce++, ppo: what logits are divided by; null: 1.", above(0));
  }
};

// Answers to one prompt in groups, which are compared with each other.
struct GroupSettings {
  std::optional<std::int64_t> num_generations, num_generations_eval;
  std::optional<bool> mask_truncated_completions;

  void fields(auto& f) {
    f("num_generations", num_generations,
      "grpo, rloo, reinforce++: answers to one prompt, which lie together; null: 8, of rloo 2, of "
      "reinforce++ 1 without group_baseline.",
      at_least(1));
    f("num_generations_eval", num_generations_eval,
      "grpo, rloo, reinforce++: answers to one prompt in evaluations; null: num_generations.", at_least(1));
    f("mask_truncated_completions", mask_truncated_completions,
      "grpo, rloo, reinforce++: do not train on answers that max_completion_length cut; null: false.");
  }
};

// Throws if a group has fewer answers than can be compared.
void check_group(const GroupSettings&, const Refuse&);

// The range in which a ratio to the old policy counts.
struct ClipSettings {
  std::optional<double> epsilon, epsilon_high;

  double low() const { return 1 - epsilon.value_or(0.2); }
  double high() const { return 1 + epsilon_high.value_or(epsilon.value_or(0.2)); }

  void fields(auto& f) {
    f("epsilon", epsilon,
      "grpo, rloo, reinforce++: how far below 1 a ratio to the old policy counts; null: 0.2.", at_least(0));
    f("epsilon_high", epsilon_high,
      "grpo, rloo, reinforce++: how far above 1; grpo, cispo: the largest ratio itself; null: epsilon.",
      at_least(0));
  }
};

}  // namespace ft
