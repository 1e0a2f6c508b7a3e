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

constexpr std::string_view kGates = "_gate_exps.weight", kUps = "_up_exps.weight";

// Returns the name of a tensor with the gates and ups of all experts, which some files have in place of this
// one; empty: there is none.
std::string joined_name(const std::string& gguf) {
  for (const std::string_view end : {kGates, kUps})
    if (gguf.ends_with(end)) return gguf.substr(0, gguf.size() - end.size()) + "_gate_up_exps.weight";
  return "";
}

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
    const auto find = [&](const std::string& gguf) -> const GgufTensor& {
      auto at = tensors.find(gguf);
      if (const std::string joined = joined_name(gguf); at == tensors.end() && !joined.empty())
        at = tensors.find(joined);
      if (at == tensors.end()) throw UserError(Exit::input, str(printable(path), ": it has no ", gguf));
      return *at->second;
    };
    std::vector<Entry::Piece> pieces;
    for (const GgufModel::FoundPart& part : names_.parts_of(name))
      pieces.push_back({&find(part.name), part.part});
    Entry entry =
        pieces.empty() ? entry_of(p, find(names_.name_of(name).value_or(name))) : entry_of(p, pieces);
    if (turned.contains(name)) {
      entry.turned = true;
      std::ranges::reverse(entry.shape);
    }
    entries_[name] = std::move(entry);
  });
  made.model->visit(each);
  type_ = stored_type(gguf_base_type(file_));
  for (const GgufTensor* t : used()) whole_ &= form_of(t->type)->dequantize == nullptr;
}

std::set<const GgufTensor*> GgufWeights::used() const {
  std::set<const GgufTensor*> all;
  for (const auto& [name, entry] : entries_) {
    all.insert(entry.tensor);
    for (const Entry::Piece& piece : entry.pieces) all.insert(piece.tensor);
  }
  return all;
}

GgufWeights::Entry GgufWeights::entry_of(const Parameter& p, const std::vector<Entry::Piece>& pieces) const {
  Entry e{.tensor = pieces.front().tensor,
          .shape = {p.shape.dims, p.shape.dims + p.shape.rank},
          .name = p.stored_name(),
          .pieces = pieces};
  for (const auto& [tensor, part] : pieces) {
    require(part->fits(e.shape), "a weight that can be cut so");
    if (const auto want = part->shape_of(e.shape); tensor->shape != want)
      throw UserError(Exit::input, str(printable(file_.path()), ": ", tensor->name, " is ",
                                       shape_text(tensor->shape), ", not ", shape_text(want)));
  }
  return e;
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
    const std::string own = names_.name_of(name).value();
    if (tensor.name == joined_name(own)) {  // gates, then ups
      if (e.shape[0] % 2 != 0) refuse(shape_text(tensor.shape), ", not gates and ups of equal size");
      e.shape[0] /= 2;
      if (own.ends_with(kUps)) e.first += e.shape[0] * e.shape[1];
    }
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
  if (!e.pieces.empty()) return read_pieces(e, to, first);
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

// Reads matrix by matrix; one that the next call continues is kept.
void GgufWeights::read_pieces(const Entry& e, const Tensor& to, std::int64_t first) const {
  const GgufPart::Size size = e.pieces.front().part->size_of(e.shape);
  const std::int64_t each = size.elements(), end = first + to.numel();
  for (std::int64_t b = first / each; b * each < end; ++b) {
    if (held_.name != e.name || held_.matrix != b) {
      held_ = {};  // one matrix at a time is in memory, and none after a read that throws
      Held read{e.name, b, std::vector<float>(static_cast<std::size_t>(each))};
      for (const auto& [tensor, part] : e.pieces)
        for (std::size_t i = 0; i < part->ranges.size(); ++i) {
          std::vector<float> values(static_cast<std::size_t>(part->elements(part->ranges[i], size)));
          file_.read(*tensor, part->place(i, b, size), std::ssize(values), values.data());
          part->put(part->ranges[i], size, read.values.data(), values.data());
        }
      held_ = std::move(read);
    }
    const std::int64_t begin = std::max(first, b * each), stop = std::min(end, (b + 1) * each);
    std::vector<float> run(held_.values.begin() + (begin - b * each),
                           held_.values.begin() + (stop - b * each));
    put(e, begin, run.data(), std::ssize(run), to, begin - first);
  }
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
  std::map<std::string, std::int64_t> bytes;
  for (const GgufTensor* t : used()) bytes[form_of(t->type)->name] += t->bytes();
  std::vector<std::pair<std::int64_t, std::string>> order;
  for (const auto& [type, n] : bytes) order.emplace_back(-n, type);
  std::ranges::sort(order);
  std::string text;
  for (std::size_t i = 0; i < order.size(); ++i)
    text += (i == 0 ? "" : i + 1 == order.size() ? " and " : ", ") + order[i].second;
  return text;
}

}  // namespace ft
