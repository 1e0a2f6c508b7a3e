// The header of a safetensors file, checked. Used by safetensors.cpp only.
#pragma once
#include <optional>
#include <string_view>

#include "engine/files/safetensors/safetensors.h"

namespace ft {

constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;  // bytes, the reference implementation's limit

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // in the order of their data
  Metadata metadata;
};

SafetensorsHeader read_safetensors_header(const InputFile& file, Exit exit);
std::optional<StoredType> stored_type_named(std::string_view name);

}  // namespace ft
