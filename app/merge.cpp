// ft merge: folds an adapter into its base, W + s B A summed in f32 and rounded once, tensor by tensor, and
// then checks that the result is the same function.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/commands.h"
#include "app/format.h"
#include "app/model_files.h"
#include "app/probe.h"
#include "app/screen.h"
#include "engine/io/json.h"
#include "engine/io/safetensors_write.h"

namespace ft {
namespace {

constexpr std::int64_t kProbeTokens = 64;

RunConfig run_config(const std::string& model, const std::string& adapter) {
  RunConfig c;
  c.model.model_name_or_path = model;
  c.training.bf16 = false;
  c.finetuning_type = adapter.empty() ? "full" : "lora";
  if (!adapter.empty()) c.lora.adapter_name_or_path = adapter;
  return c;
}

// The base's tensors with the adapter folded in, one at a time.
class Merger {
 public:
  explicit Merger(const BuiltModel& b)
      : built_(b),
        ops_(make_ops({})),
        tied_(JsonObject::read(join_path(b.folder, "config.json")).boolean_or("tie_word_embeddings", false)) {
    for (std::size_t i = 0; i < b.attached.linears.size(); ++i)
      adapters_[b.attached.linears[i] + ".weight"] = b.attached.adapters[i];
    for (const Parameter* p : b.attached.whole) whole_[p->name] = p;
  }

  // Where the adapter changes the head or the embedding of a tied model they are no longer one.
  bool unties() const {
    return tied_ && (adapters_.contains("lm_head.weight") || whole_.contains("lm_head.weight") ||
                     whole_.contains("model.embed_tokens.weight"));
  }

  std::vector<TensorSpec> specs(std::optional<DType> dtype) const {
    std::vector<TensorSpec> out;
    for (const std::string& name : built_.base->names()) {
      if (name.ends_with(".rotary_emb.inv_freq")) continue;  // derived from the configuration
      const WeightInfo info = built_.base->info(name);
      const auto stored = dtype_of(info.type);
      if (!stored)
        throw UserError(Exit::input, str(info.file, ": ", printable(name), " is ", name_of(info.type),
                                         ", not a float type"));
      Shape shape;
      if (info.shape.size() > shape.dims.size())
        throw UserError(Exit::input, str(info.file, ": ", printable(name), " has too many dimensions"));
      for (const auto d : info.shape) shape.dims[static_cast<std::size_t>(shape.rank++)] = d;
      out.push_back({name, dtype.value_or(*stored), shape});
    }
    if (unties() && !built_.base->has("lm_head.weight")) {
      auto embedding =
          std::find_if(out.begin(), out.end(), [](auto& s) { return s.name == "model.embed_tokens.weight"; });
      require(embedding != out.end(), "a tied model has an embedding");
      out.push_back({"lm_head.weight", embedding->dtype, embedding->shape});
    }
    return out;
  }

  Tensor operator()(const TensorSpec& spec) {
    Tensor y = room(values_, spec.shape);
    if (const auto w = whole_.find(spec.name); w != whole_.end()) {
      built_.start->read(*w->second, y, 0);
      return y;
    }
    const bool tied = spec.name == "lm_head.weight" && tied_;
    built_.base->read(tied ? "model.embed_tokens.weight" : spec.name, y, 0);
    if (const auto found = adapters_.find(spec.name); found != adapters_.end()) {
      const lora::LoraAdapter& l = *found->second;
      Tensor a = room(a_, l.a.shape), b = room(b_, l.b.shape);
      built_.start->read(l.a, a, 0);
      built_.start->read(l.b, b, 0);
      product(*ops_, y, {b, Trans::no, a, Trans::no}, l.scale(), y);
    }
    return y;
  }

 private:
  static Tensor room(std::vector<float>& values, const Shape& shape) {
    values.resize(static_cast<std::size_t>(shape.numel()));
    return {reinterpret_cast<std::byte*>(values.data()), DType::f32, shape};
  }

  const BuiltModel& built_;
  std::unique_ptr<Ops> ops_;
  bool tied_;                                                 // the base's head is its embedding
  std::map<std::string, const lora::LoraAdapter*> adapters_;  // by the weight they add to
  std::map<std::string, const Parameter*> whole_;
  std::vector<float> values_, a_, b_;
};

void write_config(const MergeArgs& args, std::optional<DType> dtype, bool untied) {
  Json j = read_json(join_path(args.model, "config.json"));
  if (dtype) j[j.contains("torch_dtype") ? "torch_dtype" : "dtype"] = name_of(*dtype);
  if (untied) j["tie_word_embeddings"] = false;
  j.erase("quantization_config");  // what was in 4 bits is not any more
  write_file(join_path(args.output, "config.json"), json_text(j) + "\n");
}

// How far logits may move by rounding weights to a type, relative to the largest logit: a few units in its
// last place, for errors of layers add up. Beyond ten times that the merge went wrong.
double expected_difference(DType t) {
  switch (t) {
    case DType::bf16:
      return 2e-2;
    case DType::f16:
      return 3e-3;
    default:
      return 1e-5;
  }
}

}  // namespace

Exit merge(const MergeArgs& args) {
  const auto start = std::chrono::steady_clock::now();
  const std::optional<DType> dtype = parse_dtype(args.dtype);
  Screen screen(Screen::standard_error());
  BuiltModel built = build_model(run_config(args.model, args.adapter), Weights::check);
  require_new_folder(args.output, args.overwrite, {args.model, args.adapter});
  Merger merger(built);
  const std::vector<TensorSpec> specs = merger.specs(dtype);
  WrittenModel written;
  {
    Working working(screen, "merging", "tensors");
    std::int64_t done = 0;
    written = write_model(args.output, specs, [&](const TensorSpec& spec) {
      working(done++, static_cast<std::int64_t>(specs.size()));
      return merger(spec);
    });
  }
  write_config(args, dtype, merger.unties());
  const bool brought = !args.adapter.empty() && holds_tokenizer(args.adapter);  // what it was trained with
  copy_companions(args.model, brought ? args.adapter : args.model, args.output);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  screen.line(str("merged   ",
                  show::plural(static_cast<std::int64_t>(built.attached.linears.size()), "linear"), ", ",
                  show::plural(static_cast<std::int64_t>(specs.size()), "tensor"), " in ",
                  show::plural(static_cast<std::int64_t>(written.files.size()), "file"), ", ",
                  show::memory(written.bytes), ", ", show::duration(seconds), " -> ", args.output));

  const auto before = probe_logits(built, kProbeTokens);
  const BuiltModel merged = build_model(run_config(args.output, ""), Weights::check);
  const LogitDifference d = compare_logits(before, probe_logits(merged, kProbeTokens));
  DType coarsest = DType::f32;
  for (const TensorSpec& s : specs)
    if (expected_difference(s.dtype) > expected_difference(coarsest)) coarsest = s.dtype;
  const double expected = expected_difference(coarsest) * d.magnitude;
  screen.line(str("checked  ", kProbeTokens, " tokens: largest logit difference to base + adapter ",
                  show::digits(d.largest, 2), " (", name_of(coarsest), " rounding explains up to ",
                  show::digits(expected, 2), ")"));
  if (!(d.largest <= 10 * expected))
    throw UserError(Exit::numeric,
                    str(args.output, ": the merged model is not the base with its adapter: logits differ by ",
                        d.largest));
  return Exit::done;
}

}  // namespace ft
