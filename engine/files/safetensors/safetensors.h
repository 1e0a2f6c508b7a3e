// safetensors files: eight bytes of header length, a JSON header, raw little-endian data. Opening makes every
// check of the reference implementation before anything is allocated or read. Reads by name and range go
// straight to their destination. Files are not mapped, so that a file truncated meanwhile causes an error and
// not a signal.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/files/file.h"

namespace ft {

// The format's types in the format's order, which is also the order of data (largest first) that writers use.
enum class StoredType : std::uint8_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,  // the types up to here have at most 8 bits
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64
};
const char* name_of(StoredType type);   // as in the file: "BF16"
std::int64_t bits_of(StoredType type);  // of one element
StoredType stored_type(DType type);
std::optional<DType> dtype_of(StoredType t);  // empty for types that ft has no tensors of
// The type of a tensor's values in memory: dtype_of(), and u8 for the bits of F8_E4M3.
std::optional<DType> memory_type(StoredType t);

using Metadata = std::vector<std::pair<std::string, std::string>>;

struct StoredTensor {
  std::string name;
  StoredType type = StoredType::f32;
  std::vector<std::int64_t> shape;  // any rank; [] is one element
  std::int64_t begin = 0, end = 0;  // bytes of the file
  std::int64_t numel = 0;
};
std::string shape_text(std::span<const std::int64_t> shape);  // "[4096, 11008]"

enum class Nonfinite : bool { refuse, allow };

class SafetensorsFile {
 public:
  // Errors have this exit code and name the file and the tensor.
  explicit SafetensorsFile(const std::string& path, Exit exit = Exit::input);

  const std::string& path() const { return file_.path(); }
  std::int64_t size() const { return file_.size(); }                     // bytes
  const FileState& state() const { return file_.state(); }               // when the file was opened
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // in the order of their data
  const Metadata& metadata() const { return metadata_; }
  const StoredTensor* find(const std::string& name) const;  // nullptr: absent

  // Reads to.numel() elements, beginning with number `first` of the flattened tensor. Converts between f32,
  // bf16 and f16; other types are read only into the same type, and the bits of F8_E4M3 into u8. `to` is host
  // memory, its rows may be strided. Throws for NaN and Inf, stored or from the conversion, and names the
  // element, unless allowed. Large reads use several threads, which also touch fresh memory for the first
  // time.
  void read(const StoredTensor& tensor, const Tensor& to, std::int64_t first = 0,
            Nonfinite nonfinite = Nonfinite::refuse) const;

 private:
  InputFile file_;
  Exit exit_;
  std::vector<StoredTensor> tensors_;
  Metadata metadata_;
  std::unordered_map<std::string, std::size_t> by_name_;
};

}  // namespace ft
