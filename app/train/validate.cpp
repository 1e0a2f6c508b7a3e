#include "app/train/validate.h"

#include <filesystem>
#include <iostream>

#include "app/config/config.h"
#include "app/screen/format.h"
#include "data/files.h"
#include "lora/attach.h"
#include "models/registry.h"

namespace ft {
namespace {

void check_folder(const std::string& path, const std::string& setting) {
  std::error_code error;
  if (is_directory(std::filesystem::path(path), error)) return;
  const bool there = exists(std::filesystem::path(path), error);
  throw UserError(Exit::config,
                  str(setting, ": ", printable(path), there ? " is not a folder" : " does not exist"));
}

void check_data(const DataConfig& data) {
  const auto check = [](const std::vector<DatasetConfig>& list, const std::string& setting) {
    for (std::size_t i = 0; i < list.size(); ++i)
      find_data_files(list[i].path, "", str(setting, ".", i, ".path"));
  };
  check(data.datasets, "data.datasets");
  check(data.eval_datasets, "data.eval_datasets");
}

void check(const RunConfig& c) {
  check_folder(c.model.model_name_or_path, "model.model_name_or_path");
  check_folder(c.model.tokenizer(), "model.tokenizer_name_or_path");
  const auto made = make_model(c.model.model_name_or_path + "/config.json", DType::f32);
  if (c.lora.adapter_name_or_path)
    check_folder(*c.lora.adapter_name_or_path, "lora.adapter_name_or_path");
  else if (c.finetuning_type == FinetuningType::lora)
    lora::attach(*made.model, c.lora, DType::f32, {"lora."});
  check_data(c.data);
}

}  // namespace

Exit validate(const ConfigArgs& args) {
  try {
    check(load_config(args.config, args.overrides));
  } catch (const UserError& e) {
    throw UserError(Exit::config, e.what());
  }
  std::cout << printable(args.config) << " is fine\n";
  return Exit::done;
}

}  // namespace ft
