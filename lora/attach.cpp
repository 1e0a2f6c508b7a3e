#include "lora/attach.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "lora/activated.h"
#include "lora/hira.h"
#include "lora/matching.h"
#include "lora/no_effect.h"
#include "lora/peft_config.h"
#include "lora/tokens.h"

namespace ft::lora {
namespace {

constexpr const char* kNested = "language_model.";  // in names of models with images

std::string join(const auto& names) {
  std::string out;
  for (const auto& n : names) out += (out.empty() ? "" : " ") + printable(n);
  return out;
}

// Returns the last parts of all Linears' names, each once, in the model's order.
std::vector<std::string> short_names(Model& model) {
  std::vector<std::string> out;
  EachLinear each([&](Linear& l) {
    const std::string last = in_peft(l.name.substr(l.name.rfind('.') + 1));
    if (std::find(out.begin(), out.end(), last) == out.end()) out.push_back(last);
  });
  model.visit(each);
  return out;
}

// Applies the rules of a configuration to one Linear after another.
class Chooser {
 public:
  Chooser(const LoraConfig& c, const Origin& origin) : config_(c), origin_(origin) {
    const auto* text = std::get_if<std::string>(&c.target_modules);
    all_linear_ = text && *text == "all-linear";
    const Exit exit = origin.exit;
    if (!all_linear_) targets_.emplace(c.target_modules, setting("target_modules"), exit);
    if (c.layers_pattern) read_lists(*c.layers_pattern);
    if (c.exclude_modules) excluded_.emplace(*c.exclude_modules, setting("exclude_modules"), exit);
  }

  // router: transformers 5 has no linear there, so that "all-linear" does not mean it.
  bool wants(const Linear& l, bool router = false) {
    return wants(l.name, l.name != origin_.head && !router);
  }
  // all_linear: true if "all-linear" includes this module. Also accepts names inside a larger model.
  bool wants(const std::string& module, bool all_linear) {
    const std::string name = in_peft(module), nested = nested_name(name, kNested);
    const bool target = all_linear_ ? all_linear : targets_->matches(name) || targets_->matches(nested);
    if (!target || (excluded_ && (excluded_->matches(name) || excluded_->matches(nested)))) return false;
    return in_layers(name);
  }

  // Returns true if a parameter gets an adapter. `name` is its name in transformers 5.
  bool wants_parameter(const std::string& name) {
    if (!config_.target_parameters) return false;
    bool any = false;
    for (const std::string& target : *config_.target_parameters)
      if (ends_with_module(name, target)) {
        any = true;
        used_parameters_.insert(target);
      }
    return any;
  }

