#include "app/train/reference_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "engine/files/file.h"
#include "engine/files/hash.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "engine/settings/fields.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kForm = "ft-reference-1";

Json hash_of(const fs::path& file) {
  return {{"name", file.filename().string()}, {"sha256", sha256(InputFile(file.string()))}};
}

// Hashes a model's or an adapter's weights, and the configuration that decides how to read them.
Json hashes_of(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".safetensors") || name == "config.json" || name == "adapter_config.json")
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  Json all = Json::array();
  for (const fs::path& file : files) all.push_back(hash_of(file));
  return all;
}

Json hashes_of(const BuiltModel& b) {
  return fs::is_regular_file(b.name) ? Json::array({hash_of(b.name)}) : hashes_of(b.folder);
}

std::string bytes_of(std::span<const std::int32_t> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

// Hashes the tokens and the labels of every sequence.
std::string hash_of(const Batcher* part) {
  std::string all;
  const auto add = [&](const SampleStore::View& v) {
    all += sha256(bytes_of(v.input_ids) + bytes_of(v.labels));
  };
  for (std::int64_t i = 0; part && i < part->data().size(); ++i) {
    add(part->data()[i]);
    if (part->data().kind() == RowKind::pair) add(part->data().rejected(i));
  }
  return sha256(all);
}

Json settings_of(const RunConfig& c, const BuiltModel& policy) {
  return {{"device", c.on_gpu() ? "cuda" : "cpu"},
          {"dtype", name_of(policy.dtype)},
          {"ld_alpha", c.objective.ld_alpha.value_or(1)},
          {"quantization", write_settings(c.quantization)},
          {"rows", policy.made.info.vocab_size}};
}

// Describes the adapter at the beginning of the run: its settings, the seed of its random weights, and its
// files.
Json adapter_of(const RunConfig& c) {
  Json adapter{{"settings", write_settings(c.lora)}, {"seed", c.training.seed}};
  if (c.lora.adapter_name_or_path) adapter["files"] = hashes_of(*c.lora.adapter_name_or_path);
  adapter["settings"].erase("adapter_name_or_path");
  return adapter;
}

Tensor tensor_of(const std::vector<double>& values) {
  auto* data = reinterpret_cast<std::byte*>(const_cast<double*>(values.data()));  // the values are only read
  return Tensor(data, DType::f64, {std::ssize(values)});
}

std::string checksum(const ReferenceLogps& r) {
  std::string all;
  for (const auto* part : {&r.train, &r.eval})
    all += sha256({reinterpret_cast<const char*>(part->data()), part->size() * sizeof(double)});
  return sha256(all);
}

std::vector<double> read_part(const SafetensorsFile& file, const char* name, std::size_t size) {
  const StoredTensor* t = file.find(name);
  if (!t || t->type != StoredType::f64 || t->numel != static_cast<std::int64_t>(size))
    throw UserError(Exit::input, str("it has no ", name, " of ", size));
  std::vector<double> values(size);
  file.read(*t, tensor_of(values), 0, Nonfinite::allow);
  return values;
}

}  // namespace

std::size_t sequences_of(const Batcher* part) {
  if (!part) return 0;
  return static_cast<std::size_t>(part->data().size()) * (part->data().kind() == RowKind::pair ? 2 : 1);
}

ReferenceFile::ReferenceFile(const RunConfig& config, const BuiltModel& policy,
                             const BuiltObjective& objective, const BuiltData& data)
    : train_(sequences_of(data.train.get())), eval_(sequences_of(data.eval.get())) {
  const BuiltModel& model = objective.reference ? *objective.reference : policy;
  of_ = {{"model", hashes_of(model)},
         {"data", {{"train", hash_of(data.train.get())}, {"eval", hash_of(data.eval.get())}}},
         {"settings", settings_of(config, policy)}};
  if (policy.lora && !objective.reference && !objective.is_base) of_["adapter"] = adapter_of(config);
  if (config.data.dataset_prepared_path)
    path_ = join_path(*config.data.dataset_prepared_path,
                      "reference-" + sha256(of_.dump()).substr(0, 32) + ".safetensors");
  else
    path_ = join_path(config.training.output_dir, "reference.safetensors");
}

std::optional<ReferenceLogps> ReferenceFile::read(std::string& why) const try {
  if (!path_exists(path_)) return std::nullopt;
  const SafetensorsFile file(path_);
  std::string form, of, sum;
  for (const auto& [name, text] : file.metadata()) {
    if (name == "format") form = text;
    if (name == "of") of = text;
    if (name == "sha256") sum = text;
  }
  const Json theirs = parse_json(of, {path_, 1});
  for (const char* part : {"model", "adapter", "data", "settings"})
    if (form != kForm || theirs.value(part, Json()) != of_.value(part, Json())) {
      why = str("is of other ", part == std::string("model") ? "weights" : part);
      return std::nullopt;
    }
  ReferenceLogps r{read_part(file, "train", train_), read_part(file, "eval", eval_)};
  if (checksum(r) == sum) return r;
  why = "is damaged";
  return std::nullopt;
} catch (const UserError&) {
  why = "is damaged";
  return std::nullopt;
} catch (const Json::exception&) {
  why = "is damaged";
  return std::nullopt;
}

void ReferenceFile::write(const ReferenceLogps& r) const {
  std::error_code error;
  fs::create_directories(folder_of(path_), error);
  if (error) throw UserError(Exit::storage, str(folder_of(path_), ": ", error.message()));
  write_safetensors(
      path_, {{"train", DType::f64, {std::ssize(r.train)}}, {"eval", DType::f64, {std::ssize(r.eval)}}},
      [&](const TensorSpec& spec) { return tensor_of(spec.name == "train" ? r.train : r.eval); },
      {{"format", kForm}, {"of", of_.dump()}, {"sha256", checksum(r)}}, Nonfinite::allow);
}

}  // namespace ft
