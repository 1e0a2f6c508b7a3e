// PEFT's adapter folder: adapter_config.json and adapter_model.safetensors, both ways.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/files/safetensors.h"
#include "engine/files/safetensors_write.h"
#include "lora/attach.h"
#include "lora/peft_config.h"

namespace ft::lora {

// An adapter on disk.
class AdapterFolder {
 public:
  // Reads both files' headers. Errors carry `exit`: the folder is not an adapter, not LoRA, or uses what ft
  // does not have.
  explicit AdapterFolder(const std::string& folder, Exit exit = Exit::input);

  const LoraConfig& config() const { return config_.lora; }
  const std::string& config_file() const { return config_file_; }
  const std::string& base_model() const { return config_.base_model; }  // as written in it; may be empty
  const std::vector<std::string>& warnings() const { return config_.warnings; }

  // Whether it holds the parameter: an adapter's, or one of the base that is fully trained or lies below an
  // adapter.
  bool has(const Parameter& p) const { return find(p) != nullptr; }
  void read(const Parameter& p, Tensor y, std::int64_t first) const;
  // UserError unless it holds all that is trained in the shapes of the model, and nothing else but weights
  // below adapters, and of the embedding and the head (`tables`): these count in place of the model's, as in
  // PEFT.
  void expect(const Attached&, const std::vector<const Parameter*>& tables) const;
  // Whether it holds matrices of single experts, as those of transformers 4 do.
  bool has_single_experts() const;
  // Rows of the tables of the embedding or the head that it holds; 0: it has neither.
  std::int64_t rows_of(const std::string& embedding, const std::string& head) const;
  // From here on a table that is missing is found where PEFT keeps it for the other end.
  void share_table(const std::string& embedding, const std::string& head);

 private:
  const StoredTensor* find(const Parameter&) const;
  const StoredTensor* find(const std::string& parameter) const;
  void expect_shape(const StoredTensor&, const std::vector<std::int64_t>& shape) const;
  void expect_frozen(const StoredTensor&, const Attached&, const std::vector<const Parameter*>& tables) const;
  bool repeats_for_head(const StoredTensor&, const Attached&, const StoredTensor* table) const;

  Exit exit_;
  std::string config_file_;
  AdapterConfig config_;
  std::unique_ptr<SafetensorsFile> weights_;
  std::pair<std::string, std::string> shared_;  // embedding and head; empty: see share_table()
};

// The name of a trained parameter in the file. Biases of adapted Linears are their base_layer's.
std::string peft_name(const Parameter&, const Attached&);

// The head's own weight in the file, which PEFT saves beside its adapter; "" where the head has none.
std::string frozen_head_name(const Attached&);

// Makes the folder's two files, the weights without their values: SafetensorsFiller fills them in. The folder
// exists. `frozen_head` is the type of frozen_head_name(); without it there is no such tensor. `tables`: the
// embedding and head of a vocabulary that has grown, which PEFT saves whole.
void create_adapter(const std::string& folder, const LoraConfig&, const Attached&,
                    const std::string& base_model, std::optional<DType> frozen_head,
                    const std::vector<TensorSpec>& tables = {});

}  // namespace ft::lora
