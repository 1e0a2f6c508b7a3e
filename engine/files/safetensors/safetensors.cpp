// Types of the format, and reading of the data. safetensors_header.cpp checks the header.
#include "engine/files/safetensors/safetensors.h"

#include <algorithm>
#include <array>

#include "engine/files/convert.h"
#include "engine/files/parallel.h"
#include "engine/files/safetensors/safetensors_header.h"

namespace ft {
namespace {

struct TypeName {
  const char* name;
  std::int64_t bits;
};
constexpr std::array<TypeName, 22> kTypes = {
    {{"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
     {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
     {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
     {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}}};

constexpr std::int64_t kRead = std::int64_t{1}
                               << 17;  // elements read at once by one thread; fits into the L2 cache
constexpr std::int64_t kParallel = std::int64_t{4} << 20;  // from this many elements on, several threads read

// Returns the indexes of element number `index`: "[3, 17]".
std::string place(std::span<const std::int64_t> shape, std::int64_t index) {
  std::vector<std::int64_t> at(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) at[d] = index % shape[d], index /= shape[d];
  return shape_text(at);
}

}  // namespace

const char* name_of(StoredType type) { return kTypes[static_cast<std::size_t>(type)].name; }
std::int64_t bits_of(StoredType type) { return kTypes[static_cast<std::size_t>(type)].bits; }

std::optional<StoredType> stored_type_named(std::string_view name) {
  for (std::size_t i = 0; i < kTypes.size(); ++i)
    if (name == kTypes[i].name) return static_cast<StoredType>(i);
  return std::nullopt;
}

StoredType stored_type(DType type) {
  switch (type) {
    case DType::f32:
      return StoredType::f32;
    case DType::bf16:
      return StoredType::bf16;
    case DType::f16:
      return StoredType::f16;
    case DType::f64:
      return StoredType::f64;
    case DType::i32:
      return StoredType::i32;
    case DType::u8:
      return StoredType::u8;
  }
  throw InternalError("no such type");
}

std::optional<DType> dtype_of(StoredType t) {
  for (const DType d : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::u8})
    if (stored_type(d) == t) return d;
  return std::nullopt;
}

std::optional<DType> memory_type(StoredType t) { return t == StoredType::f8_e4m3 ? DType::u8 : dtype_of(t); }

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

SafetensorsFile::SafetensorsFile(const std::string& path, Exit exit) : file_(path, exit), exit_(exit) {
  SafetensorsHeader header = read_safetensors_header(file_, exit);
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
  by_name_.reserve(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) by_name_.emplace(tensors_[i].name, i);
}

const StoredTensor* SafetensorsFile::find(const std::string& name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

void SafetensorsFile::read(const StoredTensor& tensor, const Tensor& to, std::int64_t first,
                           Nonfinite nonfinite) const {
  const std::int64_t n = to.numel();
  require(first >= 0 && n >= 0 && n <= tensor.numel - first, "elements read outside a stored tensor");
  const std::string where = printable(path()) + ": " + printable(tensor.name);
  const std::optional<DType> from = memory_type(tensor.type);
  const bool weight = from && is_weight_type(*from) && is_weight_type(to.dtype);
  if (!weight && from != to.dtype)
    throw UserError(
        exit_,
        str(where, " is ", name_of(tensor.type), "; ft reads ",
            is_weight_type(to.dtype) ? "F32, F16 and BF16" : name_of(stored_type(to.dtype)), " there"));
  const std::int64_t from_size = size_of(*from), to_size = size_of(to.dtype);
  const std::int64_t run = to.dense() ? n : to.cols();  // contiguous elements

  // Reads elements [i, i + count) of the request, which must be contiguous.
  const auto read_piece = [&](std::int64_t i, std::int64_t count, std::vector<std::byte>& staging) {
    std::byte* out = to.data + (i / run * to.stride + i % run) * to_size;
    const std::int64_t at = tensor.begin + (first + i) * from_size;
    if (*from == to.dtype) {
      file_.read(at, out, count * from_size);
    } else {
      staging.resize(static_cast<std::size_t>(count * from_size));
      file_.read(at, staging.data(), count * from_size);
      convert(out, to.dtype, staging.data(), *from, count);
    }
    if (!weight || nonfinite == Nonfinite::allow) return;
    // Conversion to f32 makes no finite value infinite, so the narrower side is searched, which is faster.
    const bool wider = to.dtype == DType::f32 && *from != DType::f32;
    const std::int64_t bad =
        wider ? find_nonfinite(staging.data(), *from, count) : find_nonfinite(out, to.dtype, count);
    if (bad < 0) return;
    const bool stored =
        wider || *from == to.dtype || find_nonfinite(staging.data() + bad * from_size, *from, 1) == 0;
    throw UserError(exit_,
                    str(where, stored ? " has a NaN or Inf at " : " has a number too large for its type at ",
                        place(tensor.shape, first + i + bad)));
  };
  const auto read_range = [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::byte> staging;
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t count = std::min({end - i, run - i % run, kRead});
      read_piece(i, count, staging);
      i += count;
    }
  };
  if (n == 0) return;
  if (n < kParallel) return read_range(0, n);
  in_parallel((n + kRead - 1) / kRead,
              [&](std::int64_t p) { read_range(p * kRead, std::min(n, (p + 1) * kRead)); });
}

}  // namespace ft
