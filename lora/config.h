// The settings under `lora` and `quantization`: PEFT's names and meanings, and bitsandbytes'.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/core/dtype_words.h"
#include "engine/core/rules.h"

namespace ft::lora {

// Which modules: a list of names, each the last part or parts of a module's name, or one text: a regular
// expression that matches the whole name, or "all-linear".
using Modules = std::variant<std::string, std::vector<std::string>>;

// Regular expression -> value, in the order written: the first that matches holds.
template <class T>
using Pattern = std::vector<std::pair<std::string, T>>;

// How an adapter begins. kaiming: A uniform, as PEFT's, and B zero; gaussian: A normal and B zero; random_b:
// both uniform.
enum class LoraInit : std::uint8_t { kaiming, random_b, gaussian };
constexpr auto words(LoraInit) {
  using enum LoraInit;
  return to_words<LoraInit>({{kaiming, "true"}, {random_b, "false"}, {gaussian, "gaussian"}});
}

enum class LoraBias : std::uint8_t { none, all, lora_only };
constexpr auto words(LoraBias) {
  using enum LoraBias;
  return to_words<LoraBias>({{none, "none"}, {all, "all"}, {lora_only, "lora_only"}});
}

struct LoraConfig {
  std::int64_t r = 8;
  double lora_alpha = 16;
  double lora_dropout = 0;
  Modules target_modules = "all-linear";  // unless the model's family has others
  std::optional<Modules> exclude_modules;
  std::optional<std::vector<std::string>> modules_to_save;
  std::optional<std::vector<std::int64_t>> layers_to_transform;
  bool use_rslora = false;
  bool use_dora = false;
  LoraInit init_lora_weights = LoraInit::kaiming;
  LoraBias bias = LoraBias::none;
  Pattern<std::int64_t> rank_pattern;
  Pattern<double> alpha_pattern;
  std::optional<std::string> adapter_name_or_path;
  std::string task_type = "CAUSAL_LM";  // of the model; PEFT's word, no setting
  // No setting either: beside adapter_name_or_path all-linear was asked for, so the adapter has to be that.
  bool expects_all_linear = false;

  void fields(auto& f) {
    f("r", r, "Rank: rows of A, columns of B.", at_least(1), aka({"rank", "lora_r", "lora_rank"}));
    f("lora_alpha", lora_alpha, "The update is scaled by lora_alpha / r.", above(0), aka({"alpha"}));
    f("lora_dropout", lora_dropout, "Dropout before A.", at_least(0), below(1), aka({"dropout"}));
    f("target_modules", target_modules,
      "Linears that get an adapter: last parts of their names, a regular expression for the whole name, or "
      "\"all-linear\" (all but the head). Left out, T5's are [\"q\", \"v\"], as in PEFT.",
      not_empty(), aka({"targets", "lora_target", "lora_target_modules"}));
    f("exclude_modules", exclude_modules, "Linears that get none; same forms.");
    f("modules_to_save", modules_to_save, "Modules that are trained whole and saved with the adapter.");
    f("layers_to_transform", layers_to_transform, "Indexes of the layers that get adapters; null: all.",
      at_least(0), or_one());
    f("use_rslora", use_rslora, "Scale by lora_alpha / sqrt(r) instead.");
    f("use_dora", use_dora, "Weight-decomposed LoRA.", only_default());
    f("init_lora_weights", init_lora_weights,
      "Start of A: true is PEFT's uniform, gaussian is normal with deviation 1 / r, false makes B random "
      "too.",
      later({"orthogonal", "olora", "pissa", "pissa_niter_N", "loftq"}));
    f("bias", bias, "Which biases are trained.");
    f("rank_pattern", rank_pattern, "Other ranks for some modules: {regular expression: rank}.", at_least(1));
    f("alpha_pattern", alpha_pattern, "Other alphas for some modules: {regular expression: alpha}.");
    f("adapter_name_or_path", adapter_name_or_path,
      "Start from this PEFT adapter: its weights and its configuration, with which the settings that are "
      "given here have to agree.",
      is_path(), aka({"adapter"}));
  }
};

struct QuantizationConfig {
  bool load_in_4bit = false;
  FourBitBook bnb_4bit_quant_type = FourBitBook::nf4;
  bool bnb_4bit_use_double_quant = true;
  DType bnb_4bit_compute_dtype = DType::bf16;
  std::int64_t blocksize = 64;
  std::vector<std::string> skip_modules{"lm_head"};

  void fields(auto& f) {
    f("load_in_4bit", load_in_4bit, "Keep the frozen linears in 4 bits (QLoRA).");
    f("bnb_4bit_quant_type", bnb_4bit_quant_type, "Code book, with load_in_4bit.");
    f("bnb_4bit_use_double_quant", bnb_4bit_use_double_quant,
      "Quantize the scales too, with load_in_4bit: 8 bits, blocks of 256.");
    f("bnb_4bit_compute_dtype", bnb_4bit_compute_dtype,
      "Type of the products, with load_in_4bit; left out: that of training.",
      one_of({DType::f32, DType::bf16, DType::f16}));
    f("blocksize", blocksize, "Values to one scale, with load_in_4bit: a power of two.", at_least(32),
      at_most(4096));
    f("skip_modules", skip_modules,
      "Linears kept in full precision, with load_in_4bit: names, or parts of them.");
  }
};

}  // namespace ft::lora
