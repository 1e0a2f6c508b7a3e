// Constants of the GGUF format, for reading and writing.
#pragma once
#include <cstdint>
#include <optional>

#include "engine/core/dtype.h"
#include "engine/formats/gguf/gguf.h"

namespace ft {

inline constexpr std::uint32_t kGgufVersion = 3;
inline constexpr std::int64_t kGgufAlignment = 32;
inline constexpr std::size_t kGgufLongestName = 63;

enum class GgufType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, flag, text, list, u64, i64, f64 };

GgufType gguf_type(const GgufValue&);
// Returns the type of unquantized elements; empty for block types.
std::optional<DType> gguf_dtype(GgmlType);

constexpr std::int64_t gguf_padded(std::int64_t bytes, std::int64_t alignment = kGgufAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace ft
