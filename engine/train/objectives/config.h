// Settings under `objective`: the loss that a run minimises. Names and defaults are TRL's. The settings are
// joined from parts; each objective's description tells which parts it has.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/core/chosen.h"
#include "engine/core/rules.h"
#include "engine/train/objectives/classify.h"
#include "engine/train/objectives/cpo.h"
#include "engine/train/objectives/distill.h"
#include "engine/train/objectives/dpo.h"
#include "engine/train/objectives/embed.h"
#include "engine/train/objectives/generation.h"
#include "engine/train/objectives/grpo.h"
#include "engine/train/objectives/kind.h"
#include "engine/train/objectives/kto.h"
#include "engine/train/objectives/ppo.h"
#include "engine/train/objectives/reinforce.h"
#include "engine/train/objectives/reward.h"
#include "engine/train/objectives/rloo.h"
#include "engine/train/objectives/rollout_server.h"
#include "engine/train/objectives/shared_settings.h"

namespace ft {

template <class... Parts>
struct JoinedSettings : Parts... {
  void fields(auto& f) { (Parts::fields(f), ...); }
};

// The settings of all objectives, in the order of help.
using ObjectiveSettings =
    JoinedSettings<LossSettings, LossWeights, BetaSetting, LabelSmoothingSetting, DpoSettings,
                   ReferenceSetting, KtoSettings, CpoSettings, AlphaSetting, SimpoSettings,
                   RewardModelSettings, DistillSettings, TemperatureSetting, GroupSettings, ClipSettings,
                   GrpoSettings, RlooSettings, ReinforceSettings, AnswerRewards, AnswerGeneration,
                   RolloutServerSettings, PpoSettings, ClassifySettings, EmbedSettings>;

struct ObjectiveConfig : ObjectiveSettings {
  Chosen<ObjectiveKind> type = &objectives::kSft;

  ObjectiveConfig() = default;
  explicit ObjectiveConfig(Chosen<ObjectiveKind> kind) : type(kind) {}

  ObjectiveNeeds needs() const { return type->needs ? type->needs(*this) : ObjectiveNeeds{}; }
  // Returns true if the data holds other rows than examples, such as answers to compare.
  bool compares() const { return type->rows != ObjectiveRows::examples; }
  bool generates() const { return needs().generates; }
  // Returns true if models give answers in place of the examples'.
  bool rewrites() const { return needs().own > 0 || needs().taught; }
  // Returns true if the data holds texts to classify or to embed, and no answers.
  bool reads_texts() const {
    return type->rows == ObjectiveRows::classified || type->rows == ObjectiveRows::texts;
  }
  // Returns true if the data holds answers with their rewards.
  bool learns_given() const { return type->rows == ObjectiveRows::rollouts && !generates(); }
  // Returns the number of sequences in a row of a micro-batch; texts have more with negatives.
  std::int64_t sequences_of_row() const {
    return type->rows == ObjectiveRows::pairs || type->rows == ObjectiveRows::texts ? 2 : 1;
  }

  // Returns the most targets of a sequence of so many tokens.
  std::int64_t targets_of(std::int64_t tokens) const {
    if (task_type == ClassifyTask::token || pooling_mode == PoolingMode::mean) return tokens;
    return type->scores ? 1 : tokens - 1;
  }

  void fields(auto& f) {
    f("type", type,
      "What to minimise: the cross-entropy of examples (sft), what answers that people compared ask for "
      "(docs/preferences.md), or the error of classes or of embeddings (docs/classify.md).");
    ObjectiveSettings::fields(f);
  }
};

// Checks the settings of the type, and rules between them.
void check(const ObjectiveConfig&, const Refuse&);

// A file or a folder that a setting names.
struct NamedFile {
  const char* setting;  // without "objective."
  std::string name;
  bool is_model;  // a model's folder, or its id
};
std::vector<NamedFile> files_of(const ObjectiveConfig&);

// Lists the settings that it visits.
struct SettingLister {
  std::vector<GivenSetting> all;
  template <class T>
  void operator()(const char* name, const T& value, const char*, auto...) {
    all.push_back({name, value != T{}});
  }
};

// ObjectiveKind::settings.
template <class... Parts>
std::vector<GivenSetting> settings_of(const ObjectiveConfig& c) {
  SettingLister lister;
  (Parts(c).fields(lister), ...);
  return std::move(lister.all);
}

// ObjectiveKind::losses.
template <Worded Loss>
std::vector<std::string> loss_words() {
  std::vector<std::string> all;
  for (const auto& [value, word] : words(Loss{})) all.emplace_back(word);
  return all;
}

// Returns the loss types that are set, or the default. The words must be the objective's.
template <Worded Loss>
std::vector<Loss> losses_of(const LossSettings& c) {
  std::vector<Loss> all;
  for (const std::string& word : c.loss_type) all.push_back(value_of<Loss>(word).value());
  return all.empty() ? std::vector<Loss>{Loss{}} : all;
}

}  // namespace ft
