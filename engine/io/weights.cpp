#include "engine/io/weights.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/io/convert.h"
#include "engine/io/json.h"

namespace ft {
namespace {

[[noreturn]] void refuse_without_weights(const std::string& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0)
    throw UserError(Exit::input, str(printable(folder), ": there is no such model folder"));
  if (!S_ISDIR(info.st_mode)) throw UserError(Exit::input, str(printable(folder), ": is not a model folder"));
  std::string pickle;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".bin" || extension == ".pt" || extension == ".pth")
      pickle = std::max(pickle, entry.path().filename().string());
  }
  if (!pickle.empty())
    throw UserError(
        Exit::input,
        str(printable(folder), ": has no model.safetensors, only ", printable(pickle),
            "; a pickle can run code and is not read. Convert it once, where transformers is installed:\n"
            "  AutoModelForCausalLM.from_pretrained(folder).save_pretrained(new_folder)"));
  const bool adapter = path_exists(join_path(folder, "adapter_model.safetensors"));
  throw UserError(Exit::input, str(printable(folder), ": has no model.safetensors",
                                   adapter ? "; it is an adapter, not a model" : ""));
}

}  // namespace

void WeightSource::expect(const std::string& name, const Shape& shape) const {
  const WeightInfo is = info(name);
  const std::string where = printable(is.file) + ": " + printable(name);
  const auto type = dtype_of(is.type);
  if (!type || !is_weight_type(*type))
    throw UserError(Exit::input, str(where, " is ", name_of(is.type), "; ft reads F32, F16 and BF16"));
  if (!std::equal(is.shape.begin(), is.shape.end(), shape.dims, shape.dims + shape.rank))
    throw UserError(Exit::input,
                    str(where, " is ", shape_text(is.shape), ", config.json asks for ", to_string(shape)));
}

ModelFolder::ModelFolder(const std::string& folder, Nonfinite nonfinite)
    : folder_(folder), nonfinite_(nonfinite) {
  const std::string single = join_path(folder, "model.safetensors"), index = single + ".index.json";
  if (path_exists(single)) {
    files_.push_back(std::make_unique<SafetensorsFile>(single));
    for (const auto& t : files_[0]->tensors()) entries_[t.name] = {files_[0].get(), &t};
  } else if (path_exists(index)) {
    read_index(index);
  } else {
    refuse_without_weights(folder);
  }
}

void ModelFolder::read_index(const std::string& index) {
  const JsonObject json = JsonObject::read(index, {.max_bytes = std::size_t{64} << 20});
  const JsonObject map = json.object("weight_map");
  std::map<std::string, const SafetensorsFile*> open;
  for (const auto& [name, value] : map.json().items()) {
    if (!value.is_string()) map.refuse(name, "the name of a file");
    const auto& shard = value.get_ref<const std::string&>();
    require_inside(shard, index);
    if (!shard.ends_with(".safetensors")) map.refuse(name, "the name of a .safetensors file");
    const SafetensorsFile*& file = open[shard];
    if (file == nullptr)
      file = files_.emplace_back(std::make_unique<SafetensorsFile>(join_path(folder_, shard))).get();
    const StoredTensor* tensor = file->find(name);
    if (tensor == nullptr)
      throw UserError(Exit::input, str(printable(file->path()), ": has no ", printable(name), ", which ",
                                       printable(index), " says it has"));
    entries_[name] = {file, tensor};
  }
  if (entries_.empty()) json.refuse("weight_map", "an object of names and files, not empty");
}

void ModelFolder::name_as(const StoredNames& as) {
  std::erase_if(entries_, [&](const auto& e) {
    return std::ranges::any_of(as.skip, [&](const std::string& end) { return e.first.ends_with(end); });
  });
  if (std::ranges::any_of(entries_, [&](const auto& e) { return e.first.starts_with(as.prefix); })) return;
  std::map<std::string, Entry> named;
  for (const auto& [name, entry] : entries_) named[name == as.head ? name : as.prefix + name] = entry;
  entries_ = std::move(named);
}

const ModelFolder::Entry& ModelFolder::at(const std::string& name) const {
  const auto it = entries_.find(name);
  if (it != entries_.end()) return it->second;
  const std::string where = files_.size() == 1 ? files_[0]->path() : folder_;
  throw UserError(Exit::input,
                  str(printable(where), ": has no ", printable(name), ", which config.json asks for"));
}

std::vector<std::string> ModelFolder::names() const {
  std::vector<std::string> out;
  out.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) out.push_back(name);
  return out;
}

bool ModelFolder::has(const std::string& name) const { return entries_.contains(name); }

WeightInfo ModelFolder::info(const std::string& name) const {
  const Entry& e = at(name);
  return {e.file->path(), e.tensor->type, e.tensor->shape};
}

void ModelFolder::read(const std::string& name, const Tensor& to, std::int64_t first) const {
  const Entry& e = at(name);
  e.file->read(*e.tensor, to, first, nonfinite_);
}

StoredBytes ModelFolder::find_stored(const std::string& name, DType type, std::int64_t elements) const {
  const auto it = entries_.find(name);
  if (it == entries_.end()) return {};
  const auto& [file, tensor] = it->second;
  if (tensor->type != stored_type(type) || tensor->numel != elements) return {};
  return {file->path(), file->state(), tensor->begin};
}

std::int64_t ModelFolder::bytes() const {
  std::int64_t sum = 0;
  for (const auto& [name, e] : entries_) sum += e.tensor->end - e.tensor->begin;
  return sum;
}

}  // namespace ft
