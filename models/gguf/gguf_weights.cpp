// Serves the weights of a GGUF file as a base model's weights.
#include <algorithm>
#include <map>
#include <set>

#include "engine/core/divide.h"
#include "engine/core/error.h"
#include "engine/files/convert.h"
#include "engine/files/parallel.h"
#include "engine/layers/linear.h"
#include "models/gguf/gguf_config.h"
#include "models/registry.h"

namespace ft {
namespace {

std::set<std::string> linears_with_inputs_first(Model& model) {
  std::set<std::string> names;
  EachLinear each([&](Linear& l) {
    if (l.weight->inputs_first()) names.insert(l.name + ".weight");
  });
  model.visit(each);
  return names;
}

}  // namespace

DType gguf_base_type(const GgufFile& file) {
  std::map<GgmlType, std::int64_t> bytes;
  for (const GgufTensor& t : file.tensors()) bytes[t.type] += t.bytes();
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& b) { return b.second; });
  if (most == bytes.end()) return DType::bf16;
  return most->first == GgmlType::f32 ? DType::f32 : most->first == GgmlType::f16 ? DType::f16 : DType::bf16;
}

GgufWeights::GgufWeights(const std::string& path, const std::string& config_json)
    : file_(path), names_(make_gguf_model(config_json)) {
  const MadeModel made = make_model(config_json, DType::f32);
  const std::set<std::string> turned = linears_with_inputs_first(*made.model);
  std::map<std::string, const GgufTensor*> tensors;
  for (const GgufTensor& t : file_.tensors()) tensors[t.name] = &t;
  EachParameter each([&](Parameter& p) {
    const std::string name = p.stored_name();
    const auto gguf = names_.name_of(name);
    const auto at = gguf ? tensors.find(*gguf) : tensors.end();
    if (at == tensors.end())
      throw UserError(Exit::input, str(printable(path), ": it has no ", gguf.value_or(name)));
    Entry entry = entry_of(p, *at->second);
    if (turned.contains(name)) {
      entry.turned = true;
      std::ranges::reverse(entry.shape);
    }
    entries_[name] = std::move(entry);
  });
  made.model->visit(each);
  type_ = stored_type(gguf_base_type(file_));
  for (const auto& [name, entry] : entries_) whole_ &= form_of(entry.tensor->type)->dequantize == nullptr;
}

