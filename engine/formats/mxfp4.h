// Model folders with stacks of experts in MXFP4 (OCP microscaling formats), as in gpt-oss' files. Instead of
// NAME (E, in, out) they hold NAME_blocks (E, out, in / 32, 16) and NAME_scales (E, out, in / 32), both u8:
// the transposes, in blocks of 32 inputs. A byte has two codes, the even element's in its low half.
#pragma once
#include "engine/files/safetensors/weights.h"

namespace ft {

// This WeightSource looks like the folder of the dense model: NAME has type bf16, which holds its values
// exactly. The names of codes can be read too, in the order of engine/quant/four_bit.h, but are not listed.
class Mxfp4Folder final : public WeightSource {
 public:
  // Checks the shapes and types of all parts. Throws UserError (input).
  explicit Mxfp4Folder(std::unique_ptr<ModelFolder> files);

  // Returns true if a folder holds such stacks.
  static bool is_one(const ModelFolder&);

  std::vector<std::string> names() const override;
  bool has(const std::string& name) const override;
  WeightInfo info(const std::string& name) const override;
  // Throws UserError (input) if a scale is NaN or makes a value of its block Inf, or if a value exceeds the
  // range of the type of `to`. transformers reads these as Inf and NaN.
  void read(const std::string& name, const Tensor& to, std::int64_t first = 0) const override;
  // Finds weights outside stacks only.
  StoredBytes find_stored(const std::string& name, DType type, std::int64_t elements) const override;

 private:
  struct Stack {
    std::int64_t experts, in, out;
  };
  // Returns the stack whose codes or scales a tensor holds; null: none.
  const Stack* stack_of_part(const std::string& name) const;
  // Throws UserError (input) if the scale with this number is NaN, or makes a value of its block Inf.
  void check_scale(const std::string& name, std::int64_t at, std::uint8_t scale) const;
  void read_stack(const std::string& name, const Stack&, const Tensor& to, std::int64_t first) const;
  std::vector<std::uint8_t> bytes_of(const std::string& part, std::int64_t first, std::int64_t count) const;

  std::unique_ptr<ModelFolder> files_;
  std::map<std::string, Stack> stacks_;
  struct Held {  // the codes of the expert that was read last
    std::string name;
    std::int64_t expert = -1;
    std::vector<std::uint8_t> codes, scales;
  };
  mutable Held held_;
};

}  // namespace ft
