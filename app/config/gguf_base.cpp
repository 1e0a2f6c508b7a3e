#include "app/config/gguf_base.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "app/config/config.h"
#include "data/tokenizers/gguf_tokenizer.h"
#include "engine/files/file.h"
#include "engine/files/json.h"
#include "engine/formats/gguf/gguf.h"
#include "models/gguf/gguf_config.h"

namespace ft {
namespace fs = std::filesystem;
namespace {

std::shared_ptr<const std::string> temporary_folder() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  std::string name = ((error ? fs::path("/tmp") : parent) / "ft-gguf-XXXXXX").string();
  if (!mkdtemp(name.data()))
    throw UserError(Exit::storage, str(name, ": cannot make the folder: ", system_error_text(errno)));
  return {new std::string(name), [](const std::string* folder) {
            std::error_code none;
            fs::remove_all(*folder, none);
            delete folder;
          }};
}

// Throws UserError (input) if the model's folder is an adapter: it has adapter_config.json and no
// config.json.
void refuse_adapter(const BaseModelConfig& model) {
  const std::string& folder = model.folders.at(model.model_name_or_path);
  const std::string file = join_path(folder, "adapter_config.json");
  if (!path_exists(file) || path_exists(join_path(folder, "config.json"))) return;
  constexpr const char* kBase = "base_model_name_or_path";
  const JsonObject config = JsonObject::read(file);
  const std::string base = config.is_text(kBase) ? config.text(kBase) : "";
  throw UserError(Exit::input, str(printable(model.model_name_or_path), ": is an adapter, not a model; ",
                                   base.empty() ? "adapter_config.json does not name its base. Give its base"
                                                : "its base is " + printable(base) + ". Give that",
                                   " as the model and this folder as the adapter (--adapter, or "
                                   "lora.adapter_name_or_path to train on)"));
}

}  // namespace

void prepare_base(BaseModelConfig& model) {
  if (model.unpacked || !model.folders.has(model.model_name_or_path)) return;
  refuse_adapter(model);
  std::error_code none;
  const std::string& path = model.model_name_or_path;
  if (!fs::is_regular_file(path, none) || !GgufFile::is_one(path)) return;
  const GgufFile file(path);
  const auto folder = temporary_folder();
  write_file(join_path(*folder, "config.json"), config_of_gguf(file));
  write_gguf_tokenizer(file, *folder);
  model.unpacked = folder;
}

std::string gguf_warning(const std::string& path, const std::string& types, const std::string& into) {
  return str(path, ": its weights (", types, ") are ", into,
             "; a model trained from the original weights is a little better");
}

}  // namespace ft
