// Model folders with 4-bit weights in the format of bitsandbytes and transformers. A weight W holds codes.
// Beside it are W.absmax, W.quant_map, with double quantization W.nested_absmax and W.nested_quant_map, and a
// JSON text in W.quant_state.bitsandbytes__nf4 (or __fp4).
#pragma once
#include "engine/formats/coded_folder.h"
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
class BitsAndBytesFolder final : public CodedFolder<StoredFourBit, FourBitData> {
 public:
  // Checks all parts of every 4-bit weight. Throws UserError (input) if one is wrong or of an unknown kind.
  explicit BitsAndBytesFolder(std::unique_ptr<ModelFolder> files);

  // Returns true if a folder holds such weights.
  static bool is_one(const ModelFolder&);

  bool has(const std::string& name) const override;
  WeightInfo info(const std::string& name) const override;
  FourBitData data(const std::string& weight) const override;

 private:
  StoredFourBit read_state(const std::string& weight, const std::string& state) const;
  void check_parts(const std::string& weight, const StoredFourBit&) const;
};

// Opens a folder of weights, in 4 bits, in FP8, or in neither.
std::unique_ptr<WeightSource> open_model_folder(const std::string& folder, const StoredNames& names = {});

}  // namespace ft
