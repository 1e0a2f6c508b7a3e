#include "app/models/init.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "app/assembly/built_model.h"
#include "app/files/model_files.h"
#include "app/models/random_weights.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "engine/files/convert.h"
#include "engine/files/staged_folder.h"
#include "engine/formats/bitsandbytes_write.h"
#include "models/text_config.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

constexpr float kMaxDeviation = 1000;  // with larger weights, float16 would soon overflow

// Returns the dtype of the weights: the one asked for, else the configuration's.
DType weights_dtype(const JsonObject& config, const std::string& asked) {
  if (const auto dtype = parse_dtype(asked)) return *dtype;
  const char* key = config.has("dtype") ? "dtype" : "torch_dtype";
  const std::string name = config.text_or(key, name_of(DType::f32));
  for (const DType t : {DType::f32, DType::bf16, DType::f16})
    if (name == name_of(t)) return t;
  config.refuse(key, "one of float32, bfloat16, float16 (--dtype sets another)");
}

// Returns the folder to create, without a slash at the end. Throws UserError (config) if it exists, (storage)
// if the disk is too small.
fs::path new_folder(const std::string& name, double bytes) {
  if (name.empty()) throw UserError(Exit::config, "--output: is empty; give a new folder");
  fs::path output(name);
  while (!output.has_filename() && output.has_relative_path()) output = output.parent_path();
  std::error_code none;
  if (fs::exists(fs::symlink_status(output, none)))
    throw UserError(Exit::config, printable(name) + " already exists; give a new folder");
  fs::path there = fs::absolute(output).parent_path();
  while (there.has_relative_path() && !fs::exists(there, none)) there = there.parent_path();
  const fs::space_info disk = fs::space(there, none);
  if (!none && static_cast<double>(disk.available) < bytes)
    throw UserError(Exit::storage,
                    str(printable(name), ": the weights take ",
                        show::file_size(static_cast<std::int64_t>(std::min(bytes, 9e18))), " and there are ",
                        show::file_size(static_cast<std::int64_t>(disk.available)), " free"));
  return output;
}

using Stored = std::map<std::string, StoredFourBit>;

// Returns the weights to write in 4 bits: those that `ft quantize` would choose. The model cannot be used
// afterwards.
Stored four_bit_weights(MadeModel& made, const InitArgs& args, const RandomWeights& weights, DType dtype) {
  if (!args.load_in_4bit) return {};
  EachParameter freeze([](Parameter& p) { p.trainable = false; });
  made.model->visit(freeze);
  const FourBitForm form{.nested = args.double_quant};
  const lora::FourBitPlan plan{form, {"lm_head"}, false};
  const lora::FourBitWeights chosen(*made.model, plan_of(made.info, plan), nullptr);
  if (chosen.turns())
    throw UserError(Exit::config, made.info.model_type +
                                      ": ft writes no 4-bit files of weights that are stored inputs first; "
                                      "leave out --load-in-4bit");
  Stored all;
  for (const auto& [name, shape] : weights.tensors())
    if (chosen.find(name)) all[name] = {form, dtype, shape, 0};
  if (std::ranges::any_of(all, [&](const auto& w) { return is_stacked(made.info, w.first); }))
    throw UserError(Exit::config, made.info.model_type +
                                      ": its files have the experts of a layer in one tensor, which ft does "
                                      "not write in 4 bits; leave out --load-in-4bit");
  return all;
}

std::vector<TensorSpec> files_tensors(const RandomWeights& weights, const Stored& four_bit, DType dtype) {
  std::vector<TensorSpec> all;
  for (const auto& [name, shape] : weights.tensors())
    if (const auto at = four_bit.find(name); at == four_bit.end())
      all.push_back({name, weights.wide(name) ? DType::f32 : dtype, shape});
    else
      std::ranges::move(four_bit_specs(name, at->second), std::back_inserter(all));
  return all;
}

