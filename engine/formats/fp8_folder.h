// Model folders with linears in FP8, as compressed-tensors (float-quantized), DeepSeek and transformers write
// them. A weight W is F8_E4M3 (out, in). Its scales are W_scale, or W_scale_inv in DeepSeek's files, by which
// codes are multiplied in spite of the name:
//   one for each row        (out, 1) or (out)
//   one for the matrix      (1, 1), (1) or no dimensions
//   blocks of 128 x 128     (out / 128, in / 128), rounded up
// Scales of activations (input_scale) are not used: ft multiplies with activations in 16 or 32 bits.
#pragma once
#include "engine/formats/coded_folder.h"
#include "engine/formats/fp8.h"

namespace ft {

// A folder's description of a weight in FP8.
struct StoredFp8 {
  Fp8Scheme scheme;
  Shape shape;
  std::string scales;         // name of their tensor
  DType dtype = DType::bf16;  // of the dequantized matrix
};

// This WeightSource looks like the folder of the dense model: weights in FP8 have the type of their scales if
// that has 16 bits, else bf16, and their scales are not listed.
class Fp8Folder final : public CodedFolder<StoredFp8, Fp8Data> {
 public:
  // Checks shapes and types of all parts. Throws UserError (input).
  explicit Fp8Folder(std::unique_ptr<ModelFolder> files);

  // Returns true if a folder holds such weights.
  static bool is_one(const ModelFolder&);

  bool has(const std::string& name) const override;
  WeightInfo info(const std::string& name) const override;
  // Throws UserError (input) if a code or a scale is NaN or a scale is infinite.
  Fp8Data data(const std::string& weight) const override;

 private:
  StoredFp8 described(const std::string& weight) const;
  // Throws UserError (input) if a value is too large for the weight's type.
  void check_values(const std::string& weight, const Tensor& values, std::int64_t first) const override;
};

}  // namespace ft
