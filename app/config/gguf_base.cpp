#include "app/config/gguf_base.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "app/config/config.h"
#include "data/gguf_tokenizer.h"
#include "engine/io/file.h"
#include "engine/io/gguf.h"
#include "models/gguf_config.h"

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

}  // namespace

void unpack_gguf(BaseModelConfig& model) {
  std::error_code none;
  const std::string& path = model.model_name_or_path;
  if (model.unpacked || !fs::is_regular_file(path, none) || !GgufFile::is_one(path)) return;
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
