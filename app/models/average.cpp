#include "app/models/average.h"

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "app/files/model_files.h"
#include "app/files/output_folder.h"
#include "app/files/sentence_files.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "engine/files/file.h"
#include "engine/files/json.h"
#include "engine/files/safetensors/safetensors.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "engine/files/safetensors/weights.h"
#include "lora/config.h"
#include "lora/peft_config.h"

namespace ft {
namespace {

constexpr const char* kAdapterWeights = "adapter_model.safetensors";

// The weight files of a folder.
struct Folder {
  std::string path;
  bool adapter = false;
  std::unique_ptr<ModelFolder> model;
  std::unique_ptr<SafetensorsFile> file;  // an adapter's file

  explicit Folder(const std::string& from) : path(from) {
    adapter = path_exists(join_path(path, kAdapterWeights));
    if (adapter)
      file = std::make_unique<SafetensorsFile>(join_path(path, kAdapterWeights));
    else
      model = std::make_unique<ModelFolder>(path);
  }
  std::vector<const SafetensorsFile*> files() const {
    if (adapter) return {file.get()};
    std::vector<const SafetensorsFile*> all;
    for (const auto& f : model->files()) all.push_back(f.get());
    return all;
  }
  // Returns the file and the tensor of that name, or nulls.
  std::pair<const SafetensorsFile*, const StoredTensor*> find(const std::string& name) const {
    for (const SafetensorsFile* f : files())
      if (const StoredTensor* t = f->find(name)) return {f, t};
    return {};
  }
};

[[noreturn]] void refuse(const std::string& what) {
  throw UserError(Exit::input, "ft merge --average: " + what);
}

bool is_float(std::optional<DType> t) { return t == DType::f32 || t == DType::bf16 || t == DType::f16; }

// True if the folder is a model of 16 bits by its config.json. Its tensors in f32 are those that stay so.
bool is_narrow(const Folder& folder) {
  if (folder.adapter) return false;
  const JsonObject config = JsonObject::read(join_path(folder.path, "config.json"));
  const std::string dtype = config.text_or(config.has("torch_dtype") ? "torch_dtype" : "dtype", "float32");
  return dtype == name_of(DType::bf16) || dtype == name_of(DType::f16);
}

// Returns the tensors to average, with the shapes of the last folder. Throws UserError (input) unless every
// folder has the same tensors with the same number of elements.
std::vector<TensorSpec> specs_of(const std::vector<Folder>& folders, std::optional<DType> dtype) {
  const Folder& last = folders.back();
  std::vector<TensorSpec> specs;
  const bool narrow = is_narrow(last);
  for (const SafetensorsFile* f : last.files())
    for (const StoredTensor& t : f->tensors()) {
      const auto type = dtype_of(t.type);
      if (!is_float(type) || t.shape.size() > 4)
        refuse(str(last.path, ": ", t.name, " is ", name_of(t.type), "; only floats have a mean"));
      Shape shape;
      for (const std::int64_t n : t.shape) shape.dims[shape.rank++] = n;
      const bool wide = narrow && type == DType::f32;
      specs.push_back({t.name, wide ? DType::f32 : dtype.value_or(*type), shape});
    }
  for (const Folder& folder : folders) {
    if (folder.adapter != last.adapter)
      refuse(str(folder.path, " and ", last.path, ": one is an adapter and the other a model"));
    std::size_t count = 0;
    for (const SafetensorsFile* f : folder.files()) count += f->tensors().size();
    if (count != specs.size())
      refuse(str(folder.path, " has ", count, " weights and ", last.path, " has ", specs.size()));
    for (const TensorSpec& s : specs) {
      const auto [file, tensor] = folder.find(s.name);
      if (!tensor || tensor->numel != s.shape.numel() || !is_float(dtype_of(tensor->type)))
        refuse(str(folder.path, ": ", s.name, " is missing or differs from that in ", last.path));
    }
  }
  return specs;
}

// Settings of an adapter that decide what its weights mean, with PEFT's defaults.
const std::array<std::pair<const char*, Json>, 15> kShaping = {{{"peft_type", "LORA"},
                                                                {"r", 8},
                                                                {"lora_alpha", 8},
                                                                {"use_rslora", false},
                                                                {"rank_pattern", Json::object()},
                                                                {"alpha_pattern", Json::object()},
                                                                {"use_dora", false},
                                                                {"lora_bias", false},
                                                                {"alora_invocation_tokens", nullptr},
                                                                {"oft_block_size", 32},
                                                                {"block_share", false},
                                                                {"num_cayley_neumann_terms", 5},
                                                                {"ensure_weight_tying", false},
                                                                {"trainable_token_indices", Json::array()},
                                                                {"init_lora_weights", true}}};

// Returns a setting, or its default, so that the order of an object's keys does not matter. init_lora_weights
// counts only if that initialization changes the base's weights.
nlohmann::json shaping(const JsonObject& config, const char* key, const Json& usual) {
  const Json& value = config.has(key) ? config.json()[key] : usual;
  const bool start = key == std::string_view("init_lora_weights");
  const auto begins = start && value.is_string() ? lora::start_of(value.get<std::string>()) : std::nullopt;
  if (start && !(begins && begins->changes_base())) return true;
  return nlohmann::json::parse(value.dump());
}

// Throws UserError (input) if the adapters' settings differ: their weights then have no meaningful mean.
void require_same_adapters(const std::vector<Folder>& folders) {
  const auto config = [](const Folder& f) {
    return JsonObject::read(join_path(f.path, "adapter_config.json"));
  };
  const Folder& last = folders.back();
  const JsonObject wanted = config(last);
  for (const Folder& f : folders) {
    const JsonObject own = config(f);
    if (lora::is_folded(f.path))  // throws
      lora::read_adapter_config(join_path(f.path, "adapter_config.json"), Exit::input);
    if (own.is_text("init_lora_weights") && own.text("init_lora_weights") == "lora_ga")
      refuse(str(f.path,
                 ": init_lora_weights: a checkpoint of lora_ga belongs to a base that lacks its first A "
                 "and B; average the results of runs, or merge the checkpoint first"));
    for (const auto& [key, usual] : kShaping)
      if (const auto a = shaping(own, key, usual), b = shaping(wanted, key, usual); a != b)
        refuse(str(f.path, " and ", last.path, ": adapters of another ", key, ", ", printable(a.dump()),
                   " and ", printable(b.dump()), ": their weights have no mean"));
  }
}

class Mean {
 public:
  explicit Mean(const std::vector<Folder>& folders) : folders_(folders) {}
  Tensor operator()(const TensorSpec& spec) {
    const auto n = static_cast<std::size_t>(spec.shape.numel());
    sums_.assign(n, 0);
    values_.resize(n);
    const Tensor values(reinterpret_cast<std::byte*>(values_.data()), DType::f32, spec.shape);
    for (const Folder& f : folders_) {
      const auto [file, tensor] = f.find(spec.name);
      file->read(*tensor, values);
      for (std::size_t i = 0; i < n; ++i) sums_[i] += values_[i];
    }
    for (std::size_t i = 0; i < n; ++i)
      values_[i] = static_cast<float>(sums_[i] / static_cast<double>(folders_.size()));
    return values;
  }

