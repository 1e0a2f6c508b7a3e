#include "tests/recipes/which_gpu_page.h"

#include <map>

#include "app/plan/gpu_sizes.h"
#include "app/screen/format.h"
#include "engine/core/error.h"
#include "engine/files/file.h"
#include "tests/recipes/shapes.h"

namespace ft {
namespace {

using Words = std::vector<std::string>;

constexpr std::int64_t kLengths[] = {2048, 8192, 32768, 131072};

const Words& gpus() {
  static const Words all{"rtx4090", "l40s", "h100", "h200"};
  return all;
}

const std::map<std::string, Words>& settings_of_methods() {
  static const std::map<std::string, Words> all{
      {"LoRA", {"lora.r=16", "lora.target_modules=all-linear"}},
      {"QLoRA", {"lora.r=16", "lora.target_modules=all-linear", "quantization.load_in_4bit=true"}},
      {"full", {"finetuning_type=full"}}};
  return all;
}

// Least memory with sequences of one length, in bytes.
struct Least {
  std::int64_t length = 0;
  std::int64_t recomputed = 0;  // all blocks are recomputed
  std::int64_t kept = 0;        // no block is
};

Least least(const std::string& id, const std::string& method, std::int64_t length, bool decoder) {
  const auto bytes = [&](const std::string& recomputation) {
    Words words = settings_of_methods().at(method);
    words.emplace_back("training.per_device_train_batch_size=1");
    words.push_back("training.gradient_checkpointing=" + recomputation);
    words.push_back(str(decoder ? "data.max_source_length=" : "data.max_seq_length=", length));
    if (decoder) words.emplace_back("data.max_target_length=512");
    return least_plan(id, words)["total"].get<std::int64_t>();
  };
  return {length, bytes("auto"), bytes("false")};
}

// Returns the longest sequence that fits into a GPU, and in parentheses the longest without recomputation.
std::string cell(const std::vector<Least>& all, const std::string& gpu) {
  const std::int64_t there = gpu_memory(gpu);
  std::int64_t recomputed = 0, kept = 0;
  for (const Least& l : all) {
    if (l.recomputed <= there) recomputed = l.length;
    if (l.kept <= there) kept = l.length;
  }
  if (recomputed == 0) return "–";
  const std::string longest = show::count(recomputed);
  return kept == recomputed ? longest : longest + " (" + (kept > 0 ? show::count(kept) : "–") + ")";
}

std::string gibibytes(std::int64_t bytes) {
  const std::int64_t tenths = (bytes * 10 + (std::int64_t{1} << 29)) >> 30;
  return str(tenths / 10, ".", tenths % 10);
}

}  // namespace

std::vector<std::string> models_of_page() {
  std::vector<std::string> ids;
  for (const Published& model : kPublished) ids.emplace_back(model.id);
  return ids;
}

std::vector<std::string> methods_of_page() { return {"QLoRA", "LoRA", "full"}; }

std::string head_of_page() {
  return R"(# Which model fits which GPU

The longest sequence that fits into a GPU, in tokens: 2,048, 8,192, 32,768 or 131,072. In parentheses: the
longest for which no block is recomputed, if it is shorter. For lengths between them
`training.gradient_checkpointing=auto` recomputes as many blocks as needed, and a step takes up to a third
longer. –: none fits. The column GiB is the least memory for 2,048 tokens.

The numbers are those of `ft plan`, not of runs, for one sequence in a micro-batch, bfloat16 and AdamW; LoRA
and QLoRA with r 16 on all linears but the head. The GPUs have 23.5, 44.4, 79.2 and 139.8 GiB. Lengths beyond
those that a model was made for are left out. For T5 the length is that of the source, up to 8,192 tokens,
and the target has 512.

A row by hand, which also prints the exact longest sequence, from config.json alone:

```
hf download Qwen/Qwen3-8B config.json --local-dir models/qwen3-8b
ft plan --model models/qwen3-8b --gpu rtx4090 quantization.load_in_4bit=true lora.r=16 \
    training.per_device_train_batch_size=1 training.gradient_checkpointing=auto data.max_seq_length=8192
```

`ft plan --config run.json --model models/qwen3-8b --gpu rtx4090` plans your own settings. Models that are too
large for one GPU train on several ([zero.md](zero.md)) or from the host's memory
([offload.md](offload.md)). [Recipes](../configs/README.md) are in `configs/models`.

| model | method | GiB | RTX 4090, 24 GB | L40S, 48 GB | H100, 80 GB | H200, 141 GB |
|---|---|---|---|---|---|---|
)";
}

std::string row_name(const std::string& id, const std::string& method) {
  return "| " + id.substr(id.find('/') + 1) + " | " + method + " |";
}

std::string planned_row(const std::string& id, const std::string& method) {
  const Json shapes = Json::parse(read_file(shapes_of(id), 1 << 20));
  const std::int64_t positions = shapes.value("max_position_embeddings", std::int64_t{8192});
  std::vector<Least> all;
  for (const std::int64_t length : kLengths)
    if (length <= positions) all.push_back(least(id, method, length, shapes.contains("num_decoder_layers")));
  std::string row = row_name(id, method) + " " + gibibytes(all.at(0).recomputed) + " |";
  for (const std::string& gpu : gpus()) row += " " + cell(all, gpu) + " |";
  return row + "\n";
}

}  // namespace ft
