#include "app/models/export.h"

#include <filesystem>

#include "app/config/hub_folders.h"
#include "app/files/model_files.h"
#include "app/files/output_folder.h"
#include "app/files/sentence_files.h"
#include "app/gguf/export.h"
#include "app/gguf/types.h"
#include "app/models/merge.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "engine/files/file.h"
#include "engine/files/json.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "lora/peft.h"

namespace ft {
namespace fs = std::filesystem;
namespace {

bool is_adapter(const std::string& folder) {
  std::error_code none;
  return fs::exists(fs::path(folder) / "adapter_config.json", none);
}

// Returns the base model that the adapter in a run's folder was trained on. run.json gives its path, if there
// is one.
std::string base_of(const std::string& folder) {
  const std::string run = join_path(folder, "run.json");
  std::error_code none;
  if (fs::exists(run, none)) {
    const JsonObject model = JsonObject::read(run).object("model");
    return model_folder(model.text("model_name_or_path"), model.text_or("revision", "main"), run);
  }
  const std::string file = join_path(folder, "adapter_config.json"),
                    base = lora::read_adapter_config(file, Exit::input, lora::KindsRead::all).base_model;
  if (base.empty())
    throw UserError(Exit::input,
                    str(folder,
                        ": neither run.json nor adapter_config.json says which model the adapter is for; "
                        "use ft merge --model MODEL --adapter ",
                        folder));
  return model_folder(base, "main", file);
}

void export_adapter(const std::string& from, const std::string& to, DType dtype) {
  const SafetensorsFile weights(join_path(from, "adapter_model.safetensors"));
  std::vector<TensorSpec> specs;
  for (const StoredTensor& t : weights.tensors()) {
    Shape shape;
    require(t.shape.size() <= std::size(shape.dims), "an adapter's tensor has at most four dimensions");
    for (const auto d : t.shape) shape.dims[shape.rank++] = d;
    specs.push_back({t.name, dtype, shape});
  }
  std::vector<float> values;
  write_safetensors(join_path(to, "adapter_model.safetensors"), specs, [&](const TensorSpec& spec) {
    values.resize(static_cast<std::size_t>(spec.shape.numel()));
    const Tensor y(reinterpret_cast<std::byte*>(values.data()), DType::f32, spec.shape);
    weights.read(*weights.find(spec.name), y);
    return y;
  });
  const std::string config = "adapter_config.json";
  write_file(join_path(to, config), read_file(join_path(from, config), std::int64_t{1} << 24));
}

}  // namespace

std::vector<std::string> export_dtypes() { return gguf_dtypes(); }

Exit export_model(const ExportArgs& given) {
  ExportArgs args = given;
  if (!args.dtype.empty() && gguf_form(args.dtype).quantized() && args.to != "gguf")
    throw UserError(Exit::config, str("--dtype ", args.dtype, " is for --to gguf"));
  args.from = model_folder(args.from, "main", "ft export --from");
  const bool adapter = is_adapter(args.from);
  if (args.to.starts_with("gguf")) {
    const bool alone = args.to == "gguf-lora";
    if (alone && !adapter)
      throw UserError(Exit::input, str(args.from,
                                       ": contains no adapter (adapter_config.json); a model is "
                                       "exported with --to gguf"));
    const std::string model = adapter ? base_of(args.from) : args.from;
    const GgufArgs gguf{model,
                        adapter ? args.from : "",
                        holds_tokenizer(args.from) ? args.from : model,
                        args.output,
                        args.dtype,
                        args.overwrite,
                        qat_of(args.from)};
    alone ? export_gguf_lora(gguf) : export_gguf(gguf);
    return Exit::done;
  }
  if (args.to == "hf") {
    return merge({.model = adapter ? base_of(args.from) : args.from,
                  .adapter = adapter ? args.from : "",
                  .output = args.output,
                  .dtype = args.dtype,
                  .overwrite = args.overwrite});
  }
  if (!adapter)
    throw UserError(Exit::input,
                    str(args.from,
                        ": contains no adapter (adapter_config.json); a fully trained model is exported "
                        "with --to hf"));
  const lora::AdapterFolder read(args.from);  // throws if ft cannot read the adapter
  const lora::LoraStart start = lora::start_of(read.config().init_lora_weights).value();
  if (start.iterations > 0 || start.init == lora::LoraInit::lora_ga)
    throw UserError(Exit::input,
                    str(read.config_file(), ": init_lora_weights: the part of the base that ",
                        start.iterations > 0 ? "pissa_niter_N subtracted at random is in no file"
                                             : "lora_ga subtracted is in no file that PEFT reads",
                        "; export the result of the run"));
  require_sentence_files(args.from);
  OutputFolder output(args.output, args.overwrite, {args.from});
  export_adapter(args.from, output.path(), parse_dtype(args.dtype).value_or(DType::f32));
  copy_tokenizer(args.from, output.path());
  copy_sentence_files(args.from, output.path());
  output.commit();
  Screen screen(Screen::standard_error());
  screen.line(str("exported  ", args.from, " -> ", args.output, " (PEFT)"));
  return Exit::done;
}

}  // namespace ft
