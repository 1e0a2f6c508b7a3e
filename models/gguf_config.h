// From a GGUF file back to Hugging Face's files: the config.json that its keys and tensors mean, and its
// weights under their Hugging Face names.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/files/weights.h"
#include "engine/formats/gguf.h"
#include "models/gguf.h"

namespace ft {

struct MadeModel;
struct Parameter;

// config.json as text. UserError(Exit::input) for an architecture that ft does not read, or a key that is
// missing or wrong.
std::string config_of_gguf(const GgufFile&);

// What the weights of a file are taken for: its matrices' own type, bf16 where they are quantized.
DType gguf_base_type(const GgufFile&);

// Dequantizes the weights of a GGUF file as they are read, by all cores. Names, shapes, order of rows and
// norms are Hugging Face's.
class GgufWeights final : public WeightSource {
 public:
  // `config_json`: the file with config_of_gguf's text.
  GgufWeights(const std::string& path, const std::string& config_json);

  std::vector<std::string> names() const override;
  bool has(const std::string& name) const override { return entries_.contains(name); }
  WeightInfo info(const std::string& name) const override;
  void read(const std::string& name, const Tensor& to, std::int64_t first) const override;
  StoredBytes find_stored(const std::string&, DType, std::int64_t) const override { return {}; }

  bool is_quantized() const { return !whole_; }
  // "Q4_K, Q6_K and F32": the types of its tensors, those with most bytes first.
  std::string types() const;

 private:
  struct Entry {
    const GgufTensor* tensor;
    std::vector<std::int64_t> shape;             // of the weight
    std::int64_t first = 0;                      // element of the tensor where it begins
    const GgufModel::Permuted* order = nullptr;  // null: its rows have the same order
    bool turned = false;                         // the tensor is the transpose
    float offset = 0;                            // that the tensor's values have more
  };
  Entry entry_of(const Parameter&, const GgufTensor&, const MadeModel&) const;
  const Entry& at(const std::string& name) const;
  void read_turned(const Entry&, const Tensor& to, std::int64_t first) const;
  // Puts n values of the tensor, from number `from` on, at element i of `to`.
  void put(const Entry&, std::int64_t from, float* values, std::int64_t n, const Tensor& to,
           std::int64_t i) const;

  GgufFile file_;
  GgufModel names_;
  StoredType type_ = StoredType::bf16;  // what the weights are taken for
  bool whole_ = true;                   // nothing in it is quantized
  std::map<std::string, Entry> entries_;
};

}  // namespace ft
