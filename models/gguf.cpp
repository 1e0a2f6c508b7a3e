#include "models/gguf.h"

#include <algorithm>

#include "engine/core/error.h"

namespace ft {
namespace {

bool stands_for(std::string_view name, std::string_view module) {
  const std::size_t at = name.find('%');
  if (at == std::string_view::npos) return name == module;
  const std::string_view before = name.substr(0, at), after = name.substr(at + 1);
  if (module.size() < name.size() || !module.starts_with(before) || !module.ends_with(after)) return false;
  const std::string_view number = module.substr(at, module.size() - before.size() - after.size());
  return number.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<std::string> find(std::span<const GgufName> names, std::string_view module) {
  for (const GgufName& n : names)
    if (stands_for(n.hugging_face, module)) return std::string(n.gguf);
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

void GgufModel::reorder(const std::string& name, float* values, std::int64_t rows,
                        std::int64_t columns) const {
  const auto at = std::ranges::find_if(
      permuted, [&](const Permuted& p) { return name.find(str(".", p.module, ".")) != std::string::npos; });
  if (at == permuted.end()) return;
  const std::int64_t heads = at->heads, parts = at->thirds ? 3 : 2, width = rows / (heads * parts);
  require(rows == heads * parts * width, "rows that are not whole heads");
  const std::vector<float> before(values, values + rows * columns);
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t part = 0; part < parts; ++part)
      for (std::int64_t i = 0; i < width; ++i) {
        const std::int64_t from = (h * parts + part) * width + i;
        const std::int64_t to = at->thirds ? (part * heads + h) * width + i : (h * width + i) * parts + part;
        std::copy_n(before.data() + from * columns, columns, values + to * columns);
      }
}

}  // namespace ft
