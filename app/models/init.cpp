#include "app/models/init.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>

#include "app/files/model_files.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "engine/core/random.h"
#include "engine/io/json.h"
#include "engine/io/parallel.h"
#include "engine/io/safetensors_write.h"
#include "engine/io/staged_folder.h"
#include "models/registry.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

constexpr float kMaxDeviation = 1000;  // beyond it float16 has no room for what may come

// The type of the weights: as asked for, else the configuration's.
DType weights_dtype(const JsonObject& config, const std::string& asked) {
  if (const auto dtype = parse_dtype(asked)) return *dtype;
  const char* key = config.has("dtype") ? "dtype" : "torch_dtype";
  const std::string name = config.text_or(key, name_of(DType::f32));
  for (const DType t : {DType::f32, DType::bf16, DType::f16})
    if (name == name_of(t)) return t;
  config.refuse(key, "one of float32, bfloat16, float16 (--dtype sets another)");
}

// Normal numbers of the family, by Box and Muller: two pairs from each four.
void fill_normal(std::vector<float>& values, std::size_t numel, Random random, double deviation) {
  constexpr std::size_t kChunk = 1 << 16;  // a multiple of four
  values.resize(numel);
  in_parallel(static_cast<std::int64_t>((numel + kChunk - 1) / kChunk), [&](std::int64_t chunk) {
    const std::size_t begin = static_cast<std::size_t>(chunk) * kChunk, end = std::min(numel, begin + kChunk);
    for (std::size_t i = begin; i < end; i += 4) {
      const Philox4 bits = random.at(i / 4);
      for (std::size_t pair = 0; pair < 4; pair += 2) {
        const double radius = deviation * std::sqrt(-2 * std::log(double{to_uniform(bits[pair])}));
        const double angle = 2 * std::numbers::pi * double{to_uniform(bits[pair + 1])};
        if (i + pair < end) values[i + pair] = static_cast<float>(radius * std::cos(angle));
        if (i + pair + 1 < end) values[i + pair + 1] = static_cast<float>(radius * std::sin(angle));
      }
    }
  });
}

using Deviations = std::map<std::string, double>;
std::vector<TensorSpec> tensors_of(Model& model, DType dtype, Deviations& deviations) {
  std::vector<TensorSpec> all;
  EachParameter each([&](Parameter& p) {
    all.push_back({p.name, dtype, p.shape});
    if (p.deviation) deviations[p.name] = *p.deviation;
  });
  model.visit(each);
  return all;
}

// In double: sizes that config.json may state multiply beyond every integer.
double numel_of(const std::vector<TensorSpec>& tensors) {
  double sum = 0;
  for (const TensorSpec& t : tensors) sum += static_cast<double>(t.shape.numel());
  return sum;
}

// The folder to make, without a slash at its end. Nothing may be there, and the disk must have room.
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

// config.json with the type of the weights, under the key that it uses.
void write_config(const fs::path& from, const std::string& to, const ModelInfo& info, DType dtype) {
  Json j = read_json(from.string());
  j[j.contains("dtype") ? "dtype" : "torch_dtype"] = name_of(dtype);
  if (!j.contains("architectures")) j["architectures"] = {info.architecture};
  write_file(to, json_text(j) + "\n");
}

}  // namespace

Exit init(const InitArgs& args) {
  const fs::path given(args.config), file = is_directory(given) ? given / "config.json" : given;
  const JsonObject config = JsonObject::read(file.string());
  const MadeModel made = make_model(file.string(), DType::f32);
  if (made.info.initializer_range > kMaxDeviation)
    config.refuse("initializer_range", str("a number from 0 to ", kMaxDeviation));
  const DType dtype = weights_dtype(config, args.dtype);
  const std::int64_t padding = config.integer_or("pad_token_id", -1, -1);

  Deviations deviations;
  const std::vector<TensorSpec> tensors = tensors_of(*made.model, dtype, deviations);
  const double parameters = numel_of(tensors);
  StagedFolder folder(new_folder(args.output, parameters * static_cast<double>(size_of(dtype))).string());
  Screen screen(Screen::standard_error());
  Working working(screen, "writing " + printable(args.output));
  const Random random = Random{static_cast<std::uint64_t>(args.seed)}.with("init");
  std::vector<float> values;
  std::int64_t done = 0;
  const auto fill = [&](const TensorSpec& spec) {
    const auto numel = static_cast<std::size_t>(spec.shape.numel());
    if (spec.shape.rank > 1)
      fill_normal(values, numel, random.with(spec.name),
                  deviations.contains(spec.name) ? deviations.at(spec.name) : made.info.initializer_range);
    else
      values.assign(numel, spec.name.ends_with(".bias") ? 0.0f : 1.0f);
    if (spec.name.ends_with("embed_tokens.weight") && 0 <= padding && padding < spec.shape[0])
      std::fill_n(values.begin() + padding * spec.shape[1], spec.shape[1], 0.0f);
    working(done += spec.shape.numel(), static_cast<std::int64_t>(parameters));
    return Tensor(reinterpret_cast<std::byte*>(values.data()), DType::f32, spec.shape);
  };
  const WrittenFiles written = write_shards(folder.path(), "model", tensors, fill);
  write_config(file, folder.path() + "/config.json", made.info, dtype);
  const std::string beside = folder_of(file.string());
  copy_companions(beside, beside, folder.path());
  folder.commit();
  screen.clear();
  std::cerr << "made     " << made.info.architecture << ", " << show::quantity(parameters) << " parameters, "
            << name_of(dtype) << ", " << show::plural(std::ssize(written.names), "file") << " of "
            << show::file_size(written.bytes) << " -> " << printable(args.output) << "\n";
  return Exit::done;
}

}  // namespace ft
