// Writing GGUF files, and helpers shared with reading.
#include "engine/formats/gguf/gguf.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "engine/core/divide.h"
#include "engine/files/convert.h"
#include "engine/files/parallel.h"
#include "engine/formats/gguf/gguf_types.h"

namespace ft {
namespace {

template <class T>
void put(std::string& out, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put(std::string& out, const std::string& text) {
  put(out, static_cast<std::uint64_t>(text.size()));
  out += text;
}

template <class T>
GgufType gguf_entry_type() {
  if constexpr (std::is_same_v<T, std::uint8_t>)
    return GgufType::u8;
  else
    return gguf_type(GgufValue(T{}));
}

void put_value(std::string& out, const GgufValue& value) {
  put(out, static_cast<std::uint32_t>(gguf_type(value)));
  std::visit(
      [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (requires { v.begin(); } && !std::is_same_v<T, std::string>) {
          put(out, static_cast<std::uint32_t>(gguf_entry_type<typename T::value_type>()));
          put(out, static_cast<std::uint64_t>(v.size()));
          for (const auto& one : v) put(out, one);
        } else if constexpr (std::is_same_v<T, bool>) {
          put(out, static_cast<std::uint8_t>(v));
        } else {
          put(out, v);
        }
      },
      value);
}

std::string header_of(const GgufKeys& keys, const std::vector<GgufTensor>& tensors) {
  std::string out = "GGUF";
  put(out, kGgufVersion);
  put(out, static_cast<std::uint64_t>(tensors.size()));
  put(out, static_cast<std::uint64_t>(keys.size()));
  for (const auto& [key, value] : keys) {
    put(out, key);
    put_value(out, value);
  }
  std::int64_t at = 0;
  for (const GgufTensor& t : tensors) {
    require(!t.name.empty() && t.name.size() <= kGgufLongestName, "GGUF: a tensor's name is too long");
    put(out, t.name);
    put(out, static_cast<std::uint32_t>(t.shape.size()));
    for (std::size_t i = t.shape.size(); i-- > 0;) put(out, static_cast<std::uint64_t>(t.shape[i]));
    put(out, static_cast<std::uint32_t>(t.type));
    put(out, static_cast<std::uint64_t>(at));
    at += gguf_padded(t.bytes());
  }
  out.resize(static_cast<std::size_t>(gguf_padded(static_cast<std::int64_t>(out.size()))));
  return out;
}

// Quantizes in pieces of complete blocks, on all cores.
void quantize(const GgmlForm& form, const float* x, std::int64_t n, std::string& out) {
  constexpr std::int64_t kPiece = std::int64_t{1} << 14;  // elements
  out.resize(static_cast<std::size_t>(n / form.block * form.bytes));
  auto* y = reinterpret_cast<std::uint8_t*>(out.data());
  in_parallel(ceil_div(n, kPiece), [&](std::int64_t piece) {
    const std::int64_t end = std::min(n, (piece + 1) * kPiece);
    for (std::int64_t i = piece * kPiece; i < end; i += form.block)
      form.quantize(x + i, y + i / form.block * form.bytes);
  });
}

void write_tensor(AtomicFile& file, const GgufTensor& t, const Tensor& values) {
  const std::int64_t n = t.elements();
  require(values.dtype == DType::f32 && values.dense() && values.numel() == n,
          "GGUF: values of another form");
  const auto* x = values.as<float>();
  const auto refuse = [&](const char* why) {
    throw UserError(Exit::numeric, str(printable(file.path()), ": not written: ", t.name, why));
  };
  if (find_nonfinite(x, DType::f32, n) >= 0) refuse(" has a NaN or Inf");
  constexpr std::int64_t kPiece = std::int64_t{1} << 22;  // elements converted at once
  std::string out;
  for (std::int64_t i = 0; i < n; i += kPiece) {
    const std::int64_t count = std::min(kPiece, n - i);
    out.clear();
    if (form_of(t.type)->quantize) {
      quantize(*form_of(t.type), x + i, count, out);
    } else {
      const DType type = *gguf_dtype(t.type);
      out.resize(static_cast<std::size_t>(count * size_of(type)));
      convert(out.data(), type, x + i, DType::f32, count);
      if (find_nonfinite(out.data(), type, count) >= 0) refuse(" has values beyond its type's range");
    }
    file.write(out);
  }
  file.write(std::string(static_cast<std::size_t>(gguf_padded(t.bytes()) - t.bytes()), '\0'));
}

}  // namespace

std::optional<DType> gguf_dtype(GgmlType type) {
  switch (type) {
    case GgmlType::f32:
      return DType::f32;
    case GgmlType::f16:
      return DType::f16;
    case GgmlType::bf16:
      return DType::bf16;
    default:
      return std::nullopt;
  }
}

GgufType gguf_type(const GgufValue& value) {
  constexpr GgufType kTypes[] = {GgufType::u32,  GgufType::i32,  GgufType::u64,  GgufType::f32,
                                 GgufType::flag, GgufType::text, GgufType::list, GgufType::list,
                                 GgufType::list, GgufType::list};
  return kTypes[value.index()];
}

std::int64_t GgufTensor::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  return n;
}

bool GgufTensor::has_whole_blocks() const {
  const GgmlForm* form = form_of(type);
  return form && (form->block == 1 || (!shape.empty() && shape.back() % form->block == 0));
}

std::int64_t GgufTensor::bytes() const {
  const GgmlForm* form = form_of(type);
  require(form != nullptr, "GGUF: the size of a type that ft does not know");
  return elements() / form->block * form->bytes;
}

void write_gguf(const std::string& path, const GgufKeys& keys, const std::vector<GgufTensor>& tensors,
                const GgufProvider& provider) {
  for (const GgufTensor& t : tensors) require(t.has_whole_blocks(), "GGUF: rows of whole blocks");
  AtomicFile file(path);
  const std::string header = header_of(keys, tensors);
  std::int64_t bytes = static_cast<std::int64_t>(header.size());
  for (const GgufTensor& t : tensors) bytes += gguf_padded(t.bytes());
  file.reserve(bytes);
  file.write(header);
  for (const GgufTensor& t : tensors) write_tensor(file, t, provider(t));
  file.commit();
}

}  // namespace ft
