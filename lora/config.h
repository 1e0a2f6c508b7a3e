// The settings under `lora` and `quantization`: names and meanings of PEFT and of bitsandbytes.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/core/chosen.h"
#include "engine/core/dtype_words.h"
#include "engine/core/error.h"
#include "engine/core/rules.h"
#include "engine/quant/book_words.h"
#include "lora/kind.h"

namespace ft::lora {

// A choice of modules: a list of names, each the last part or parts of a module's name; or a text: a regular
// expression that matches the complete name, or "all-linear".
using Modules = std::variant<std::string, std::vector<std::string>>;

// Regular expressions and their values, in the order written: the first match wins.
template <class T>
using Pattern = std::vector<std::pair<std::string, T>>;

// The initial values of an adapter: see lora/starts/starts.h.
enum class LoraInit : std::uint8_t {
  kaiming,
  random_b,
  gaussian,
  orthogonal,
  pissa,
  olora,
  loftq,
  eva,
  lora_ga
};
constexpr auto words(LoraInit) {
  using enum LoraInit;
  return to_words<LoraInit>({{kaiming, "true"},
                             {random_b, "false"},
                             {gaussian, "gaussian"},
                             {orthogonal, "orthogonal"},
                             {pissa, "pissa"},
                             {olora, "olora"},
                             {loftq, "loftq"},
                             {eva, "eva"},
                             {lora_ga, "lora_ga"}});
}
// A LoraInit or "pissa_niter_N".
using LoraInitWord = std::variant<LoraInit, std::string>;
struct LoraStart {
  LoraInit init = LoraInit::kaiming;
  std::int64_t iterations = 0;  // pissa: passes that improve a random subspace; 0: exact
  // Returns whether the adapter's initial values are subtracted from the base's weights.
  bool changes_base() const {
    return init == LoraInit::pissa || init == LoraInit::olora || init == LoraInit::lora_ga;
  }
};
// Empty: there is no such word.
std::optional<LoraStart> start_of(const LoraInitWord&);

enum class LoraBias : std::uint8_t { none, all, lora_only };
constexpr auto words(LoraBias) {
  using enum LoraBias;
  return to_words<LoraBias>({{none, "none"}, {all, "all"}, {lora_only, "lora_only"}});
}

// PEFT's EvaConfig.
struct EvaConfig {
  double rho = 2;
  double tau = 0.99;
  bool use_label_mask = true;
  std::int64_t label_mask_value = -100;
  bool whiten = false;
  bool adjust_scaling_factors = true;
  bool operator==(const EvaConfig&) const = default;

  void fields(auto& f) {
    f("rho", rho, "Largest rank of a linear, as a multiple of its configured rank; 1: all keep that rank.",
      at_least(1), at_most(1000));
    f("tau", tau, "Components are final when their cosine with those of the previous batch is at least this.",
      above(0), below(1));
    f("use_label_mask", use_label_mask, "Use only tokens whose label is not label_mask_value.");
    f("label_mask_value", label_mask_value, "With use_label_mask: label of the tokens to skip.");
    f("whiten", whiten, "Divide components by the roots of their singular values.");
    f("adjust_scaling_factors", adjust_scaling_factors,
      "Change alpha in proportion to the rank, so that alpha / rank stays the same.");
  }
};

// The singular vectors of a gradient that A and B take, and their scale, with PEFT's names: see
// lora/starts/lora_ga.h.
enum class LoraGaDirection : std::uint8_t { alternating, b_first, a_first, random };
constexpr auto words(LoraGaDirection) {
  using enum LoraGaDirection;
  return to_words<LoraGaDirection>(
      {{alternating, "ArBr"}, {b_first, "A2rBr"}, {a_first, "ArB2r"}, {random, "random"}});
}
enum class LoraGaScale : std::uint8_t { stable, weight_svd, gd_scale, unit };
constexpr auto words(LoraGaScale) {
  using enum LoraGaScale;
  return to_words<LoraGaScale>(
      {{stable, "stable"}, {weight_svd, "weight_svd"}, {gd_scale, "gd_scale"}, {unit, "unit"}});
}

// PEFT's LoraGAConfig, and the number of batches, which PEFT leaves to the caller.
struct LoraGaConfig {
  LoraGaDirection direction = LoraGaDirection::a_first;
  LoraGaScale scale = LoraGaScale::stable;
  std::int64_t stable_gamma = 16;
  std::int64_t batches = 8;
  bool operator==(const LoraGaConfig&) const = default;

