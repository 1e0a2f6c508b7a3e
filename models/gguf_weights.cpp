// The weights of a GGUF file as a base model's.
#include <algorithm>
#include <map>

#include "engine/core/error.h"
#include "engine/io/convert.h"
#include "models/gguf_config.h"
#include "models/registry.h"

namespace ft {
namespace {

// Row r of Hugging Face's order in GGUF's: (h, half, i) is (h, i, half). See GgufModel::Permuted.
std::int64_t gguf_row(std::int64_t r, std::int64_t rows, std::int64_t heads) {
  const std::int64_t width = rows / heads, in = r % width;
  return r - in + in % (width / 2) * 2 + in / (width / 2);
}

// Heads of a weight or bias whose rows have another order there; 0: none.
std::int64_t permuted_heads(const GgufModel& model, const std::string& name) {
  for (const GgufModel::Permuted& p : model.permuted)
    if (!p.thirds && name.find(str(".", p.module, ".")) != std::string::npos) return p.heads;
  return 0;
}

}  // namespace

DType gguf_base_type(const GgufFile& file) {
  std::map<GgmlType, std::int64_t> bytes;
  for (const GgufTensor& t : file.tensors()) bytes[t.type] += t.bytes();
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& b) { return b.second; });
  if (most == bytes.end()) return DType::bf16;
  return most->first == GgmlType::f32 ? DType::f32 : most->first == GgmlType::f16 ? DType::f16 : DType::bf16;
}

GgufWeights::GgufWeights(const std::string& path, const std::string& config_json) : file_(path) {
  const GgufModel names = make_gguf_model(config_json);
  const MadeModel made = make_model(config_json, DType::f32);
  std::map<std::string, const GgufTensor*> tensors;
  for (const GgufTensor& t : file_.tensors()) tensors[t.name] = &t;
  EachParameter each([&](Parameter& p) {
    const std::string name = p.stored_name();
    const auto gguf = names.name_of(name);
    const auto at = gguf ? tensors.find(*gguf) : tensors.end();
    if (at == tensors.end())
      throw UserError(Exit::input, str(printable(path), ": it has no ", gguf.value_or(name)));
    const std::int64_t heads = permuted_heads(names, name);
    if (heads > 0 && (at->second->shape.empty() || at->second->shape[0] % (2 * heads) != 0))
      throw UserError(Exit::input, str(printable(path), ": ", *gguf, " is not ", heads, " heads"));
    entries_[name] = {at->second, heads};
  });
  made.model->visit(each);
  type_ = stored_type(gguf_base_type(file_));
  for (const auto& [name, entry] : entries_) whole_ &= form_of(entry.tensor->type)->dequantize == nullptr;
}

const GgufWeights::Entry& GgufWeights::at(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    throw UserError(Exit::input, str(printable(file_.path()), ": there is no ", printable(name)));
  return found->second;
}

std::vector<std::string> GgufWeights::names() const {
  std::vector<std::string> all;
  for (const auto& [name, entry] : entries_) all.push_back(name);
  return all;
}

WeightInfo GgufWeights::info(const std::string& name) const {
  return {file_.path(), type_, at(name).tensor->shape};
}

void GgufWeights::read(const std::string& name, const Tensor& to, std::int64_t first) const {
  constexpr std::int64_t kAtOnce = 1 << 16;  // elements
  const auto& [tensor, heads] = at(name);
  const std::int64_t rows = tensor->shape.empty() ? 1 : tensor->shape[0];
  const std::int64_t row = tensor->elements() / std::max<std::int64_t>(rows, 1), end = first + to.numel();
  std::vector<float> values;
  for (std::int64_t i = first; i < end;) {
    const std::int64_t r = heads > 0 ? i / row : 0;
    const std::int64_t n = std::min(end, heads > 0 ? (r + 1) * row : i + kAtOnce) - i;
    const std::int64_t from = heads > 0 ? gguf_row(r, rows, heads) * row + i % row : i;
    values.resize(static_cast<std::size_t>(n));
    file_.read(*tensor, from, n, values.data());
    if (const std::int64_t bad = find_nonfinite(values.data(), DType::f32, n); bad >= 0)
      throw UserError(Exit::input, str(printable(file_.path()), ": ", tensor->name,
                                       " has a NaN or Inf at element ", from + bad));
    convert(to.data + (i - first) * size_of(to.dtype), to.dtype, values.data(), DType::f32, n);
    i += n;
  }
}

std::string GgufWeights::types() const {
  std::map<std::string, std::int64_t> bytes;
  for (const auto& [name, entry] : entries_)
    bytes[form_of(entry.tensor->type)->name] += entry.tensor->bytes();
  std::vector<std::pair<std::int64_t, std::string>> order;
  for (const auto& [type, n] : bytes) order.emplace_back(-n, type);
  std::ranges::sort(order);
  std::string text;
  for (std::size_t i = 0; i < order.size(); ++i)
    text += (i == 0 ? "" : i + 1 == order.size() ? " and " : ", ") + order[i].second;
  return text;
}

}  // namespace ft
