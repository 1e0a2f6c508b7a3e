#include "app/models/quantize.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "app/assembly/built_model.h"
#include "app/config/gguf_base.h"
#include "app/files/model_files.h"
#include "app/files/sentence_files.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "engine/files/json.h"
#include "engine/files/staged_folder.h"
#include "engine/formats/bitsandbytes_write.h"
#include "engine/formats/fp8_write.h"

namespace ft {
namespace {

constexpr std::int64_t kCopied = std::int64_t{1} << 20;  // elements copied at once

RunConfig config_of(const QuantizeArgs& args) {
  RunConfig c;
  c.model.model_name_or_path = args.model;
  prepare_base(c.model);
  const std::string file = join_path(c.model.folder(), "config.json");
  if (lora::stored_four_bit_plan(file) || lora::stored_fp8_plan(file))
    throw UserError(Exit::input, str(printable(args.model), ": is quantized already"));
  if (args.type == "fp8") {
    if (args.double_quant)
      throw UserError(Exit::config, "--double: the scales of fp8 are not quantized; leave it out");
    c.model.frozen_dtype = FrozenType::fp8;
    return c;
  }
  c.quantization.load_in_4bit = true;
  c.quantization.bnb_4bit_quant_type = *value_of<FourBitBook>(args.type);
  c.quantization.bnb_4bit_use_double_quant = args.double_quant;
  return c;
}

// Writes the quantized form of a model's folder, tensor by tensor.
class Quantizer {
 public:
  explicit Quantizer(const BuiltModel& b) : base_(*b.base), head_(b.made.info.head) {
    if (b.four_bit ? b.four_bit->turns() : b.fp8->turns())
      throw UserError(Exit::input, b.folder +
                                       ": ft writes no quantized files of weights that are stored inputs "
                                       "first, as GPT-2's are; quantization.load_in_4bit or "
                                       "model.frozen_dtype trains from the model itself");
    for (const std::string& name : base_.names()) {
      if (const FourBitWeight* w = b.four_bit ? b.four_bit->find(name) : nullptr)
        weights_[name] = {w->form, type_of(name), w->shape, 0};
      if (const Fp8Weight* w = b.fp8 ? b.fp8->find(name) : nullptr) fp8_[name] = w->shape;
    }
    if (std::ranges::any_of(base_.names(), [&](const auto& name) { return is_stacked(b.made.info, name); }))
      throw UserError(Exit::input, b.folder +
                                       ": its files have the experts of a layer in one tensor, which ft does "
                                       "not write quantized; quantization.load_in_4bit or model.frozen_dtype "
                                       "trains from the model itself");
  }
  // Returns the tensors to write, by the file of the original folder.
  std::vector<std::vector<TensorSpec>> specs() const {
    std::map<std::string, std::vector<TensorSpec>> files;
    for (const std::string& name : base_.names()) {
      std::vector<TensorSpec>& file = files[base_.info(name).file];
      if (const auto w = weights_.find(name); w != weights_.end())
        std::ranges::move(four_bit_specs(name, w->second), std::back_inserter(file));
      else if (const auto f = fp8_.find(name); f != fp8_.end())
        std::ranges::move(fp8_specs(name, f->second), std::back_inserter(file));
      else
        file.push_back({name, type_of(name), shape_of(name)});
    }
    std::vector<std::vector<TensorSpec>> all;
    for (auto& [name, tensors] : files) all.push_back(std::move(tensors));
    return all;
  }
  void write(SafetensorsFiller& to, const std::string& name) const {
    if (const auto w = weights_.find(name); w != weights_.end()) {
      FourBitData data = lora::quantized(base_, name, w->second.shape.numel(), w->second.form);
      return write_four_bit(to, name, w->second, data);
    }
    if (const auto f = fp8_.find(name); f != fp8_.end()) {
      Fp8Data data = lora::quantized_fp8(base_, name, f->second, false);
      return write_fp8(to, name, data);
    }
    const DType type = type_of(name);
    const std::int64_t n = shape_of(name).numel();
    std::vector<std::byte> values(static_cast<std::size_t>(std::min(kCopied, n) * size_of(type)));
    for (std::int64_t at = 0; at < n; at += kCopied) {
      const Tensor part(values.data(), type, {std::min(kCopied, n - at)});
      base_.read(name, part, at);
      to.write(name, at, part);
    }
  }
  // Returns the modules with a matrix that is not in FP8, tables of embeddings included, and the head.
  std::vector<std::string> kept() const {
    constexpr std::string_view kWeight = ".weight";
    std::vector<std::string> modules = {head_};
    for (const std::string& name : base_.names())
      if (name.ends_with(kWeight) && !fp8_.contains(name) && base_.info(name).shape.size() == 2)
        modules.push_back(name.substr(0, name.size() - kWeight.size()));
    std::ranges::sort(modules);
    modules.erase(std::unique(modules.begin(), modules.end()), modules.end());
    return modules;
  }

