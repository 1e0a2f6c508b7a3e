// ft init: a model with random weights from a config.json, as transformers makes it: matrices and embeddings
// normal with deviation initializer_range, norms 1, biases 0, the padding token's embedding 0. A weight is a
// function of seed, name and index, whatever the number of threads.
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numbers>

#include "app/commands.h"
#include "app/format.h"
#include "app/model_files.h"
#include "app/screen.h"
#include "engine/core/random.h"
#include "engine/io/json.h"
#include "engine/io/parallel.h"
#include "engine/io/safetensors_write.h"
#include "engine/io/staged_folder.h"
#include "models/registry.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

DType dtype_named(const std::string& name) {
  if (name == "bfloat16") return DType::bf16;
  return name == "float16" ? DType::f16 : DType::f32;
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

struct Listed {
  std::vector<TensorSpec> tensors;
  std::int64_t numel = 0, bytes = 0;
};

Listed weights_of(Model& model, DType dtype) {
  Listed w;
  EachParameter each([&](Parameter& p) {
    w.tensors.push_back({p.name, dtype, p.shape});
    w.numel += p.shape.numel();
  });
  model.visit(each);
  w.bytes = w.numel * size_of(dtype);
  return w;
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
  const std::string stored = config.text_or("dtype", config.text_or("torch_dtype", "float32"));
  const DType dtype = dtype_named(args.dtype.empty() ? stored : args.dtype);
  const std::int64_t padding = config.integer_or("pad_token_id", -1, -1);

  const fs::path output(args.output);
  if (fs::exists(fs::symlink_status(output)))
    throw UserError(Exit::config, printable(args.output) + " is there already; give a new folder");
  const Listed weights = weights_of(*made.model, dtype);
  StagedFolder folder(args.output);
  if (const auto free = fs::space(folder.path()).available; free < static_cast<std::uintmax_t>(weights.bytes))
    throw UserError(Exit::storage,
                    str(printable(args.output), ": the weights take ", show::file_size(weights.bytes),
                        " and there are ", show::file_size(static_cast<std::int64_t>(free)), " free"));

  Screen screen(Screen::standard_error());
  Working working(screen, "writing " + printable(args.output));
  const Random random = Random{static_cast<std::uint64_t>(args.seed)}.with("init");
  std::vector<float> values;
  std::int64_t done = 0;
  const auto fill = [&](const TensorSpec& spec) {
    const auto numel = static_cast<std::size_t>(spec.shape.numel());
    if (spec.shape.rank > 1)
      fill_normal(values, numel, random.with(spec.name), double{made.info.initializer_range});
    else
      values.assign(numel, spec.name.ends_with(".bias") ? 0.0f : 1.0f);
    if (spec.name.ends_with("embed_tokens.weight") && 0 <= padding && padding < spec.shape[0])
      std::fill_n(values.begin() + padding * spec.shape[1], spec.shape[1], 0.0f);
    working(done += spec.shape.numel(), weights.numel);
    return Tensor(reinterpret_cast<std::byte*>(values.data()), DType::f32, spec.shape);
  };
  const WrittenModel written = write_model(folder.path(), weights.tensors, fill);
  write_config(file, folder.path() + "/config.json", made.info, dtype);
  const std::string beside = folder_of(file.string());
  copy_companions(beside, beside, folder.path());
  folder.commit();
  screen.clear();
  std::cerr << "made     " << made.info.architecture << ", "
            << show::quantity(static_cast<double>(weights.numel)) << " parameters, " << name_of(dtype) << ", "
            << show::plural(std::ssize(written.files), "file") << " of " << show::file_size(written.bytes)
            << " -> " << printable(args.output) << "\n";
  return Exit::done;
}

}  // namespace ft
