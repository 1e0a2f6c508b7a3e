// The description of a kind of adapter, which stands in the kind's own file.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/core/dtype.h"

namespace ft::lora {

struct LoraConfig;
class LinearAdapter;
struct Folding;
enum class LoraInit : std::uint8_t;

// The adapted Linear y = x W^T, with W (out, in), and the settings of its adapter.
struct AdapterForm {
  std::string module;  // PEFT's name of the Linear: base_model.model.model.layers.0.self_attn.q_proj
  std::int64_t in, out, rank;
  float scale, dropout;
  DType dtype;
};

// A key of a kind's adapter_config.json.
struct PeftKey {
  const char* name;
  // The setting under `lora` that it holds; null: the key always has `value`, as JSON.
  const char* of = nullptr;
  const char* value = nullptr;
  bool only = false;  // other values mean another adapter, and are refused
};

struct AdapterKind {
  const char* name;       // in lora.peft_type, and in its parameters' names: ....miss_block
  const char* peft_type;  // in adapter_config.json
  const char* title;      // in messages: MiSS
  std::int64_t rank;      // default of r
  // The keys of its adapter_config.json, beside those of every kind; of LoRA's those that hold settings. A
  // setting that no key holds is not the kind's.
  std::span<const PeftKey> keys;
  std::span<const LoraInit> starts;     // choices of init_lora_weights
  const char* lora_only = "lora_only";  // PEFT's word for bias: lora_only
  // Returns the largest r for a Linear; null: there is no bound.
  std::int64_t (*most_rank)(std::int64_t in, std::int64_t out) = nullptr;
  // Return the fault of the settings for a Linear with these inputs, and a note about them that a user should
  // read; "": there is none. null: there never is one.
  std::string (*fault_of)(const LoraConfig&, std::int64_t in) = nullptr;
  std::string (*note_of)(const LoraConfig&, std::int64_t in) = nullptr;
  // A warning about files without PEFT's version, which it writes since 0.18; null: none.
  const char* before_versions = nullptr;
  bool inputs_first = true;  // also for weights that are stored (in, out), as GPT-2's
  // True if it only adds to the Linear's output, row by row, so that requests may choose among adapters.
  bool by_request = true;
  std::unique_ptr<LinearAdapter> (*make)(const LoraConfig&, const AdapterForm&) = nullptr;
  // The change of weights by a kind that is only read (folded/folding.h); null: the kind is trained.
  const Folding* folding = nullptr;

  // Returns the name of the key that holds a setting under `lora`; null: the kind has no such setting.
  const char* key_of(const char* setting) const;

  static std::span<const AdapterKind* const> all();        // that are trained
  static std::span<const AdapterKind* const> read_only();  // that are folded into weights
};

namespace kinds {
extern const AdapterKind kLora;  // the default
}

}  // namespace ft::lora