 private:
  DType type_of(const std::string& name) const {
    const WeightInfo info = base_.info(name);
    if (const auto type = dtype_of(info.type)) return *type;
    throw UserError(Exit::input, str(printable(info.file), ": ", printable(name), " is ", name_of(info.type),
                                     "; ft copies F64, F32, F16, BF16, I32 and U8"));
  }
  Shape shape_of(const std::string& name) const {
    const WeightInfo info = base_.info(name);
    Shape shape;
    if (info.shape.size() > std::size(shape.dims))
      throw UserError(Exit::input,
                      str(printable(info.file), ": ", printable(name), " has too many dimensions"));
    for (const auto d : info.shape) shape.dims[shape.rank++] = d;
    return shape;
  }

  const WeightSource& base_;
  std::string head_;
  std::map<std::string, StoredFourBit> weights_;
  std::map<std::string, Shape> fp8_;
};

// Writes config.json. The dtype of the original weights becomes the dtype of the computation.
void write_config(const BuiltModel& built, const Quantizer& quantizer, const std::string& folder) {
  Json j = model_config(built);
  write_tying(j, built.made.info);
  if (built.fp8) {
    j["quantization_config"] = fp8_config(quantizer.kept());
  } else {
    const FourBitWeight& first = built.four_bit->first();
    j["quantization_config"] =
        four_bit_config(first.form, *dtype_of(built.base->info(first.codes.stored_name()).type));
  }
  write_file(join_path(folder, "config.json"), json_text(j) + "\n");
}

}  // namespace

Exit quantize(const QuantizeArgs& args) {
  const auto start = std::chrono::steady_clock::now();
  if (path_exists(args.output))
    throw UserError(Exit::config, str("--output: ", args.output, " already exists; give another folder"));
  Screen screen(Screen::standard_error());
  const RunConfig config = config_of(args);
  const BuiltModel built = build_model(config, Weights::check, {}, {.work = Work::compute});
  show_warnings(screen, built);
  const Quantizer quantizer(built);
  StagedFolder folder(args.output);
  const WrittenFiles written = write_files(folder.path(), "model", quantizer.specs(), {});
  {
    const std::vector<std::string> names = built.base->names();
    SafetensorsFiller files(folder.path());
    Working working(screen, "quantizing", "tensors");
    for (std::size_t i = 0; i < names.size(); ++i) {
      working(static_cast<std::int64_t>(i), static_cast<std::int64_t>(names.size()));
      quantizer.write(files, names[i]);
    }
    files.sync();
  }
  write_config(built, quantizer, folder.path());
  copy_companions(built.folder, built.folder, folder.path());
  copy_sentence_files(built.folder, folder.path());
  folder.commit();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::int64_t count = built.fp8 ? built.fp8->count() : built.four_bit->count();
  screen.line(str("quantized ", show::plural(count, "linear"), " to ", args.type,
                  args.double_quant ? " with double quantization" : "", ", ",
                  show::plural(static_cast<std::int64_t>(written.names.size()), "file"), ", ",
                  show::memory(written.bytes), ", ", show::duration(seconds), " -> ", args.output));
  return Exit::done;
}

}  // namespace ft
