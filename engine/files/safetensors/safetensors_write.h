// Writes safetensors as the reference implementation does, one tensor at a time: a merged model is never in
// memory completely. Files get their names only when they are complete and on the disk.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/files/safetensors/safetensors.h"

namespace ft {

struct TensorSpec {  // a tensor to be written
  std::string name;
  DType dtype = DType::f32;  // in the file
  Shape shape;
  bool e4m3 = false;  // u8 that are bits of F8_E4M3
  StoredType stored() const { return e4m3 ? StoredType::f8_e4m3 : stored_type(dtype); }
};

// Returns a tensor's values: host memory, as many elements as the spec's shape, rows may be strided. f32,
// bf16 and f16 are converted to the spec's type. The memory must stay valid until the next call.
using TensorProvider = std::function<Tensor(const TensorSpec&)>;

inline const Metadata kTorchMetadata = {{"format", "pt"}};  // Hugging Face's loaders require it

// Writes a file, requesting the tensors in the file's order: larger types first, then by name. Throws
// UserError (numeric) if a tensor has NaN or Inf, unless allowed, and names it. After any exception no file
// is left. With an empty provider the file holds zeros that occupy their disk space, for SafetensorsFiller.
void write_safetensors(const std::string& path, std::vector<TensorSpec> tensors,
                       const TensorProvider& provider, const Metadata& metadata = kTorchMetadata,
                       Nonfinite nonfinite = Nonfinite::refuse);

constexpr std::int64_t kMaxShardBytes = 5'000'000'000;  // Hugging Face's "5GB"

struct WrittenFiles {
  std::vector<std::string> names;  // in the folder; the index is last
  std::int64_t bytes = 0;          // of tensor data
};

// Writes STEM.safetensors, or STEM-00001-of-0000N.safetensors and their index if one file would hold more
// than max_shard_bytes of data. A tensor larger than that gets a file alone. A model's stem is "model".
WrittenFiles write_shards(const std::string& folder, const std::string& stem,
                          const std::vector<TensorSpec>& tensors, const TensorProvider& provider,
                          std::int64_t max_shard_bytes = kMaxShardBytes,
                          Nonfinite nonfinite = Nonfinite::refuse);

// Writes files like write_shards(), with the given tensors in each.
WrittenFiles write_files(const std::string& folder, const std::string& stem,
                         const std::vector<std::vector<TensorSpec>>& files, const TensorProvider& provider,
                         Nonfinite nonfinite = Nonfinite::refuse);

// Parses "5GB", "500MB", "1.5GiB" or plain bytes, the forms of max_shard_size. `what` names the setting in
// errors.
std::int64_t parse_byte_size(const std::string& text, const std::string& what);

}  // namespace ft
