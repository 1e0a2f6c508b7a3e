#include "lora/kind.h"

#include <algorithm>
#include <string_view>

#include "lora/kinds.h"

namespace ft::lora {

std::span<const AdapterKind* const> AdapterKind::all() { return kinds::kKinds; }
std::span<const AdapterKind* const> AdapterKind::read_only() { return kinds::kReadOnly; }

const char* AdapterKind::key_of(const char* setting) const {
  const auto found =
      std::ranges::find_if(keys, [&](const PeftKey& k) { return k.of && std::string_view(k.of) == setting; });
  return found == keys.end() ? nullptr : found->name;
}

}  // namespace ft::lora