 private:
  const std::vector<Folder>& folders_;
  std::vector<double> sums_;
  std::vector<float> values_;
};

void copy_settings(const Folder& last, const std::string& output, std::optional<DType> dtype) {
  const char* const config = last.adapter ? "adapter_config.json" : "config.json";
  write_file(join_path(output, config),
             !last.adapter && dtype
                 ? config_with_dtype(read_json(join_path(last.path, "config.json")), *dtype)
                 : read_file(join_path(last.path, config), std::int64_t{1} << 26));
  copy_companions(last.path, last.path, output);
  copy_sentence_files(last.path, output);
}

}  // namespace

Exit average(const MergeArgs& args) {
  const std::optional<DType> dtype = parse_dtype(args.dtype);
  if (args.average.size() < 2) refuse("a mean needs two folders or more");
  std::vector<Folder> folders;
  for (const std::string& path : args.average) folders.emplace_back(path);
  const std::vector<TensorSpec> specs = specs_of(folders, dtype);
  if (folders.back().adapter) require_same_adapters(folders);
  require_sentence_files(folders.back().path);
  OutputFolder output(args.output, args.overwrite, args.average);
  Screen screen(Screen::standard_error());
  WrittenFiles written;
  {
    Working working(screen, "averaging", "tensors");
    std::int64_t done = 0;
    Mean mean(folders);
    written = write_shards(output.path(), folders.back().adapter ? "adapter_model" : "model", specs,
                           [&](const TensorSpec& spec) {
                             working(done++, static_cast<std::int64_t>(specs.size()));
                             return mean(spec);
                           });
  }
  copy_settings(folders.back(), output.path(), dtype);
  output.commit();
  screen.line(str("averaged ", show::plural(static_cast<std::int64_t>(folders.size()), "folder"), ", ",
                  show::plural(static_cast<std::int64_t>(specs.size()), "tensor"), ", ",
                  show::memory(written.bytes), " -> ", args.output));
  return Exit::done;
}

}  // namespace ft
