// Model folders with 4-bit weights in the format of bitsandbytes and transformers. A weight W holds codes.
// Beside it are W.absmax, W.quant_map, with double quantization W.nested_absmax and W.nested_quant_map, and a
// JSON text in W.quant_state.bitsandbytes__nf4 (or __fp4).
#pragma once
#include "engine/files/safetensors/weights.h"
#include "engine/formats/four_bit.h"

namespace ft {

// A folder's description of a 4-bit weight.
struct StoredFourBit {
  FourBitForm form;
  DType dtype = DType::f32;  // of the original matrix
  Shape shape;               // of the original matrix
  float nested_offset = 0;
};

// This WeightSource looks like the folder of the dense model: 4-bit weights have the shapes and types of the
// original matrices, and their additional tensors are not listed.
class BitsAndBytesFolder final : public WeightSource {
 public:
  // Checks all parts of every 4-bit weight. Throws UserError (input) if one is wrong or of an unknown kind.
  explicit BitsAndBytesFolder(std::unique_ptr<ModelFolder> files);

  // Returns true if a folder holds such weights.
  static bool is_one(const ModelFolder&);

  std::vector<std::string> names() const override;
  bool has(const std::string& name) const override;
  WeightInfo info(const std::string& name) const override;
  void read(const std::string& name, const Tensor& to, std::int64_t first = 0) const override;

  StoredBytes find_stored(const std::string& name, DType type, std::int64_t elements) const override {
    return files_->find_stored(name, type, elements);
  }

  // nullptr: the weight is not in 4 bits.
  const StoredFourBit* find(const std::string& weight) const;
  FourBitData data(const std::string& weight) const;

 private:
  StoredFourBit read_state(const std::string& weight, const std::string& state) const;
  void check_parts(const std::string& weight, const StoredFourBit&) const;

  std::unique_ptr<ModelFolder> files_;
  std::map<std::string, StoredFourBit> weights_;
  mutable std::string held_name_;  // the weight that was read last
  mutable FourBitData held_;
};

// Opens a folder of weights, in 4 bits, in FP8, or in neither.
std::unique_ptr<WeightSource> open_model_folder(const std::string& folder, const StoredNames& names = {});

}  // namespace ft
