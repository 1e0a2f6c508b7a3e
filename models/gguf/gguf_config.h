// Converts a GGUF file back to Hugging Face's files: config.json from its keys and tensors, and its weights
// under their Hugging Face names.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/files/safetensors/weights.h"
#include "engine/formats/gguf/gguf.h"
#include "models/gguf/gguf.h"

namespace ft {

struct MadeModel;
struct Parameter;

// Returns config.json as text. Throws UserError (input) if ft does not read the architecture, or a key is
// missing or wrong.
std::string config_of_gguf(const GgufFile&);

// Returns the type of most of the file's bytes if it is f32 or f16, else bf16 (quantized matrices too).
DType gguf_base_type(const GgufFile&);

// Reads and dequantizes the weights of a GGUF file: on all cores, but on one core those that GGUF splits.
// Names, shapes, order of rows and norms are Hugging Face's.
class GgufWeights final : public WeightSource {
 public:
  // `config_json`: the file that holds config_of_gguf()'s text.
  GgufWeights(const std::string& path, const std::string& config_json);

  std::vector<std::string> names() const override;
  bool has(const std::string& name) const override { return entries_.contains(name); }
  WeightInfo info(const std::string& name) const override;
  void read(const std::string& name, const Tensor& to, std::int64_t first) const override;
  StoredBytes find_stored(const std::string&, DType, std::int64_t) const override { return {}; }

  bool is_quantized() const { return !whole_; }
  // Returns the types of the file's tensors, by descending bytes: "Q4_K, Q6_K and F32".
  std::string types() const;

 private:
  struct Entry {
    const GgufTensor* tensor;
    std::vector<std::int64_t> shape;             // shape of the weight
    std::int64_t first = 0;                      // the tensor's element where the weight begins
    const GgufModel::Permuted* order = nullptr;  // null: the rows have the same order
    bool turned = false;                         // the tensor is the transpose
    std::string name;                            // the weight's Hugging Face name
    struct Piece {
      const GgufTensor* tensor;
      const GgufPart* part;
    };
    std::vector<Piece> pieces;  // of a weight that GGUF splits; `tensor` is the first
  };
  Entry entry_of(const Parameter&, const GgufTensor&) const;
  // Returns the entry of a weight that GGUF splits.
  Entry entry_of(const Parameter&, const std::vector<Entry::Piece>&) const;
  const Entry& at(const std::string& name) const;
  static std::int64_t columns_of(const Entry&);  // elements of a row
  std::set<const GgufTensor*> used() const;      // tensors of the entries
  void read_turned(const Entry&, const Tensor& to, std::int64_t first) const;
  void read_pieces(const Entry&, const Tensor& to, std::int64_t first) const;
  // Reads n values of a weight from element `first` on, all in one row.
  void read_row(const Entry&, std::int64_t first, std::int64_t n, std::vector<float>& values) const;
  // Converts n values of the tensor, from number `from` on, and stores them at element i of `to`.
  void put(const Entry&, std::int64_t from, float* values, std::int64_t n, const Tensor& to,
           std::int64_t i) const;

  GgufFile file_;
  GgufModel names_;
  StoredType type_ = StoredType::bf16;  // type that info() gives for the weights
  bool whole_ = true;                   // no tensor is quantized
  std::map<std::string, Entry> entries_;
  struct Held {  // the matrix of a split weight that was read last
    std::string name;
    std::int64_t matrix = -1;
    std::vector<float> values;
  };
  mutable Held held_;
};

}  // namespace ft
