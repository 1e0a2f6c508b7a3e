// The description of an optimizer, which stands in the optimizer's own file.
#pragma once
#include <array>
#include <memory>
#include <span>

namespace ft {

class Optimizer;
struct SettingsText;
struct TrainingConfig;

struct OptimizerKind {
  const char* name;                       // in training.optim
  std::array<const char*, 2> synonyms{};  // other names that transformers has for it; null: no more
  // Throws UserError (config) for mistakes in training.optim_args, by their place in the settings.
  std::unique_ptr<const Optimizer> (*make)(const TrainingConfig&, const SettingsText&) = nullptr;
  bool betas = false;                       // has adam_beta1 and adam_beta2
  bool coded = false;                       // keeps states in 8 bits
  bool complete = false;                    // looks at complete parameters, which then live on the device
  int last_stage = 3;                       // the last ZeRO stage that it has
  const OptimizerKind* paged_of = nullptr;  // the same optimizer, with states on the device

  constexpr const OptimizerKind* unpaged() const { return paged_of ? paged_of : this; }
  static std::span<const OptimizerKind* const> all();
};

// Describes `of` with its states on the host, if the run has a GPU.
constexpr OptimizerKind paged(const OptimizerKind& of, const char* name, const char* synonym = nullptr) {
  OptimizerKind kind = of;
  kind.name = name;
  kind.synonyms = {synonym};
  kind.paged_of = &of;
  return kind;
}

namespace optimizers {
extern const OptimizerKind kAdamW;  // the default
}

}  // namespace ft
