#include "app/translate/sources.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/files/file.h"

namespace ft::translate {

std::string exported_part(const std::string& data_set, const std::string& configuration,
                          const std::string& part, Draft& draft) {
  std::string stem = data_set;
  std::replace(stem.begin(), stem.end(), '/', '.');
  const std::string file = stem + (configuration.empty() ? "" : "." + configuration) + "." + part + ".jsonl";
  if (!path_exists(file)) {
    const std::string of = configuration.empty() ? "" : "'" + configuration + "', ";
    draft.warnings.push_back(str("ft reads files: write ", printable(file),
                                 " once, for example with\n  python3 -c "
                                 "\"from datasets import load_dataset; load_dataset('",
                                 printable(data_set), "', ", printable(of), "split='", part, "').to_json('",
                                 printable(file), "')\""));
  }
  return file;
}

void expect_folder(const std::string& model, Draft& draft) {
  if (path_exists(join_path(model, "config.json"))) return;
  draft.warnings.push_back(str("ft reads the model from a folder, and ", printable(model),
                               " is none; write it once, for example with\n  hf download ", printable(model),
                               " --local-dir ", printable(model)));
}

bool is_t5(const std::string& model) {
  const std::string file = join_path(model, "config.json");
  if (path_exists(file)) {
    try {
      return JsonObject::read(file).text_or("model_type", "") == "t5";
    } catch (const UserError&) {
      return false;  // ft validate reports the error
    }
  }
  const std::size_t at = model.find("t5");
  return at != model.npos && (at == 0 || model[at - 1] != 'm');
}

}  // namespace ft::translate
