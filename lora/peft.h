// PEFT's adapter folder, reading and writing: adapter_config.json and adapter_model.safetensors.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/files/safetensors/safetensors.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "lora/attach.h"
#include "lora/peft_config.h"

namespace ft::lora {

// An adapter on disk.
class AdapterFolder {
 public:
  // Reads both files' headers. Throws UserError (`exit`) if the folder is not an adapter, not LoRA, or uses
  // features that ft does not have.
  explicit AdapterFolder(const std::string& folder, Exit exit = Exit::input, KindsRead = KindsRead::trained);

  const LoraConfig& config() const { return config_.lora; }
  const std::string& config_file() const { return config_file_; }
  const std::string& base_model() const { return config_.base_model; }  // from the file; may be empty
  const std::vector<std::string>& warnings() const { return config_.warnings; }
  const SafetensorsFile& weights() const { return *weights_; }

  // Returns true if it holds the parameter: an adapter's, or a base parameter that is fully trained or has an
  // adapter.
  bool has(const Parameter& p) const { return find(p) != nullptr; }
  void read(const Parameter& p, Tensor y, std::int64_t first) const;
  // Throws UserError (`exit`) unless the file holds all trained parameters in the model's shapes, and no
  // other tensors except weights with adapters and the matrices of embedding and head (`tables`). These
  // tensors replace the model's, as in PEFT.
  void expect(const Attached&, const std::vector<const Parameter*>& tables) const;
  // Returns the shape of a parameter's tensor; empty: the file has none.
  std::vector<std::int64_t> shape_of(const Parameter&) const;
  // Throws UserError (`exit`) unless the file holds exactly these parameters' tensors, in their shapes.
  void expect_only(const std::vector<const Parameter*>&) const;
  // Returns true if it holds matrices of single experts, as adapters of transformers 4 do.
  bool has_single_experts() const;
  // Returns the rows of its tables of the embedding or the head; 0: it has neither.
  std::int64_t rows_of(const std::string& embedding, const std::string& head) const;
  // From now on, a missing table of one of the two is found where PEFT keeps it for the other.
  void share_table(const std::string& embedding, const std::string& head);
  // Returns the file's tensor of a parameter, by its name in the model or with PEFT's prefix; null: none.
  const StoredTensor* find(const std::string& parameter) const;

 private:
  const StoredTensor* find(const Parameter&) const;
  void expect_shape(const StoredTensor&, const std::vector<std::int64_t>& shape) const;
  // Return the file's tensor of a parameter of an adapter. Throw UserError if it is missing or faulty.
  const StoredTensor& expect_own(const Parameter&, const Attached&) const;
  const StoredTensor& expect_fixed(const LinearAdapter&, const Parameter&, const Attached&) const;
  void expect_frozen(const StoredTensor&, const Attached&, const std::vector<const Parameter*>& tables) const;
  bool repeats_for_head(const StoredTensor&, const Attached&, const StoredTensor* table) const;

  Exit exit_;
  std::string config_file_;
  AdapterConfig config_;
  std::unique_ptr<SafetensorsFile> weights_;
  std::pair<std::string, std::string> shared_;  // embedding and head; set by share_table()
};

// Returns the name of a trained parameter in the file. Biases of adapted Linears belong to their base_layer.
std::string peft_name(const Parameter&, const Attached&);

// Returns the name of the head's weight in the file, which PEFT saves beside the head's adapter; "" if the
// head has no adapter.
std::string frozen_head_name(const Attached&);

// Creates the two files in an existing folder, the weights without their values, which SafetensorsFiller
// writes: of trained parameters and of the fixed ones of adapters. `frozen_head`: the type of
// frozen_head_name(); empty: there is no such tensor. `tables`: the embedding and head of a vocabulary that
// has grown, which PEFT saves completely.
void create_adapter(const std::string& folder, const LoraConfig&, const Attached&,
                    const std::string& base_model, std::optional<DType> frozen_head,
                    const std::vector<TensorSpec>& tables = {});

}  // namespace ft::lora
