#include "engine/files/safetensors/weights.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/files/convert.h"
#include "engine/files/json.h"

namespace ft {
namespace {

constexpr std::int64_t kMostStacked = 1 << 16;  // matrices in a stack

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
    for (const auto& t : files_[0]->tensors()) entries_[t.name] = {.file = files_[0].get(), .tensor = &t};
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
    entries_[name] = {.file = file, .tensor = tensor};
  }
  if (entries_.empty()) json.refuse("weight_map", "an object of names and files, not empty");
}

void ModelFolder::name_as(const StoredNames& as) {
  std::erase_if(entries_, [&](const auto& e) {
    return std::ranges::any_of(as.skip, [&](const std::string& end) { return e.first.ends_with(end); }) ||
           std::ranges::any_of(as.others,
                               [&](const std::string& begin) { return e.first.starts_with(begin); });
  });
  if (!as.nested.empty()) leave_out(as.prefix, as.nested);
  if (std::ranges::any_of(entries_, [&](const auto& e) { return e.first.starts_with(as.prefix); }))
    return take_apart(as.stacks);
  std::map<std::string, Entry> named;
  for (const auto& [name, entry] : entries_) named[name == as.head ? name : as.prefix + name] = entry;
  entries_ = std::move(named);
  take_apart(as.stacks);
}

void ModelFolder::leave_out(const std::string& prefix, const std::string& nested) {
  std::map<std::string, Entry> named;
  for (const auto& [name, entry] : entries_) {
    const bool there = name.starts_with(prefix + nested);
    named[there ? prefix + name.substr(prefix.size() + nested.size()) : name] = entry;
  }
  entries_ = std::move(named);
}

void ModelFolder::take_apart(const std::vector<StoredStack>& stacks) {
  std::map<std::string, Entry> parts;
  for (const StoredStack& stack : stacks)
    for (auto e = entries_.begin(); e != entries_.end();) {
      const auto& [name, whole] = *e;
      if (!name.ends_with(stack.from)) {
        ++e;
        continue;
      }
      const std::string start = name.substr(0, name.size() - stack.from.size());
      const std::vector<std::int64_t>& shape = whole.tensor->shape;
      const auto p = std::ssize(stack.to);
      if (stack.to[0].find('%') == std::string::npos) {
        parts[start + stack.to[0]] = whole;
      } else if (shape.size() == 3 && shape[0] <= kMostStacked && shape[1] % p == 0 &&
                 whole.tensor->numel > 0) {
        const std::vector<std::int64_t> own{shape[1] / p, shape[2]};
        for (std::int64_t i = 0; i < shape[0] * p; ++i) {
          std::string end = stack.to[static_cast<std::size_t>(i % p)];
          end.replace(end.find('%'), 1, std::to_string(i / p));
          parts[start + end] = {whole.file, whole.tensor, i * own[0] * own[1], own};
        }
      } else {
        throw UserError(Exit::input, str(printable(whole.file->path()), ": ", printable(name), " is ",
                                         shape_text(shape), ", not a matrix for each expert"));
      }
      e = entries_.erase(e);
    }
  entries_.merge(parts);
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
  return {e.file->path(), e.tensor->type, e.shape.empty() ? e.tensor->shape : e.shape};
}

void ModelFolder::read(const std::string& name, const Tensor& to, std::int64_t first) const {
  const Entry& e = at(name);
  e.file->read(*e.tensor, to, e.first + first, nonfinite_);
}

StoredBytes ModelFolder::find_stored(const std::string& name, DType type, std::int64_t elements) const {
  const auto it = entries_.find(name);
  if (it == entries_.end()) return {};
  const Entry& e = it->second;
  const std::int64_t own = e.shape.empty() ? e.tensor->numel : e.shape[0] * e.shape[1];
  if (memory_type(e.tensor->type) != type || own != elements) return {};
  return {e.file->path(), e.file->state(), e.tensor->begin + e.first * size_of(type)};
}

std::int64_t ModelFolder::bytes() const {
  std::int64_t sum = 0;
  for (const auto& [name, e] : entries_) {
    const std::int64_t all = e.tensor->end - e.tensor->begin;
    sum += e.shape.empty() ? all : all / e.tensor->numel * e.shape[0] * e.shape[1];
  }
  return sum;
}

}  // namespace ft