// Returns a double, for the reason given at RandomWeights::parameters.
double bytes_of(const std::vector<TensorSpec>& tensors) {
  double sum = 0;
  for (const TensorSpec& t : tensors)
    sum += static_cast<double>(t.shape.numel()) * static_cast<double>(size_of(t.dtype));
  return sum;
}

// Writes the values into the folder's files, tensor by tensor.
void fill(const std::string& folder, RandomWeights& weights, const Stacks& stacks, const Stored& four_bit,
          Working& working) {
  SafetensorsFiller files(folder);
  double done = 0;
  for (const auto& [name, shape] : weights.tensors()) {
    working(static_cast<std::int64_t>(done), static_cast<std::int64_t>(weights.parameters()));
    done += static_cast<double>(shape.numel());
    const Tensor values = weights(name, shape);
    if (const auto at = four_bit.find(name); at == four_bit.end()) {
      const Stacks::Place place = stacks.place_of(name);
      files.write(place.tensor, place.first, values);
    } else {
      const StoredFourBit& s = at->second;
      FourBitData data = quantize(shape.numel(), s.dtype, s.form, [&](const Tensor& to, std::int64_t first) {
        convert(to.data, to.dtype, values.as<float>() + first, DType::f32, to.numel());
      });
      write_four_bit(files, name, s, data);
    }
  }
  files.sync();
}

// Writes config.json with the dtype of the weights, under the key that the file uses.
void write_config(const fs::path& from, const std::string& to, const ModelInfo& info, DType dtype,
                  const Stored& four_bit) {
  Json j = text_alone(read_json(from.string()), info.architecture);
  j[j.contains("dtype") ? "dtype" : "torch_dtype"] = name_of(dtype);
  if (!j.contains("architectures")) j["architectures"] = {info.architecture};
  if (info.mxfp4) j.erase("quantization_config");  // all weights are written dense
  if (!four_bit.empty()) j["quantization_config"] = four_bit_config(four_bit.begin()->second.form, dtype);
  write_file(to, json_text(j) + "\n");
}

}  // namespace

Exit init(const InitArgs& args) {
  const fs::path given(args.config), file = is_directory(given) ? given / "config.json" : given;
  const JsonObject config = text_settings(JsonObject::read(file.string()));
  MadeModel made = make_model(file.string(), DType::f32);
  if (made.info.initializer_range > kMaxDeviation)
    config.refuse("initializer_range", str("a number from 0 to ", kMaxDeviation));
  if (args.load_in_4bit && config.has("quantization_config"))
    config.refuse("quantization_config", "left out: --load-in-4bit writes it");
  const DType dtype = weights_dtype(config, args.dtype);

  RandomWeights weights(made, static_cast<std::uint64_t>(args.seed),
                        config.integer_or("pad_token_id", -1, -1));
  const Stored four_bit = four_bit_weights(made, args, weights, dtype);
  const Stacks stacks = file_stacks(files_tensors(weights, four_bit, dtype), made.info);
  const std::vector<TensorSpec>& tensors = stacks.tensors();
  StagedFolder folder(new_folder(args.output, bytes_of(tensors)).string());
  Screen screen(Screen::standard_error());
  Working working(screen, "writing " + printable(args.output));
  const WrittenFiles written = write_shards(folder.path(), "model", tensors, {});
  fill(folder.path(), weights, stacks, four_bit, working);
  write_config(file, folder.path() + "/config.json", made.info, dtype, four_bit);
  const std::string beside = folder_of(file.string());
  copy_companions(beside, beside, folder.path());
  folder.commit();
  screen.clear();
  std::cerr << "made     " << made.info.architecture << ", " << show::quantity(weights.parameters())
            << " parameters, " << name_of(dtype) << (four_bit.empty() ? "" : " and nf4") << ", "
            << show::plural(std::ssize(written.names), "file") << " of " << show::file_size(written.bytes)
            << " -> " << printable(args.output) << "\n";
  return Exit::done;
}

}  // namespace ft