  struct Form {
    std::int64_t r;
    float scale;
  };
  Form form(const std::string& of) {
    const Exit exit = origin_.exit;
    adapted_.insert(of);
    const std::string name = nested_name(of, origin_.nested);
    const auto r =
        pattern_value(config_.rank_pattern, name, setting("rank_pattern"), exit).value_or(config_.r);
    const auto alpha = pattern_value(config_.alpha_pattern, name, setting("alpha_pattern"), exit)
                           .value_or(config_.lora_alpha);
    constexpr std::int64_t kMost = std::int64_t{1} << 24;
    if (r < 1 || r > kMost)
      throw UserError(
          exit, str(setting("r"), ": a rank of ", r, " for ", name, "; it must be between 1 and ", kMost));
    const double scale =
        alpha / (config_.use_rslora ? std::sqrt(static_cast<double>(r)) : static_cast<double>(r));
    return {r, static_cast<float>(scale)};
  }
  // module: the adapted module's name in the files. name: the name that patterns of ranks are matched with.
  std::unique_ptr<LinearAdapter> adapter(const Linear& l, const std::string& module, const std::string& name,
                                         DType dtype) {
    const Form f = form(in_peft(name));
    require_start(l, f.r);
    const AdapterKind& kind = *config_.peft_type;
    if (const auto most = kind.most_rank ? kind.most_rank(l.in, l.out) : f.r; f.r > most)
      throw UserError(origin_.exit, str(setting("r"), ": is ", f.r, ", and for ", l.name, " (", l.out, " x ",
                                        l.in, ") ", kind.title, " needs an r of at most ", most));
    if (const std::string fault = kind.fault_of ? kind.fault_of(config_, l.in) : ""; !fault.empty())
      throw UserError(origin_.exit, str(origin_.prefix, fault, "; for ", l.name));
    if (const std::string note = kind.note_of ? kind.note_of(config_, l.in) : ""; !note.empty())
      notes_.insert(origin_.prefix + note);
    if (!kind.inputs_first && l.weight->inputs_first())
      throw UserError(origin_.exit, str(setting("peft_type"), ": ", kind.title, " is not for ", l.name,
                                        ", whose weight is stored inputs first; PEFT does not adapt it "
                                        "either. Leave it out of target_modules, or set lora"));
    return kind.make(config_, {kPeftPrefix + in_peft(module), l.in, l.out, f.r, f.scale,
                               static_cast<float>(config_.lora_dropout), dtype});
  }
  // Returns the ranks and scales for the parameters of experts.
  ExpertsRanks experts(const Moe& m) {
    ExpertsRanks ranks;
    const std::string gate_up = m.name + ".experts.gate_up_proj", down = m.name + ".experts.down_proj";
    if (wants_parameter(gate_up)) {
      const Form f = form(gate_up);
      ranks.gate_up = f.r;
      ranks.gate_up_scale = f.scale;
    }
    if (wants_parameter(down)) {
      const Form f = form(down);
      ranks.down = f.r;
      ranks.down_scale = f.scale;
    }
    return ranks;
  }

  // Notes about the adapters that were made.
  const std::set<std::string>& notes() const { return notes_; }
  // All names that form() was called with.
  const std::set<std::string>& adapted() const { return adapted_; }

  // Throws unless targets match modules, and some Linears are left after the exclusions.
  void check(Model& model, std::size_t chosen) const {
    const auto unused = targets_ ? targets_->unused() : std::vector<std::string>{};
    if (!unused.empty() && (origin_.every_target || unused.size() == targets_->size()))
      throw UserError(origin_.exit, str(setting("target_modules"), ": nothing is called \"", join(unused),
                                        "\"", list_meant(config_.target_modules, model),
                                        "; linears of this model: ", join(short_names(model))));
    for (const std::string& target : config_.target_parameters.value_or(std::vector<std::string>{}))
      if (origin_.every_target && !used_parameters_.contains(target))
        throw UserError(origin_.exit,
                        str(setting("target_parameters"), ": nothing is called \"", printable(target),
                            "\"; there are mlp.experts.gate_up_proj and mlp.experts.down_proj "
                            "of models with experts, and weights of linears"));
    if (!used_parameters_.empty() && config_.lora_dropout > 0)
      throw UserError(origin_.exit,
                      setting("lora_dropout") + ": adapters of target_parameters have none; set it to 0");
    const auto start = start_of(config_.init_lora_weights);
    const bool plain = start->init == LoraInit::kaiming || start->init == LoraInit::random_b ||
                       start->init == LoraInit::gaussian;
    if (config_.lora_bias) check_bias(start->init);
    if (!used_parameters_.empty() && (config_.use_dora || !plain))
      throw UserError(origin_.exit, setting("target_parameters") +
                                        ": neither with use_dora nor with init_lora_weights other than true, "
                                        "false and gaussian");
    if (chosen == 0)
      throw UserError(origin_.exit,
                      str(origin_.prefix,
                          "exclude_modules, layers_to_transform and layers_pattern leave no linear to adapt; "
                          "there are ",
                          join(short_names(model))));
  }

 private:
  std::string setting(const char* name) const { return origin_.prefix + name; }

