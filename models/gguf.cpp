#include "models/gguf.h"

#include <algorithm>

#include "engine/core/error.h"

namespace ft {
namespace {

std::optional<std::string> find(std::span<const GgufName> names, std::string_view module) {
  for (const GgufName& n : names)
    if (n.hugging_face == module) return std::string(n.gguf);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> GgufModel::name_of(const std::string& name) const {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) return std::nullopt;
  const std::string module = name.substr(0, dot), kind = name.substr(dot);
  if (kind != ".weight" && kind != ".bias") return std::nullopt;
  if (const auto found = find(names.modules, module)) return *found + kind;
  for (const GgufBlocks& blocks : names.blocks) {
    if (!module.starts_with(blocks.hugging_face)) continue;
    const std::size_t begin = blocks.hugging_face.size(), end = module.find('.', begin);
    if (end == std::string::npos) break;
    const std::string_view inner = std::string_view(module).substr(end + 1);
    auto found = find(blocks.modules, inner);
    if (!found) found = find(blocks.more, inner);
    if (!found) break;
    return str(blocks.gguf, module.substr(begin, end - begin), ".", *found, kind);
  }
  return std::nullopt;
}

std::int64_t GgufModel::permuted_heads(const std::string& name) const {
  for (const Permuted& p : permuted)
    if (name.find(str(".", p.module, ".")) != std::string::npos) return p.heads;
  return 0;
}

void gguf_permute(float* values, std::int64_t rows, std::int64_t columns, std::int64_t heads) {
  const std::int64_t width = rows / heads, half = width / 2;
  require(rows == heads * half * 2, "rows that are not heads of even width");
  std::vector<float> head(static_cast<std::size_t>(width * columns));
  for (std::int64_t h = 0; h < heads; ++h) {
    float* at = values + h * width * columns;
    for (std::int64_t r = 0; r < width; ++r)
      std::copy_n(at + r * columns, columns, head.data() + (r % half * 2 + r / half) * columns);
    std::copy(head.begin(), head.end(), at);
  }
}

}  // namespace ft
