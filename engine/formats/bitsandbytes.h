// Model folders with 4-bit weights as bitsandbytes and transformers write them. Next to a weight W of codes
// are W.absmax, W.quant_map, with double quantization W.nested_absmax and W.nested_quant_map, and a JSON text
// in W.quant_state.bitsandbytes__nf4 (or __fp4).
#pragma once
#include "engine/files/weights.h"
#include "engine/formats/four_bit.h"

namespace ft {

// What a folder says of a weight in 4 bits.
struct StoredFourBit {
  FourBitForm form;
  DType dtype = DType::f32;  // of the matrix that it was made from
  Shape shape;               // of that matrix
  float nested_offset = 0;
};

// As a source of weights it is the folder of the dense model: weights in 4 bits have the shapes and types of
// what they were made from, and what belongs to them is not listed.
class BitsAndBytesFolder final : public WeightSource {
 public:
  // Checks all that belongs to every weight in 4 bits; UserError when it does not fit or is of another kind.
  explicit BitsAndBytesFolder(std::unique_ptr<ModelFolder> files);

  // Whether a folder holds such weights.
  static bool is_one(const ModelFolder&);

  std::vector<std::string> names() const override;
  bool has(const std::string& name) const override;
  WeightInfo info(const std::string& name) const override;
  void read(const std::string& name, const Tensor& to, std::int64_t first = 0) const override;

  StoredBytes find_stored(const std::string& name, DType type, std::int64_t elements) const override {
    return files_->find_stored(name, type, elements);
  }

  // nullptr: not in 4 bits.
  const StoredFourBit* find(const std::string& weight) const;
  FourBitData data(const std::string& weight) const;

 private:
  StoredFourBit read_state(const std::string& weight, const std::string& state) const;
  void check_parts(const std::string& weight, const StoredFourBit&) const;

  std::unique_ptr<ModelFolder> files_;
  std::map<std::string, StoredFourBit> weights_;
  mutable std::string held_name_;  // the weight that was taken apart last
  mutable FourBitData held_;
};

// A folder's weights, in 4 bits or not.
std::unique_ptr<WeightSource> open_model_folder(const std::string& folder, const StoredNames& names = {});

}  // namespace ft