  // A target that is a complete name, such as the head's, matches in any layer.
  bool in_layers(const std::string& name) const {
    const auto has = [](const auto& list, const auto& x) {
      return std::find(list.begin(), list.end(), x) != list.end();
    };
    const auto& layers = config_.layers_to_transform;
    if (!layers || layers->empty() || has(*layers, layer(name))) return true;
    const auto* names = std::get_if<std::vector<std::string>>(&config_.target_modules);
    return names && has(*names, name);
  }

  std::int64_t layer(const std::string& name) const {
    if (lists_.empty()) return layer_of(name);
    for (const Expression& list : lists_)
      if (const std::int64_t found = layer_of(name, list); found >= 0) return found;
    return -1;
  }

  void read_lists(const Modules& patterns) {
    const auto refuse = [&](const char* what) {
      throw UserError(origin_.exit, setting("layers_pattern") + what);
    };
    if (!config_.layers_to_transform || config_.layers_to_transform->empty())
      refuse(": has no effect without layers_to_transform");
    if (std::holds_alternative<std::string>(config_.target_modules))
      refuse(": needs target_modules to be a list of names, as in PEFT");
    const auto* one = std::get_if<std::string>(&patterns);
    for (const std::string& p : one ? std::vector{*one} : std::get<std::vector<std::string>>(patterns))
      lists_.emplace_back("(?:.*\\.)?(?:" + p + ")", setting("layers_pattern"), origin_.exit);
  }

  // Throws unless the other settings allow a bias of B, as in PEFT.
  void check_bias(LoraInit init) const {
    const auto refuse = [&](const std::string& what) {
      throw UserError(origin_.exit, str(setting("lora_bias"), ": ", what));
    };
    if (config_.use_dora) refuse("not with use_dora; leave one of the two out");
    if (init != LoraInit::kaiming && init != LoraInit::random_b)
      refuse("only with init_lora_weights true and false");
    if (!used_parameters_.empty()) refuse("adapters of target_parameters have none; leave it out");
  }

  // Throws if a rank does not fit the configured start of A and B.
  void require_start(const Linear& l, std::int64_t r) const {
    const auto start = start_of(config_.init_lora_weights);
    require(start.has_value(), "an init_lora_weights that nobody checked");
    const auto refuse = [&](const std::string& what) {
      throw UserError(origin_.exit, str(setting("init_lora_weights"), ": ", what));
    };
    if (start->init == LoraInit::orthogonal && r % 2 != 0)
      refuse(str("orthogonal needs an even r, which is ", r, " for ", l.name));
    const std::int64_t taken = start->init == LoraInit::lora_ga ? 2 * r : r;
    if ((start->changes_base() || start->init == LoraInit::loftq) && taken > std::min(l.in, l.out))
      refuse(str("r is ", r, " for ", l.name, ", which has only ", std::min(l.in, l.out), " singular values",
                 taken > r ? "; lora_ga takes 2 r" : ""));
  }

  const LoraConfig& config_;
  const Origin& origin_;
  bool all_linear_ = false;
  std::vector<Expression> lists_;  // for lists of layers
  std::optional<Matcher> targets_, excluded_;
  std::set<std::string> used_parameters_, adapted_, notes_;
};

class EachMoe final : public Visitor {
 public:
  explicit EachMoe(std::function<void(Moe&)> f) : f_(std::move(f)) {}
  void experts(Moe& m) override { f_(m); }

