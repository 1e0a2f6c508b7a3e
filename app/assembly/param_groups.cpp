#include "app/assembly/param_groups.h"

#include <algorithm>
#include <optional>
#include <set>

#include "lora/matching.h"

namespace ft {
namespace {

struct Patterns {
  std::vector<lora::Expression> expressions;
  std::vector<bool> used;  // has matched a parameter
};

Patterns patterns_of(const ParamGroup& group, const std::string& setting) {
  Patterns all;
  for (const std::string& text : group.params)
    all.expressions.emplace_back("(?s:.*)(?:" + text + ")(?s:.*)", setting, Exit::config);
  all.used.resize(group.params.size());
  return all;
}

bool fits(Patterns& patterns, const Parameter& p) {
  bool any = false;
  for (std::size_t i = 0; i < patterns.expressions.size(); ++i)
    if (patterns.expressions[i].matches(p.name)) any = patterns.used[i] = true;
  return any;
}

UpdateRule rule_of(const ParamGroup& group, const TrainingConfig& t) {
  return {.rate = group.learning_rate ? *group.learning_rate / t.learning_rate : 1,
          .decay = group.weight_decay,
          .frozen_steps = std::max<std::int64_t>(0, group.frozen_until_step - 1)};
}

// Returns true for a matrix with a row for each token: the embedding's table, or a separate head's.
bool has_rows_of_tokens(const Parameter& p, const Model& model) {
  return p.shape.rank == 2 && p.shape[0] == model.vocabulary().embedding.weight.shape[0] &&
         (p.embedding || p.name.ends_with("lm_head.weight") || p.name.ends_with("embed_out.weight"));
}

// LoRA+ (Hayou et al. 2024), with the parameters grouped like PEFT's create_loraplus_optimizer: B and all
// parameters of one dimension have a higher rate; all decay except biases of one dimension and LayerNorm's
// weights.
class LoraPlus {
 public:
  LoraPlus(Model& model, const TrainingConfig& t) : ratio_(*t.loraplus_lr_ratio), decay_(t.weight_decay) {
    EachParameter each([&](Parameter& p) {
      names_.insert(p.name);
      if (p.name.ends_with(".lora_embedding_A"))
        throw UserError(Exit::config,
                        "training.loraplus_lr_ratio: PEFT gives adapters of embeddings a rate of their own "
                        "there, which ft does not know; leave it out, or the embedding out of "
                        "lora.target_modules");
    });
    model.visit(each);
  }
  UpdateRule operator()(const Parameter& p) const {
    const bool vector = p.shape.rank == 1, fast = vector || p.name.find("lora_B") != std::string::npos;
    const bool still = fast && (p.name.find("bias") != std::string::npos || (vector && of_layer_norm(p)));
    return {.rate = fast ? ratio_ : 1, .decay = still ? 0 : decay_};
  }

 private:
  // Returns true for a LayerNorm's weight: LayerNorm is the only norm with a bias.
  bool of_layer_norm(const Parameter& p) const {
    constexpr std::string_view kWeight = ".weight";
    return p.name.ends_with(kWeight) &&
           names_.contains(p.name.substr(0, p.name.size() - kWeight.size()) + ".bias");
  }

  double ratio_, decay_;
  std::set<std::string> names_;
};

}  // namespace

void set_update_rules(Model& model, const TrainingConfig& t) {
  const auto setting = [](std::size_t i) { return str("training.param_groups[", i, "].params"); };
  std::vector<Patterns> groups;
  for (std::size_t i = 0; i < t.param_groups.size(); ++i)
    groups.push_back(patterns_of(t.param_groups[i], setting(i)));
  std::optional<LoraPlus> plus;
  if (t.loraplus_lr_ratio) plus.emplace(model, t);
  bool any_embedding = false;
  EachParameter each([&](Parameter& p) {
    if (!p.trainable) return;
    p.rule = plus ? (*plus)(p) : UpdateRule{};
    const bool embedding = has_rows_of_tokens(p, model);
    any_embedding = any_embedding || embedding;
    if (t.embedding_learning_rate && embedding) p.rule.rate = *t.embedding_learning_rate / t.learning_rate;
    bool taken = false;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (!fits(groups[i], p) || taken) continue;
      p.rule = rule_of(t.param_groups[i], t);
      taken = true;
    }
  });
  model.visit(each);
  for (std::size_t i = 0; i < groups.size(); ++i)
    for (std::size_t k = 0; k < groups[i].used.size(); ++k)
      if (!groups[i].used[k])
        throw UserError(Exit::config,
                        str(setting(i), ": no trained weight has \"", printable(t.param_groups[i].params[k]),
                            "\" in its name; LoRA trains only adapters and lora.modules_to_save, "
                            "and `ft inspect` lists a model's weights"));
  if (t.embedding_learning_rate && !any_embedding)
    throw UserError(Exit::config,
                    "training.embedding_learning_rate: neither the embedding nor the head is trained whole; "
                    "leave it out, or name them in lora.modules_to_save");
}

}  // namespace ft
