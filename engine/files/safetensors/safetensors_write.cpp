#include "engine/files/safetensors/safetensors_write.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine/files/convert.h"
#include "engine/files/json.h"

namespace ft {
namespace {

constexpr std::int64_t kConverted = std::int64_t{1} << 19;  // elements converted at once

std::int64_t bytes_of(const TensorSpec& t) { return t.shape.numel() * size_of(t.dtype); }

// Sorts in the reference implementation's order: larger types come first, so that the data stays aligned
// without gaps.
void sort_as_stored(std::vector<TensorSpec>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorSpec& a, const TensorSpec& b) {
    const StoredType x = a.stored(), y = b.stored();
    return x != y ? x > y : a.name < b.name;
  });
  for (std::size_t i = 1; i < tensors.size(); ++i)
    require(tensors[i - 1].name != tensors[i].name || tensors[i - 1].dtype != tensors[i].dtype,
            "a tensor is written twice");
}

// Returns the length and the JSON, padded with spaces so that the data begins at a multiple of 8.
std::string header_of(const std::vector<TensorSpec>& tensors, const Metadata& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    Json json = Json::object();
    for (const auto& [key, value] : metadata) json[key] = value;
    text += "\"__metadata__\":" + json.dump();
  }
  std::int64_t at = 0;
  for (const auto& t : tensors) {
    Json dims = Json::array();
    for (int i = 0; i < t.shape.rank; ++i) dims.push_back(t.shape[i]);
    text += str(text.size() > 1 ? "," : "", Json(t.name).dump(), ":{\"dtype\":\"", name_of(t.stored()),
                "\",\"shape\":", dims.dump(), ",\"data_offsets\":[", at, ",", at + bytes_of(t), "]}");
    at += bytes_of(t);
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i));
  return length + text;
}

void write_tensor(AtomicFile& file, const TensorSpec& spec, const Tensor& from, Nonfinite nonfinite) {
  require(from.numel() == spec.shape.numel(), "a tensor to be written has another size");
  const bool weight = is_weight_type(spec.dtype) && is_weight_type(from.dtype);
  require(weight || from.dtype == spec.dtype, "a tensor to be written has another type");
  const std::int64_t n = from.numel(), run = from.dense() ? n : from.cols();
  std::vector<std::byte> staging;
  for (std::int64_t i = 0; i < n;) {
    const std::int64_t count = std::min({n - i, run - i % run, kConverted});
    const std::byte* data = from.data + (i / run * from.stride + i % run) * size_of(from.dtype);
    if (from.dtype != spec.dtype) {
      staging.resize(static_cast<std::size_t>(count * size_of(spec.dtype)));
      convert(staging.data(), spec.dtype, data, from.dtype, count);
      data = staging.data();
    }
    if (weight && nonfinite == Nonfinite::refuse && find_nonfinite(data, spec.dtype, count) >= 0)
      throw UserError(Exit::numeric, str(printable(file.path()), ": not written: ", printable(spec.name),
                                         " has a NaN or Inf as ", name_of(spec.dtype)));
    file.write(data, count * size_of(spec.dtype));
    i += count;
  }
}

// Writes all but the final commit. Without a provider it writes zeros.
std::unique_ptr<AtomicFile> write_uncommitted(const std::string& path, std::vector<TensorSpec> tensors,
                                              const TensorProvider& provider, const Metadata& metadata,
                                              Nonfinite nonfinite) {
  sort_as_stored(tensors);
  const std::string header = header_of(tensors, metadata);
  auto file = std::make_unique<AtomicFile>(path);
  auto bytes = static_cast<std::int64_t>(header.size());
  for (const auto& t : tensors) bytes += bytes_of(t);
  file->reserve(bytes);
  file->write(header);
  if (!provider) file->extend(bytes);
  for (const auto& t : tensors)
    if (provider) write_tensor(*file, t, provider(t), nonfinite);
  return file;
}

// Splits like Hugging Face: in the given order. A tensor that is too large gets a shard alone.
std::vector<std::vector<TensorSpec>> split(const std::vector<TensorSpec>& tensors, std::int64_t max_bytes) {
  std::vector<std::vector<TensorSpec>> shards;
  std::vector<TensorSpec> now;
  std::int64_t bytes = 0;
  for (const auto& t : tensors) {
    if (bytes_of(t) > max_bytes) {
      shards.push_back({t});
      continue;
    }
    if (bytes + bytes_of(t) > max_bytes) {
      shards.push_back(std::move(now));
      now.clear();
      bytes = 0;
    }
    now.push_back(t);
    bytes += bytes_of(t);
  }
  if (!now.empty() || shards.empty()) shards.push_back(std::move(now));
  return shards;
}

std::string shard_name(const std::string& stem, std::size_t i, std::size_t n) {
  const auto digits = [](std::size_t v) {
    const std::string text = std::to_string(v);
    return std::string(text.size() < 5 ? 5 - text.size() : 0, '0') + text;
  };
  return stem + (n == 1 ? "" : "-" + digits(i + 1) + "-of-" + digits(n)) + ".safetensors";
}

}  // namespace

void write_safetensors(const std::string& path, std::vector<TensorSpec> tensors,
                       const TensorProvider& provider, const Metadata& metadata, Nonfinite nonfinite) {
  write_uncommitted(path, std::move(tensors), provider, metadata, nonfinite)->commit();
}

WrittenFiles write_shards(const std::string& folder, const std::string& stem,
                          const std::vector<TensorSpec>& tensors, const TensorProvider& provider,
                          std::int64_t max_shard_bytes, Nonfinite nonfinite) {
  return write_files(folder, stem, split(tensors, max_shard_bytes), provider, nonfinite);
}

WrittenFiles write_files(const std::string& folder, const std::string& stem,
                         const std::vector<std::vector<TensorSpec>>& shards, const TensorProvider& provider,
                         Nonfinite nonfinite) {
  WrittenFiles written;
  std::map<std::string, std::string> weight_map;
  std::vector<std::unique_ptr<AtomicFile>> files;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(stem, i, shards.size());
    for (const auto& t : shards[i]) {
      require(weight_map.emplace(t.name, name).second, "a tensor is written twice");
      written.bytes += bytes_of(t);
    }
    files.push_back(
        write_uncommitted(join_path(folder, name), shards[i], provider, kTorchMetadata, nonfinite));
    written.names.push_back(name);
  }
  for (const auto& file : files) file->commit();
  if (shards.size() == 1) return written;
  const std::string index = stem + ".safetensors.index.json";
  const Json json = {{"metadata", {{"total_size", written.bytes}}}, {"weight_map", weight_map}};
  write_file(join_path(folder, index), json_text(json) + "\n");
  written.names.push_back(index);
  return written;
}

std::int64_t parse_byte_size(const std::string& text, const std::string& what) {
  static constexpr std::array<std::pair<const char*, double>, 9> kUnits = {{{"", 1},
                                                                            {"B", 1},
                                                                            {"KB", 1e3},
                                                                            {"MB", 1e6},
                                                                            {"GB", 1e9},
                                                                            {"TB", 1e12},
                                                                            {"KIB", 1024.0},
                                                                            {"MIB", 1048576.0},
                                                                            {"GIB", 1073741824.0}}};
  double number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  std::erase(unit, ' ');
  for (char& c : unit) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const auto& [name, factor] : kUnits)
    if (problem == std::errc() && unit == name && number * factor >= 1 && number * factor < 9e18)
      return static_cast<std::int64_t>(number * factor);
  throw UserError(Exit::config, str(what, " must be a size such as \"5GB\", is \"", printable(text), "\""));
}

}  // namespace ft