 private:
  std::function<void(Moe&)> f_;
};

// Returns true if a module around a parameter matches: model, model.layers, model.layers.0, ...
template <class F>
bool any_module(std::string_view parameter, const F& matches) {
  for (auto dot = parameter.find('.'); dot != std::string_view::npos; dot = parameter.find('.', dot + 1))
    if (matches(parameter.substr(0, dot))) return true;
  return false;
}

// Returns true if a module has one of these names or is inside a module that has: PEFT gives it no adapter.
bool keeps_whole(const std::string& module, const std::vector<std::string>& modules) {
  return std::any_of(modules.begin(), modules.end(), [&](const std::string& m) {
    return any_module(in_peft(module) + ".",
                      [&](std::string_view name) { return ends_with_module(name, m); });
  });
}

// PEFT trains a copy of a saved module. So the embedding and a head that shares its table become separate,
// unless ensure_weight_tying keeps the table shared. Then the table is trained, whichever of the two is
// named.
std::vector<std::string> part_head_from_embedding(Model& model, std::vector<std::string> modules,
                                                  const LoraConfig& config, const Origin& origin) {
  const std::string head = in_peft(origin.head);
  const auto is_head = [&](const std::string& m) { return head.ends_with(m); };
  const auto is_embedding = [&](const std::string& m) { return origin.embedding.ends_with(m); };
  const bool any = std::ranges::any_of(modules, is_head) || std::ranges::any_of(modules, is_embedding);
  if (!any) return modules;
  if (!config.ensure_weight_tying || !origin.tied_head) {
    model.vocabulary().untie();
    return modules;
  }
  if (std::ranges::none_of(modules, is_embedding)) modules.push_back(origin.embedding);
  std::erase_if(modules, is_head);
  return modules;
}

// Adds LoRA to the input embedding. A head that shares the table computes without the adapter, or, with
// ensure_weight_tying, with the same adapter.
void adapt_embedding(Model& model, Chooser& chooser, const LoraConfig& config, DType dtype,
                     const Origin& origin, const std::vector<std::string>& whole, Attached& out) {
  const bool ties = config.ensure_weight_tying && origin.tied_head;
  const bool own = chooser.wants(origin.embedding, false),
             of_head = ties && chooser.wants(origin.head, false);
  if ((!own && !of_head) || keeps_whole(origin.embedding, whole)) return;
  const auto refuse = [&](const std::string& what) {
    throw UserError(origin.exit, str(origin.prefix, what));
  };
  const std::string at = "target_modules: an adapter of " + origin.embedding;
  if (!origin.one_embedding)
    refuse(at +
           ": not for encoder-decoders, whose encoder and decoder look up tokens separately; leave it out, "
           "or name it in modules_to_save");
  if (config.use_dora) refuse(at + ": not with use_dora; leave one of the two out");
  if (config.lora_bias) refuse(at + ": not with lora_bias; leave one of the two out");
  if (config.peft_type != &kinds::kLora)
    refuse(str(at, ": not with peft_type ", config.peft_type->name, "; leave it out"));
  const LoraInit init = start_of(config.init_lora_weights)->init;
  if (init != LoraInit::kaiming && init != LoraInit::random_b && init != LoraInit::gaussian)
    refuse(at + ": only with init_lora_weights true, false and gaussian");
  const Parameter& table = model.vocabulary().embedding.weight;
  const auto form = chooser.form(in_peft(origin.embedding));
  auto adapter = std::make_unique<EmbeddingLora>(kPeftPrefix + in_peft(origin.embedding), table.shape[0],
                                                 table.shape[1], form.r, form.scale, dtype);
  out.embedding = adapter.get();
  out.embedding_module = origin.embedding;
  out.tied_lora = ties;
  model.vocabulary().adapt_embedding(std::move(adapter));
  if (!ties) return;
  EachLinear each([&](Linear& l) {
    if (l.name == origin.head) l.adapter = std::make_unique<TiedLora>(*out.embedding);
  });
  model.visit(each);
}

// Marks all modules whose names end with an entry, even within a part of a name, as PEFT does: "norm" matches
// input_layernorm too.
void mark_modules_to_save(Model& model, const std::vector<std::string>& modules, const Origin& origin) {
  std::set<std::string> unused(modules.begin(), modules.end());
  EachParameter each([&](Parameter& p) {
    if (p.name.starts_with(kPeftPrefix)) return;
    for (const std::string& m : modules)
      if (saves(m, p.name)) {
        p.trainable = !p.constant;
        unused.erase(m);
      }
  });
  model.visit(each);
  if (!unused.empty())
    throw UserError(origin.exit, str(origin.prefix, "modules_to_save: nothing is called \"", join(unused),
                                     "\"; modules of this model: ",
                                     origin.embedding.substr(origin.embedding.rfind('.') + 1), " norm ",
                                     in_peft(origin.head), " ", join(short_names(model))));
}

// Throws if a Linear with a HiRA adapter is trained too: modules_to_save matches parts of names, so it finds
// linears that keep their adapters.
void refuse_trained_hira(Model& model, const Origin& origin) {
  EachLinear each([&](Linear& l) {
    if (dynamic_cast<const HiraAdapter*>(l.adapter.get()) && l.weight->trains())
      throw UserError(origin.exit,
                      str(origin.prefix, "modules_to_save: trains ", l.name,
                          ", whose HiRA adapter needs a frozen weight; give complete names of modules, or "
                          "leave it out of target_modules"));
  });
  model.visit(each);
}

// Throws if complete experts are marked to be saved: PEFT's copies have the names of transformers 5, which
// holds all experts of a layer in one tensor.
void refuse_whole_experts(Model& model, const Origin& origin) {
  const auto check = [&](const Linear& l, const std::string& peft) {
    for (const Parameter* p : parameters_of(*l.weight))
      if (p->trainable && p->name != peft)
        throw UserError(origin.exit, str(origin.prefix, "modules_to_save: PEFT has no ", p->name,
                                         "; name experts and routers in target_parameters instead"));
  };
  EachMoe each([&](Moe& m) {
    check(m.gate, m.gate.name + ".weight");
    for (Expert& e : m.experts)
      for (const Linear* l : e.linears()) check(*l, "");
    if (m.stacks && (m.stacks->gate_up.matrices.trainable || m.stacks->gate_up.biases.trainable))
      throw UserError(origin.exit, str(origin.prefix, "modules_to_save: ft does not train copies of ", m.name,
                                       ".experts beside adapters; name its matrices in target_parameters"));
  });
  model.visit(each);
}

}  // namespace

bool saves(const std::string& entry, const std::string& parameter) {
  return any_module(in_peft(parameter), [&](std::string_view name) { return name.ends_with(entry); });
}

Attached attach(Model& model, const LoraConfig& config, DType dtype, const Origin& origin) {
  EachParameter freeze([](Parameter& p) { p.trainable = false; });
  model.visit(freeze);
  const std::vector<std::string> whole = part_head_from_embedding(
      model, config.modules_to_save.value_or(std::vector<std::string>{}), config, origin);
  const std::vector<TrainedTokens> tokens = tokens_to_train(model, config, origin);
  Attached out;
  out.head = origin.head;
  out.nested = origin.nested;
  Chooser chooser(config, origin);
  adapt_embedding(model, chooser, config, dtype, origin, whole, out);
  std::set<const Linear*> single, routers;  // linears of single experts; routers of layers with experts
  EachMoe experts([&](Moe& m) {
    const ExpertsRanks ranks = chooser.experts(m);
    for (ExpertPart& part : adapt_experts(m, ranks, dtype)) out.experts.push_back(std::move(part));
    for (Expert& e : m.experts)
      for (const Linear* l : e.linears()) single.insert(l);
    if (!m.gate_is_linear) routers.insert(&m.gate);
  });
  model.visit(experts);
  EachLinear choose([&](Linear& l) {
    if (single.contains(&l) && !origin.single_experts) return;
    const std::string weight = weight_of(l);
    const bool parameter = chooser.wants_parameter(l.name + ".weight");
    if (l.adapter || (!parameter && !chooser.wants(l, routers.contains(&l))) || keeps_whole(l.name, whole))
      return;
    // Transformers 4 used the files' names for routers.
    const bool older = routers.contains(&l) && !parameter;
    const std::string module = !older ? l.name : weight.substr(0, weight.rfind('.'));
    auto adapter =
        chooser.adapter(l, module, parameter ? l.name + ".weight" : l.name, l.wide ? DType::f32 : dtype);
    out.linears.push_back(module);
    out.weights.push_back(weight);
    out.single_experts |= single.contains(&l);
    out.adapters.push_back(adapter.get());
    out.turned.push_back(l.weight->inputs_first());
    out.inputs_first |= out.turned.back();
    if (l.bias && config.bias == LoraBias::lora_only) l.bias->trainable = true;
    l.adapter = std::move(adapter);
  });
  model.visit(choose);
  chooser.check(model, out.adapters.size() + out.experts.size() + (out.embedding ? 1 : 0));
  if (out.single_experts && (config.use_dora || config.lora_bias))
    throw UserError(origin.exit, str(origin.prefix, config.use_dora ? "use_dora" : "lora_bias",
                                     ": not on linears of single experts"));
  if (!whole.empty()) {
    mark_modules_to_save(model, whole, origin);
    refuse_whole_experts(model, origin);
    refuse_trained_hira(model, origin);
  }
  EachParameter collect([&](Parameter& p) {
    if (config.bias == LoraBias::all && p.name.ends_with(".bias")) p.trainable = true;
    if (p.trainable && !p.name.starts_with(kPeftPrefix)) out.whole.push_back(&p);
  });
  model.visit(collect);
  train_tokens(model, tokens, config, dtype, origin, out);
  activate(model, config, out, origin);
  out.warnings = without_effect(model, config, chooser.adapted(), origin);
  out.warnings.insert(out.warnings.end(), chooser.notes().begin(), chooser.notes().end());
  return out;
}

std::vector<ChosenLinear> choose_linears(Model& model, const LoraConfig& config, const Origin& origin) {
  const std::vector<std::string> whole = config.modules_to_save.value_or(std::vector<std::string>{});
  std::set<const Linear*> of_experts;
  EachMoe experts([&](Moe& m) {
    of_experts.insert(&m.gate);
    for (Expert& e : m.experts)
      for (const Linear* l : e.linears()) of_experts.insert(l);
  });
  model.visit(experts);
  Chooser chooser(config, origin);
  std::vector<ChosenLinear> chosen;
  EachLinear choose([&](Linear& l) {
    if (of_experts.contains(&l) || !chooser.wants(l) || keeps_whole(l.name, whole)) return;
    const auto form = chooser.form(in_peft(l.name));
    chosen.push_back({&l, weight_of(l), form.r, form.scale});
  });
  model.visit(choose);
  chooser.check(model, chosen.size());
  return chosen;
}

void attach_again(Model& model, Attached& attached, const LoraConfig& config, DType dtype,
                  const Origin& origin) {
  Chooser chooser(config, origin);
  const std::vector<std::string> linears = std::exchange(attached.linears, {}),
                                 weights = std::exchange(attached.weights, {});
  const std::vector<LinearAdapter*> adapters = std::exchange(attached.adapters, {});
  EachLinear each([&](Linear& l) {
    const auto found = std::find(adapters.begin(), adapters.end(), l.adapter.get());
    if (!l.adapter || found == adapters.end()) return;
    const auto i = static_cast<std::size_t>(found - adapters.begin());
    l.adapter.reset();
    if (!chooser.wants(l)) {
      if (l.bias && config.bias == LoraBias::lora_only)
        l.bias->trainable = false, std::erase(attached.whole, &*l.bias);
      return;
    }
    auto adapter = chooser.adapter(l, linears[i], l.name, l.wide ? DType::f32 : dtype);
    attached.linears.push_back(linears[i]);
    attached.weights.push_back(weights[i]);
    attached.adapters.push_back(adapter.get());
    l.adapter = std::move(adapter);
  });
  model.visit(each);
}

void train_all(Model& model) {
  EachParameter each([](Parameter& p) { p.trainable = !p.constant; });
  model.visit(each);
}

}  // namespace ft::lora
