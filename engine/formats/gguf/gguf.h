// GGUF version 3, the format of llama.cpp and its relatives: metadata by key, then tensors. Little endian.
//   "GGUF" u32 version, u64 tensors, u64 keys, the keys, the tensors' infos, padding, the data
// Dimensions are in the opposite order to ft's: the row length first. Tensors' data follow one another in the
// order of the infos; each begins at a multiple of 32 bytes. A large model may be split:
// x-00001-of-00003.gguf has the keys and the first tensors, the other files have the rest.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/files/file.h"
#include "engine/formats/gguf/ggml_blocks.h"

namespace ft {

using GgufValue = std::variant<std::uint32_t, std::int32_t, std::uint64_t, float, bool, std::string,
                               std::vector<std::string>, std::vector<float>, std::vector<std::int32_t>,
                               std::vector<std::uint8_t>>;
using GgufKeys = std::vector<std::pair<std::string, GgufValue>>;  // in the file's order

struct GgufTensor {
  std::string name;  // at most 63 bytes
  GgmlType type = GgmlType::f32;
  std::vector<std::int64_t> shape;  // in ft's order: the row length last
  std::int64_t elements() const;
  bool has_whole_blocks() const;  // rows are a multiple of its type's block, and ft knows the type
  std::int64_t bytes() const;     // for types that ft knows
  std::int64_t begin = 0;         // when reading: position of its data in its file
  std::size_t file = 0;           // when reading: index of its file in a split model
};

// Returns a tensor's values: f32, dense, valid until the next call.
using GgufProvider = std::function<Tensor(const GgufTensor&)>;

// Writes a file, which gets its name when it is complete. Throws UserError (numeric) if a tensor has NaN or
// Inf.
void write_gguf(const std::string& path, const GgufKeys&, const std::vector<GgufTensor>&,
                const GgufProvider&);

// A file open for reading, with the other files of a split model. Throws UserError (input) if a file is
// damaged, and names it; all sizes are checked.
class GgufFile {
 public:
  // For a split model, takes the first file and opens all of them.
  explicit GgufFile(const std::string& path);
  static bool is_one(const std::string& path);  // tested by its first bytes

  const std::string& path() const { return files_.front().path(); }
  const GgufKeys& keys() const { return keys_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  // Returns the value of a key, or null.
  const GgufValue* find(const std::string& key) const;
  // Returns all of a tensor's values as f32.
  std::vector<float> read(const GgufTensor&) const;
  // Reads elements [first, first + n) of a tensor.
  void read(const GgufTensor&, std::int64_t first, std::int64_t n, float* to) const;

 private:
  void open_others();

  std::vector<InputFile> files_;
  GgufKeys keys_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace ft
