#include "models/gguf/gguf.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/core/error.h"

namespace ft {
namespace {

struct Found {
  std::string name;
  std::int64_t place = -1;  // the number that % stands for
};

std::optional<Found> find(const GgufName& name, std::string_view module) {
  const std::string_view pattern = name.hugging_face;
  const std::size_t at = pattern.find('%');
  if (at == std::string_view::npos)
    return pattern == module ? std::optional(Found{std::string(name.gguf)}) : std::nullopt;
  const std::string_view before = pattern.substr(0, at), after = pattern.substr(at + 1);
  if (module.size() < pattern.size() || !module.starts_with(before) || !module.ends_with(after))
    return std::nullopt;
  const std::string_view digits = module.substr(at, module.size() - before.size() - after.size());
  std::int64_t number = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (read.ec != std::errc{} || read.ptr != digits.data() + digits.size() || number < 0) return std::nullopt;
  return Found{std::string(name.gguf), number};
}

std::optional<Found> find(std::span<const GgufName> names, std::string_view module) {
  for (const GgufName& n : names)
    if (auto found = find(n, module)) return found;
  return std::nullopt;
}

// Finds a tensor's GGUF name, with its kind (.weight, .bias, or none) and, inside a block, the block's
// number.
std::optional<Found> find(const GgufNames& names, const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) return std::nullopt;
  const bool has_kind = name.ends_with(".weight") || name.ends_with(".bias");
  const std::string module = has_kind ? name.substr(0, dot) : name, kind = has_kind ? name.substr(dot) : "";
  if (const auto found = find(names.modules, module)) return Found{found->name + kind};
  for (const GgufBlocks& blocks : names.blocks) {
    if (!module.starts_with(blocks.hugging_face)) continue;
    const std::size_t begin = blocks.hugging_face.size(), end = module.find('.', begin);
    if (end == std::string::npos) break;
    const std::string_view inner = std::string_view(module).substr(end + 1);
    std::optional<Found> found;
    for (const auto& modules : blocks.modules)
      if (!found) found = find(modules, inner);
    if (!found) break;
    return Found{str(blocks.gguf, module.substr(begin, end - begin), ".", found->name, kind), found->place};
  }
  return std::nullopt;
}

// Returns true if a tensor belongs to the module that ends a path: its weight, its bias, or a tensor of that
// name.
bool is_of(const std::string& name, std::string_view module) {
  const std::size_t at = name.find(str(".", module));
  if (at == std::string::npos) return false;
  const std::size_t end = at + 1 + module.size();
  return end == name.size() || name[end] == '.';
}

}  // namespace

std::optional<std::string> GgufModel::name_of(const std::string& name) const {
  const auto found = find(names, name);
  return found ? std::optional(found->name) : std::nullopt;
}

std::vector<GgufModel::FoundPart> GgufModel::parts_of(const std::string& name) const {
  std::vector<FoundPart> found;
  for (const GgufPart& p : parts) {
    if (!name.ends_with(str(".", p.module))) continue;
    const std::string layer = name.substr(0, name.size() - p.module.size());
    for (const GgufBlocks& blocks : names.blocks)
      if (layer.starts_with(blocks.hugging_face))
        found.push_back({str(blocks.gguf, layer.substr(blocks.hugging_face.size()), p.gguf), &p});
  }
  return found;
}

std::int64_t GgufModel::place_in_stack(const std::string& name) const {
  const auto found = find(names, name);
  return found ? found->place : -1;
}

const GgufModel::Permuted* GgufModel::find_permuted(const std::string& name) const {
  const auto at = std::ranges::find_if(permuted, [&](const Permuted& p) { return is_of(name, p.module); });
  return at == permuted.end() ? nullptr : &*at;
}

std::int64_t GgufModel::Permuted::place(std::int64_t r, std::int64_t rows) const {
  if (r < first) return r;
  const std::int64_t width = (rows - first) / (heads * each), at = r - first;
  const std::int64_t head = at / (each * width), part = at / width % each, i = at % width;
  return first +
         (order == Order::pairs ? (head * width + i) * each + part : (part * heads + head) * width + i);
}

void GgufModel::reorder_rows(const std::string& name, float* values, std::int64_t rows,
                             std::int64_t columns) const {
  const Permuted* p = find_permuted(name);
  if (!p || p->columns) return;
  require(p->fits(rows), "rows that are not whole heads");
  const std::vector<float> before(values, values + rows * columns);
  for (std::int64_t r = 0; r < rows; ++r)
    std::copy_n(before.data() + r * columns, columns, values + p->place(r, rows) * columns);
}

void GgufModel::reorder_columns(const std::string& name, float* values, std::int64_t rows,
                                std::int64_t columns) const {
  const Permuted* p = find_permuted(name);
  if (!p || !p->columns) return;
  require(p->fits(columns), "columns that are not whole heads");
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = values + r * columns;
    const std::vector<float> before(row, row + columns);
    for (std::int64_t c = 0; c < columns; ++c)
      row[p->place(c, columns)] = before[static_cast<std::size_t>(c)];
  }
}

float GgufModel::offset_of(const std::string& name) const {
  return name.ends_with("norm.weight") && !is_of(name, plain_norm) ? norm_offset : 0;
}

void GgufModel::to_gguf(const std::string& name, float* values, std::int64_t n) const {
  if (const float offset = offset_of(name); offset != 0)
    std::for_each_n(values, n, [&](float& v) { v += offset; });
  if (is_of(name, rates)) std::for_each_n(values, n, [](float& v) { v = -std::exp(v); });
}

void GgufModel::from_gguf(const std::string& name, float* values, std::int64_t n) const {
  if (const float offset = offset_of(name); offset != 0)
    std::for_each_n(values, n, [&](float& v) { v -= offset; });
  if (is_of(name, rates)) std::for_each_n(values, n, [](float& v) { v = std::log(-v); });
}

}  // namespace ft
