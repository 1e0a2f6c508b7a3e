#include "app/models/merge.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/assembly/class_model.h"
#include "app/config/head_settings.h"
#include "app/files/merger.h"
#include "app/files/model_files.h"
#include "app/files/output_folder.h"
#include "app/files/sentence_files.h"
#include "app/models/probe.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "engine/files/json.h"

namespace ft {
namespace {

constexpr std::int64_t kProbeTokens = 64;

void write_config(const std::string& to, const BuiltModel& built, std::optional<DType> dtype, bool untied) {
  Json j = model_config(built);
  write_tying(j, built.made.info);
  if (dtype) j[j.contains("torch_dtype") ? "torch_dtype" : "dtype"] = name_of(*dtype);
  if (const auto rows = built.rows()) j["vocab_size"] = *rows;
  // Without the tie, T5 no longer scales its head: see Merger::unties.
  if (untied) j["tie_word_embeddings"] = false;
  if (untied && j.contains("scale_decoder_outputs")) j["scale_decoder_outputs"] = false;
  std::string config = json_text(j) + "\n";
  if (built.objective.type->scores)
    config = headed_config(config, built.objective, built.made.info, built.padding);
  write_file(join_path(to, "config.json"), config);
  write_sentence_files(to, built);
}

// Expected change of the logits from rounding weights to a dtype, relative to the largest logit: a few units
// in its last place, because the errors of layers add up. A change of more than ten times that means a wrong
// merge.
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

// Measures the change of the logits from computing in bf16, instead of the expected change. For f32 divides
// it by 2^11: f32 has 16 bits more, and 5 of them are left for errors of sums. Some models, above all small
// random ones, are far more sensitive to rounding than others.
double measured_difference(const MergeArgs& args, const std::vector<float>& logits, std::int64_t tokens,
                           DType t) {
  RunConfig c = merge_config(args.model, args.adapter);
  c.training.bf16 = true;
  const BuiltModel coarse = build_model(c, Weights::check, {}, merge_purpose(c));
  const double largest = compare_logits(logits, probe_logits(coarse, tokens)).largest;
  return t == DType::f32 ? largest / 2048 : largest;
}

// Throws UserError (numeric) if the merged model in the folder computes other logits than base and adapter.
void check_merged(const MergeArgs& args, const std::string& folder, const BuiltModel& built, DType coarsest,
                  Screen& screen) {
  constexpr double kWrong = 10;  // largest allowed multiple of the expected change
  const std::int64_t most = built.made.info.positions;
  const std::int64_t tokens = most > 0 ? std::min(most, kProbeTokens) : kProbeTokens;
  const auto before = probe_logits(built, tokens);
  const BuiltModel merged = build_model(merge_config(folder, ""), Weights::check);
  const LogitDifference d = compare_logits(before, probe_logits(merged, tokens));
  double explained = expected_difference(coarsest) * d.magnitude;
  if (!(d.largest <= explained))
    explained = std::max(explained, measured_difference(args, before, tokens, coarsest));
  const double limit = kWrong * explained;
  const std::string rounded =
      built.four_bit
          ? str("rounding dequantized ", name_of(built.four_bit->form().book), " to ", name_of(coarsest))
      : built.fp8 ? str("rounding dequantized fp8 to ", name_of(coarsest))
                  : str(name_of(coarsest), " rounding");
  screen.line(str("checked  ", tokens, " tokens: largest logit difference to base + adapter ",
                  show::digits(d.largest, 2), " (", rounded, " explains up to ",
                  show::digits(d.largest <= explained ? explained : limit, 2), ")"));
  if (!(d.largest <= limit))
    throw UserError(Exit::numeric,
                    str("--output ", args.output,
                        ": not written: the merged model is not the base with its adapter: logits differ by ",
                        d.largest));
}

// Returns the merged tensor. Several parts, matrices of experts, are joined in `values`.
Tensor merged(Merger& merger, const std::vector<TensorSpec>& parts, std::vector<float>& values) {
  if (parts.size() == 1) return merger(parts[0]);
  values.clear();
  for (const TensorSpec& part : parts) {
    const Tensor own = merger(part);
    values.insert(values.end(), own.as<float>(), own.as<float>() + own.numel());
  }
  return {reinterpret_cast<std::byte*>(values.data()), DType::f32, {std::ssize(values)}};
}

}  // namespace

Exit merge(const MergeArgs& args) {
  const auto start = std::chrono::steady_clock::now();
  const std::optional<DType> dtype = parse_dtype(args.dtype);
  Screen screen(Screen::standard_error());
  const RunConfig config = merge_config(args.model, args.adapter);
  BuiltModel built = build_model(config, Weights::check, {}, merge_purpose(config));
  show_warnings(screen, built);
  if (const std::string why = explain_objective(args.model, args.adapter); !why.empty()) screen.line(why);
  OutputFolder output(args.output, args.overwrite, {args.model, args.adapter});
  Merger merger(built);
  const Stacks stacks = file_stacks(merger.specs(dtype), built.made.info);
  const std::vector<TensorSpec>& specs = stacks.tensors();
  WrittenFiles written;
  {
    Working working(screen, "merging", "tensors");
    std::int64_t done = 0;
    std::vector<float> values;
    written = write_shards(output.path(), "model", specs, [&](const TensorSpec& spec) {
      working(done++, static_cast<std::int64_t>(specs.size()));
      return merged(merger, stacks.parts_of(spec.name), values);
    });
  }
  write_config(output.path(), built, dtype, merger.unties());
  const bool brought = !args.adapter.empty() && holds_tokenizer(args.adapter);  // the training's tokenizer
  copy_companions(config.model.folder(), brought ? args.adapter : config.model.folder(), output.path());
  if (!built.objective.type->scores) end_at_turns(output.path());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  screen.line(str("merged   ", show::plural(std::ssize(built.attached.linears) + built.folded, "linear"),
                  ", ", show::plural(static_cast<std::int64_t>(specs.size()), "tensor"), " in ",
                  show::plural(static_cast<std::int64_t>(written.names.size()), "file"), ", ",
                  show::memory(written.bytes), ", ", show::duration(seconds), " -> ", args.output));

  DType coarsest = DType::f32;
  for (const TensorSpec& s : specs)
    if (expected_difference(s.dtype) > expected_difference(coarsest)) coarsest = s.dtype;
  check_merged(args, output.path(), built, coarsest, screen);
  output.commit();
  return Exit::done;
}

}  // namespace ft
