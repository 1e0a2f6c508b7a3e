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

namespace ft {
namespace {

constexpr std::int64_t kCopied = std::int64_t{1} << 20;  // elements copied at once

RunConfig config_of(const QuantizeArgs& args) {
  RunConfig c;
  c.model.model_name_or_path = args.model;
  prepare_base(c.model);
  if (lora::stored_four_bit_plan(join_path(c.model.folder(), "config.json")))
    throw UserError(Exit::input, str(printable(args.model), ": is quantized already"));
  c.quantization.load_in_4bit = true;
  c.quantization.bnb_4bit_quant_type = *value_of<FourBitBook>(args.type);
  c.quantization.bnb_4bit_use_double_quant = args.double_quant;
  return c;
}

// Writes the 4-bit form of a model's folder, tensor by tensor.
class Quantizer {
 public:
  explicit Quantizer(const BuiltModel& b) : base_(*b.base), four_bit_(*b.four_bit) {
    if (four_bit_.turns())
      throw UserError(Exit::input, b.folder +
                                       ": ft writes no 4-bit files of weights that are stored inputs "
                                       "first, as GPT-2's are; quantization.load_in_4bit trains from "
                                       "the model itself");
    for (const std::string& name : base_.names())
      if (const FourBitWeight* w = four_bit_.find(name))
        weights_[name] = {w->form, type_of(name), w->shape, 0};
    if (std::ranges::any_of(base_.names(), [&](const auto& name) { return is_stacked(b.made.info, name); }))
      throw UserError(Exit::input, b.folder +
                                       ": its files have the experts of a layer in one tensor, which ft does "
                                       "not write in 4 bits; quantization.load_in_4bit trains from the model "
                                       "itself");
  }
  // Returns the tensors to write, by the file of the original folder.
  std::vector<std::vector<TensorSpec>> specs() const {
    std::map<std::string, std::vector<TensorSpec>> files;
    for (const std::string& name : base_.names()) {
      std::vector<TensorSpec>& file = files[base_.info(name).file];
      if (const auto w = weights_.find(name); w == weights_.end())
        file.push_back({name, type_of(name), shape_of(name)});
      else
        for (TensorSpec& s : four_bit_specs(name, w->second)) file.push_back(std::move(s));
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
    const DType type = type_of(name);
    const std::int64_t n = shape_of(name).numel();
    std::vector<std::byte> values(static_cast<std::size_t>(std::min(kCopied, n) * size_of(type)));
    for (std::int64_t at = 0; at < n; at += kCopied) {
      const Tensor part(values.data(), type, {std::min(kCopied, n - at)});
      base_.read(name, part, at);
      to.write(name, at, part);
    }
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
  const lora::FourBitWeights& four_bit_;
  std::map<std::string, StoredFourBit> weights_;
};

// Writes config.json. `compute`: the dtype of the original weights becomes the dtype of the computation.
void write_config(const BuiltModel& built, const std::string& folder, FourBitForm form, DType compute) {
  Json j = model_config(built);
  write_tying(j, built.made.info);
  j["quantization_config"] = four_bit_config(form, compute);
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
  const FourBitWeight& first = built.four_bit->first();
  write_config(built, folder.path(), first.form, *dtype_of(built.base->info(first.codes.stored_name()).type));
  copy_companions(built.folder, built.folder, folder.path());
  copy_sentence_files(built.folder, folder.path());
  folder.commit();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  screen.line(str("quantized ", show::plural(built.four_bit->count(), "linear"), " to ", args.type,
                  args.double_quant ? " with double quantization" : "", ", ",
                  show::plural(static_cast<std::int64_t>(written.names.size()), "file"), ", ",
                  show::memory(written.bytes), ", ", show::duration(seconds), " -> ", args.output));
  return Exit::done;
}

}  // namespace ft