GgufWeights::Entry GgufWeights::entry_of(const Parameter& p, const GgufTensor& tensor) const {
  const std::string name = p.stored_name();
  const auto refuse = [&](const auto&... what) {
    throw UserError(Exit::input, str(printable(file_.path()), ": ", tensor.name, " is ", what...));
  };
  Entry e{.tensor = &tensor, .shape = tensor.shape, .order = names_.find_permuted(name), .name = name};
  if (const std::int64_t place = names_.place_in_stack(name); place >= 0) {
    if (e.shape.size() != 3 || place >= e.shape[0])
      refuse(shape_text(e.shape), ", not a matrix for each expert");
    e.shape.erase(e.shape.begin());
    e.first = place * e.shape[0] * e.shape[1];
  }
  if (e.shape.size() == 1 && p.shape.rank == 2) e.shape.insert(e.shape.begin(), 1);
  if (e.order && (e.shape.empty() || !e.order->fits(e.order->columns ? e.shape.back() : e.shape[0])))
    refuse("not ", e.order->heads, " heads");
  if (e.shape.size() == 2 && p.shape.rank == 3) e.shape.insert(e.shape.begin() + 1, 1);  // a convolution
  return e;
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

std::int64_t GgufWeights::columns_of(const Entry& e) {
  if (e.shape.size() == 2) return e.shape[1];
  return e.tensor->elements() / std::max<std::int64_t>(e.shape.empty() ? 1 : e.shape[0], 1);
}

WeightInfo GgufWeights::info(const std::string& name) const { return {file_.path(), type_, at(name).shape}; }

void GgufWeights::read(const std::string& name, const Tensor& to, std::int64_t first) const {
  constexpr std::int64_t kAtOnce = 1 << 16;  // elements
  const Entry& e = at(name);
  if (e.turned) return read_turned(e, to, first);
  const std::int64_t columns = columns_of(e), n = to.numel();
  in_parallel(ceil_div(n, kAtOnce), [&](std::int64_t piece) {
    std::vector<float> values;
    const std::int64_t end = std::min(n, (piece + 1) * kAtOnce);
    for (std::int64_t i = piece * kAtOnce; i < end;) {
      const std::int64_t left = columns - (first + i) % columns,
                         count = e.order ? std::min(end - i, left) : end - i;
      read_row(e, first + i, count, values);
      put(e, e.first + first + i, values.data(), count, to, i);
      i += count;
    }
  });
}

void GgufWeights::read_row(const Entry& e, std::int64_t first, std::int64_t n,
                           std::vector<float>& values) const {
  values.resize(static_cast<std::size_t>(n));
  const std::int64_t columns = columns_of(e), row = first / columns, column = first % columns;
  if (!e.order || !e.order->columns) {
    const std::int64_t rows = e.shape.empty() ? 1 : e.shape[0];
    const std::int64_t from = e.order ? e.order->place(row, rows) * columns + column : first;
    return file_.read(*e.tensor, e.first + from, n, values.data());
  }
  std::vector<float> whole(static_cast<std::size_t>(columns));
  file_.read(*e.tensor, e.first + row * columns, columns, whole.data());
  for (std::int64_t c = 0; c < n; ++c)
    values[static_cast<std::size_t>(c)] =
        whole[static_cast<std::size_t>(e.order->place(column + c, columns))];
}

// Reads a transposed weight: its element (r, c) is element (c, r) of the tensor. Each row of the tensor holds
// a part of the requested rows.
void GgufWeights::read_turned(const Entry& e, const Tensor& to, std::int64_t first) const {
  constexpr std::int64_t kAtOnce = 16;  // rows of the tensor
  const std::int64_t in = e.shape[0], out = e.shape[1], n = to.numel();
  if (n == 0) return;
  const std::int64_t begin = first / out, count = (first + n - 1) / out + 1 - begin;
  std::vector<float> values(static_cast<std::size_t>(n));
  in_parallel(ceil_div(out, kAtOnce), [&](std::int64_t piece) {
    std::vector<float> row(static_cast<std::size_t>(count));
    for (std::int64_t c = piece * kAtOnce; c < std::min(out, (piece + 1) * kAtOnce); ++c) {
      file_.read(*e.tensor, c * in + begin, count, row.data());
      for (std::int64_t r = 0; r < count; ++r) {
        const std::int64_t i = (begin + r) * out + c - first;
        if (0 <= i && i < n) values[static_cast<std::size_t>(i)] = row[static_cast<std::size_t>(r)];
      }
    }
  });
  put(e, first, values.data(), n, to, 0);
}

void GgufWeights::put(const Entry& e, std::int64_t from, float* values, std::int64_t n, const Tensor& to,
                      std::int64_t i) const {
  names_.from_gguf(e.name, values, n);  // a rate that is not negative becomes a NaN
  if (const std::int64_t bad = find_nonfinite(values, DType::f32, n); bad >= 0)
    throw UserError(Exit::input, str(printable(file_.path()), ": ", e.tensor->name,
                                     " has a NaN or Inf at element ", from + bad));
  const std::int64_t run = to.dense() ? to.numel() : to.cols();  // number of contiguous elements
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t at = i + done, count = std::min(n - done, run - at % run);
    convert(to.data + (at / run * to.stride + at % run) * size_of(to.dtype), to.dtype, values + done,
            DType::f32, count);
    done += count;
  }
}

std::string GgufWeights::types() const {
  std::set<const GgufTensor*> tensors;
  for (const auto& [name, entry] : entries_) tensors.insert(entry.tensor);
  std::map<std::string, std::int64_t> bytes;
  for (const GgufTensor* t : tensors) bytes[form_of(t->type)->name] += t->bytes();
  std::vector<std::pair<std::int64_t, std::string>> order;
  for (const auto& [type, n] : bytes) order.emplace_back(-n, type);
  std::ranges::sort(order);
  std::string text;
  for (std::size_t i = 0; i < order.size(); ++i)
    text += (i == 0 ? "" : i + 1 == order.size() ? " and " : ", ") + order[i].second;
  return text;
}

}  // namespace ft