  void fields(auto& f) {
    f("direction", direction,
      "Singular vectors that A and B take, of 2 r: ArBr: every second one each; A2rBr: A the last r, B the "
      "first; ArB2r: A the first r, B the last; random: both the same random r.");
    f("scale", scale,
      "Factor of B. stable: outputs^(1/4) / stable_gamma^(1/2); weight_svd: B's first singular value becomes "
      "the weight's; gd_scale: A and B by 1 / (lora_alpha / r); unit: none.");
    f("stable_gamma", stable_gamma, "With scale=stable: the larger, the smaller B.", at_least(1));
    f("batches", batches, "Micro-batches whose gradients are averaged, from the first epoch's first on.",
      at_least(1), at_most(100000));
  }
};

struct LoraConfig {
  Chosen<AdapterKind> peft_type = &kinds::kLora;
  std::int64_t r = 8;  // unless the kind has another default
  double lora_alpha = 16;
  double lora_dropout = 0;
  Modules target_modules = "all-linear";  // unless the model's family has another default
  std::optional<std::vector<std::string>> target_parameters;
  std::optional<Modules> exclude_modules;
  std::optional<std::vector<std::string>> modules_to_save;
  std::optional<std::vector<std::int64_t>> layers_to_transform;
  std::optional<Modules> layers_pattern;
  JsonText trainable_token_indices;
  bool ensure_weight_tying = false;
  bool use_rslora = false;
  bool use_dora = false;
  bool lora_bias = false;
  std::optional<std::vector<std::int64_t>> alora_invocation_tokens;
  LoraInitWord init_lora_weights = LoraInit::kaiming;
  EvaConfig eva_config;
  LoraGaConfig lora_ga_config;
  LoraBias bias = LoraBias::none;
  Pattern<std::int64_t> rank_pattern;
  Pattern<double> alpha_pattern;
  std::optional<std::int64_t> random_seed;
  std::int64_t oft_block_size = 32;
  bool block_share = false;
  std::int64_t num_cayley_neumann_terms = 5;
  std::optional<std::string> adapter_name_or_path;
  std::string task_type = "CAUSAL_LM";  // of the model; PEFT's word, not a setting
  // Not a setting: all-linear was requested beside adapter_name_or_path, so the adapter must be all-linear.
  bool expects_all_linear = false;

  void fields(auto& f) {
    f("peft_type", peft_type,
      "Kind of adapter: LoRA, MiSS, HiRA, SHiRA or OFT (docs/adapters.md says when to use which). The "
      "settings below are those of PEFT's configuration of the kind, where lora_dropout is miss_dropout or "
      "hira_dropout, and init_lora_weights is init_weights.");
    f("r", r,
      "Rank of the adapters: rows of A, columns of B; of MiSS the columns that share a change; SHiRA trains "
      "r "
      "(inputs + outputs) elements. Left out, MiSS's is 64, HiRA's and SHiRA's 32, as in PEFT.",
      at_least(1), aka({"rank", "lora_r", "lora_rank"}));
    f("lora_alpha", lora_alpha, "The adapter's output is scaled by lora_alpha / r.", above(0),
      aka({"alpha"}));
    f("lora_dropout", lora_dropout, "Dropout on the adapter's input.", at_least(0), below(1),
      aka({"dropout"}));
    f("target_modules", target_modules,
      "Linears that get an adapter: last parts of their names, a regular expression for the whole name, or "
      "\"all-linear\" (all but the head). Left out, T5's are [\"q\", \"v\"], as in PEFT.",
      not_empty(), aka({"targets", "lora_target", "lora_target_modules"}));
    f("target_parameters", target_parameters,
      "Parameters that get an adapter, by the last parts of their names: mlp.experts.gate_up_proj and "
      "mlp.experts.down_proj of all experts of a layer, or weights of linears, such as gate.weight.");
    f("exclude_modules", exclude_modules, "Linears that get no adapter, in the forms of target_modules.");
    f("modules_to_save", modules_to_save, "Modules that are fully trained and saved with the adapter.");
    f("layers_to_transform", layers_to_transform, "Indexes of the layers that get adapters; null: all.",
      at_least(0), or_one());
    f("layers_pattern", layers_pattern,
      "With layers_to_transform: names of the lists of layers that are counted, such as \"layers\" or T5's "
      "\"block\" and \"layer\"; null: the first number in a name counts.",
      not_empty());
    f("trainable_token_indices", trainable_token_indices,
      "Tokens whose rows alone are trained: [ids] for the embedding and a head that shares its table, or "
      "{\"embed_tokens\": [ids], \"lm_head\": [ids]} with separate rows for each.");
    f("ensure_weight_tying", ensure_weight_tying,
      "If the head shares the embedding's table: keep one table when modules_to_save or target_modules name "
      "either; false: train two separate tables.");
    f("use_rslora", use_rslora, "Scale by lora_alpha / sqrt(r) instead (rank-stabilized LoRA).");
    f("use_dora", use_dora, "Weight-decomposed LoRA: a magnitude for each output is trained too.");
    f("lora_bias", lora_bias,
      "Also train a bias of B, which is added to the outputs, scaled as B's: only with init_lora_weights "
      "true "
      "and false. An adapter of a linear without a bias cannot be merged.");
    f("alora_invocation_tokens", alora_invocation_tokens,
      "Activated LoRA: the adapter acts in each sequence from the last place of these tokens on, and the "
      "base "
      "alone computes what is before; where they are missing, it does not act. For decoders and "
      "objective.type "
      "sft.",
      at_least(0), not_empty());
    f("init_lora_weights", init_lora_weights,
      "Initial values of A and B. true: A uniform and B zero, as in PEFT; gaussian: A normal with deviation "
      "1 / r; false: B random too; orthogonal: both random, their product zero; pissa: the base's principal "
      "part, which is subtracted from the base; pissa_niter_N: the same, approximate and faster; olora: from "
      "the base's QR decomposition; loftq: the base's error in 4 bits; eva: A from the principal components "
      "of each linear's inputs, with ranks by the variance that they explain; lora_ga: from the gradients of "
      "the weights on the data, subtracted from the base.",
      not_empty());
    f("eva_config", eva_config, "With init_lora_weights=eva: PEFT's EvaConfig.");
    f("lora_ga_config", lora_ga_config, "With init_lora_weights=lora_ga: PEFT's LoraGAConfig.");
    f("bias", bias, "Biases to train.");
    f("rank_pattern", rank_pattern, "Ranks for particular modules: {regular expression: rank}.", at_least(1));
    f("alpha_pattern", alpha_pattern, "Alphas for particular modules: {regular expression: alpha}.");
    f("random_seed", random_seed,
      "Seed of SHiRA's random places, which are PEFT's with the same seed; null: the seed that torch takes.",
      at_least(0));
    f("oft_block_size", oft_block_size,
      "OFT: number of inputs that are rotated together. Where it does not divide a linear's inputs, the "
      "nearest "
      "number that does.",
      at_least(2));
    f("block_share", block_share, "OFT: all blocks of a linear's inputs are rotated alike.");
    f("num_cayley_neumann_terms", num_cayley_neumann_terms,
      "OFT: terms of the series that stands for a rotation; with more it is nearer to one.", at_least(2),
      at_most(100));
    f("adapter_name_or_path", adapter_name_or_path,
      "Start from this PEFT adapter: its weights and its configuration. Settings given here must "
      "agree with it.",
      is_path(), aka({"adapter"}));
  }
};

// The rows of one table in trainable_token_indices: the module (empty: the input embedding) and its rows.
struct TrainedTokens {
  std::string module;
  std::vector<std::int64_t> ids;
};
// Returns an entry for each table. Throws UserError (`exit`) if the text holds anything but ids, and names
// `setting`.
std::vector<TrainedTokens> trained_tokens(const JsonText&, const std::string& setting, Exit exit);

struct QuantizationConfig {
  bool load_in_4bit = false;
  bool load_in_8bit = false;
  FourBitBook bnb_4bit_quant_type = FourBitBook::nf4;
  bool bnb_4bit_use_double_quant = true;
  DType bnb_4bit_compute_dtype = DType::bf16;
  std::int64_t blocksize = 64;
  std::vector<std::string> skip_modules{"lm_head"};

  void fields(auto& f) {
    f("load_in_4bit", load_in_4bit, "Keep the frozen linears in 4 bits (QLoRA).");
    f("load_in_8bit", load_in_8bit, "Frozen weights in bitsandbytes' 8 bits.",
      always("ft keeps frozen weights in 4 bits (load_in_4bit=true) or in their type"));
    f("bnb_4bit_quant_type", bnb_4bit_quant_type, "With load_in_4bit: type of the codes.");
    f("bnb_4bit_use_double_quant", bnb_4bit_use_double_quant,
      "With load_in_4bit: quantize the scales too, to 8 bits in blocks of 256.");
    f("bnb_4bit_compute_dtype", bnb_4bit_compute_dtype,
      "With load_in_4bit: type of the products; default: the type of training (training.bf16, fp16).",
      one_of({DType::f32, DType::bf16, DType::f16}));
    f("blocksize", blocksize, "With load_in_4bit: values per scale, a power of two.", at_least(32),
      at_most(4096));
    f("skip_modules", skip_modules,
      "With load_in_4bit: linears kept in full precision, by their names or parts of them.");
  }
};

}  // namespace ft::lora
