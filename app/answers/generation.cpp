#include "app/answers/generation.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "app/config/gguf_base.h"
#include "app/files/model_files.h"
#include "app/screen/format.h"
#include "engine/cpu/target.h"
#include "engine/files/json.h"
#include "engine/ops/ops.h"
#include "models/text_config.h"

namespace ft {
namespace {

constexpr const char* kFile = "generation_config.json";
constexpr std::int64_t kMostTokens = (std::int64_t{1} << 31) - 1;  // in a cache: row numbers have 32 bits

// Settings of generation_config.json that ft reads. It ignores max_length, which counts the prompt and is
// often the model's longest context.
constexpr std::array kTaken = {"max_new_tokens",
                               "do_sample",
                               "temperature",
                               "top_k",
                               "top_p",
                               "min_p",
                               "repetition_penalty",
                               "stop_strings",
                               "no_repeat_ngram_size",
                               "min_new_tokens",
                               "min_length",
                               "num_beams",
                               "length_penalty",
                               "early_stopping",
                               "forced_bos_token_id",
                               "forced_eos_token_id"};
constexpr std::size_t kForced = 2;  // number of forced tokens, at the end of kTaken

// A setting that changes answers and is not available yet, and the value with which it does nothing.
struct Missing {
  const char* key;
  double neutral;
};
constexpr std::array kMissing = {Missing{"typical_p", 1},
                                 Missing{"epsilon_cutoff", 0},
                                 Missing{"eta_cutoff", 0},
                                 Missing{"top_h", 0},
                                 Missing{"diversity_penalty", 0},
                                 Missing{"num_beam_groups", 1},
                                 Missing{"penalty_alpha", 0},
                                 Missing{"guidance_scale", 1},
                                 Missing{"bad_words_ids", 0},
                                 Missing{"force_words_ids", 0},
                                 Missing{"suppress_tokens", 0},
                                 Missing{"begin_suppress_tokens", 0},
                                 Missing{"sequence_bias", 0},
                                 Missing{"exponential_decay_length_penalty", 0},
                                 Missing{"watermarking_config", 0},
                                 Missing{"encoder_repetition_penalty", 1},
                                 Missing{"encoder_no_repeat_ngram_size", 0}};

void refuse_missing(const JsonObject& j) {
  for (const Missing& m : kMissing) {
    if (!j.has(m.key)) continue;
    if (j.is_number(m.key) && j.number(m.key) == m.neutral) continue;
    if (j.is_array(m.key) && j.json()[m.key].empty()) continue;
    throw UserError(Exit::input, str(j.file(), ": ", m.key,
                                     " is not available yet; remove it (ft's answers will differ)"));
  }
}

// Returns the settings of generation_config.json, as JSON of a configuration's `generation`.
Json settings_of(const std::string& folder) {
  const std::string path = join_path(folder, kFile);
  Json out = Json::object();
  const auto take = [&](const JsonObject& j, std::span<const char* const> keys) {
    for (const char* key : keys)
      if (j.has(key)) out[key] = j.json()[key];
  };
  if (!path_exists(path)) {
    // Transformers 4 kept forced tokens in config.json.
    take(JsonObject::read(join_path(folder, "config.json")), std::span(kTaken).last(kForced));
    return out;
  }
  const JsonObject j = JsonObject::read(path);
  refuse_missing(j);
  take(j, kTaken);
  return out;
}

bool sets(const std::vector<std::string>& overrides, const std::string& name) {
  return std::any_of(overrides.begin(), overrides.end(),
                     [&](const std::string& o) { return o.starts_with(name + "="); });
}

// Throws UserError (config) for settings that would have no effect.
void check_overrides(const std::vector<std::string>& overrides, bool conversation) {
  std::vector<std::string> known{
      "generation.",         "quantization.", "model.tokenizer_name_or_path=", "model.sparse_attention.",
      "model.frozen_dtype=", "device=",       "data.chat_template=",           "data.chat_template_kwargs="};
  if (!conversation) known.insert(known.end(), {"zero_stage=", "zero_optimization.", "distributed."});
  for (const std::string& o : overrides)
    if (std::none_of(known.begin(), known.end(), [&](const std::string& k) { return o.starts_with(k); }))
      throw UserError(Exit::config,
                      str(printable(o),
                          ": only settings of generation and quantization are allowed here, such as "
                          "generation.max_new_tokens=100"));
  // In a conversation, max_length limits its context and max_new_tokens one answer.
  if (!conversation && sets(overrides, "generation.max_length") &&
      sets(overrides, "generation.max_new_tokens"))
    throw UserError(Exit::config, "set generation.max_length or generation.max_new_tokens, not both");
}

// Throws UserError (config) if a setting on the command line has no effect without another one, or cannot be
// combined with beams.
void check_company(const GenerationConfig& g, const std::vector<std::string>& overrides) {
  const auto needs = [&](const char* name, bool there, const char* other) {
    if (!there && sets(overrides, str("generation.", name)))
      throw UserError(Exit::config, str("generation.", name, ": has no effect without ", other));
  };
  for (const char* name : {"length_penalty", "early_stopping"})
    needs(name, g.num_beams > 1, "generation.num_beams above 1");
  for (const char* name : {"temperature", "top_k", "top_p", "min_p"})
    needs(name, g.do_sample, "generation.do_sample=true");
  if (g.num_beams == 1) return;
  if (g.do_sample)
    throw UserError(Exit::config,
                    "generation.do_sample: beam search does not sample; set generation.num_beams=1 or "
                    "generation.do_sample=false");
  if (g.stop_strings)
    throw UserError(Exit::config, "generation.stop_strings: not with beams; set generation.num_beams=1");
}

// Returns the dtype for --dtype auto: the one of the model's files if the device computes in it, else
// float32, which holds all of their values.
std::string own_dtype(const std::string& folder, bool gpu) {
  const JsonObject j = text_settings(JsonObject::read(join_path(folder, "config.json")));
  std::string own;
  for (const char* key : {"torch_dtype", "dtype"})
    if (j.has(key) && j.is_text(key)) own = j.text(key);
  if (own == "bfloat16" && (gpu || cpu::best_target() == cpu::Target::avx512_bf16)) return own;
  if (own == "float16" && gpu) return own;
  return "float32";
}

RunConfig config_of(const AnswererArgs& args) {
  check_overrides(args.overrides, args.conversation);
  Json j;
  BaseModelConfig model{.model_name_or_path = args.model};
  prepare_base(model);
  j["model"]["model_name_or_path"] =
      std::filesystem::absolute(model.unpacked ? model.folder() : args.model).string();
  j["data"]["datasets"] = Json::array({{{"path", "none"}}});  // no dataset is read
  const bool gpu =
      std::find(args.overrides.begin(), args.overrides.end(), "device=cuda") != args.overrides.end();
  const std::string dtype = args.dtype == "auto" ? own_dtype(model.folder(), gpu) : args.dtype;
  j["training"]["bf16"] = dtype == "bfloat16";
  j["training"]["fp16"] = dtype == "float16";
  const bool int8 = args.quantize == "int8";
  const bool int8_head = !args.quantize_head.empty();
  if (gpu && (int8 || int8_head))
    throw UserError(
        Exit::config,
        int8 ? "--quantize int8: ft computes with weights in 8 bits on CPUs only; use nf4"
             : "--quantize-head int8: ft computes with weights in 8 bits on CPUs only; leave it out");
  const bool fp8 = args.quantize == "fp8";
  if (fp8) j["model"]["frozen_dtype"] = "fp8";
  if (!args.quantize.empty() && !int8 && !fp8)
    j["quantization"] = {{"load_in_4bit", true}, {"bnb_4bit_quant_type", args.quantize}};
  j["generation"] = settings_of(model.folder());
  RunConfig c = parse_config(j.dump(), join_path(args.model, kFile), "", args.overrides);
  c.model.model_name_or_path = args.model;  // as the user wrote it, for messages
  c.model.unpacked = model.unpacked;
  if (int8 && c.quantization.load_in_4bit)
    throw UserError(Exit::config,
                    "--quantize int8 and quantization.load_in_4bit=true: leave one of them out");
  if (int8 && c.model.frozen_dtype == FrozenType::fp8)
    throw UserError(Exit::config, "--quantize int8 and model.frozen_dtype=fp8: leave one of them out");
  if (!args.adapter.empty()) {
    c.lora.adapter_name_or_path = args.adapter;
    // The adapter was trained with its own tokenizer, which may know more tokens.
    if (!c.model.tokenizer_name_or_path && holds_tokenizer(args.adapter))
      c.model.tokenizer_name_or_path = args.adapter;
  }
  c.generation.both_lengths =
      sets(args.overrides, "generation.max_length") && sets(args.overrides, "generation.max_new_tokens");
  check_company(c.generation, args.overrides);
  return c;
}

Purpose purpose_of(const AnswererArgs& args) {
  Purpose p{.work = Work::compute};
  if (args.quantize == "int8")
    p.int8 = Int8Part::linears;
  else if (!args.quantize_head.empty())
    p.int8 = Int8Part::head;
  if (!args.quantize.empty() || !args.quantize_head.empty()) p.sums = Sums::in_any_order;
  return p;
}

// Sets the token that a decoder begins with: generation_config.json overrides config.json.
void set_decoder_start(Answerer& a) {
  const std::string path = join_path(a.built.folder, kFile);
  if (!a.built.made.info.decoder || !path_exists(path)) return;
  const JsonObject j = JsonObject::read(path);
  const std::int64_t last = a.built.model().vocab_size() - 1;
  std::int32_t& start = a.built.made.info.decoder->start;
  start = static_cast<std::int32_t>(j.integer_or("decoder_start_token_id", start, 0, last));
}

}  // namespace

const Tokenizer& Answerer::text() const {
  if (!tokenizer) throw UserError(Exit::input, no_tokenizer);
  return *tokenizer;
}

Prompt Answerer::prompt_of(std::vector<std::int32_t> ids) const {
  return ft::prompt_of(std::move(ids), built.made.info);
}

std::vector<std::int32_t> Answerer::ids_of(const std::string& words, const Tokenizer& with) const {
  if (built.made.info.decoder) return with.encode_with_specials(words);
  std::vector<std::int32_t> ids = with.prefix();
  const Tokenizer::Ids tokens = with.encode(words);
  ids.insert(ids.end(), tokens.begin(), tokens.end());
  return ids;
}

std::int64_t Answerer::context_length() const {
  if (!reads_sources() && config.generation.max_length) return *config.generation.max_length;
  constexpr std::int64_t kMost = 4096;
  const JsonObject j = text_settings(JsonObject::read(join_path(built.folder, "config.json")));
  return std::min(kMost, j.positive_or("max_position_embeddings", 2048));
}

Answerer::Answerer(const AnswererArgs& args) : run(config_of(args), purpose_of(args)) {
  run.build_model();
  if (args.conversation) run.ranks = {};  // each process holds a separate conversation
  check_forced_tokens(config.generation, built.model().vocab_size());
  set_decoder_start(*this);
  try {
    tokenizer = make_tokenizer(config.model.tokenizer());
  } catch (const UserError& e) {
    no_tokenizer = e.what();
  }
  if (!tokenizer && config.generation.stop_strings)
    throw UserError(Exit::input, "generation.stop_strings: " + no_tokenizer);
  end_tokens = ft::end_tokens(args.model, tokenizer.get());
}

Engine& start_engine(Answerer& a, const GenerationShape& shape) {
  if (shape.cache.capacity > kMostTokens / shape.cache.slots ||
      (shape.cache.sources > 0 && shape.cache.source_capacity > kMostTokens / shape.cache.sources))
    throw UserError(Exit::memory, str(shape.cache.slots, " answers of up to ", shape.cache.capacity,
                                      " tokens are more than ft can keep; set generation.max_new_tokens"));
  Run& run = a.run;
  PlanRequest& request = run.request();
  request.zero = zero_options(a.config, run.ranks.grid.zero());
  request.reduce_bucket = static_cast<std::int64_t>(a.config.zero_optimization.reduce_bucket_size);
  request.states = no_states;
  request.generation = {shape};
  const Plan& plan = run.count();
  if (const std::int64_t there = run.ops().free_memory();
      there > 0 && plan.memory.total * sharing(run.ops(), run.ranks.local_size) > there)
    throw UserError(
        Exit::memory,
        str("this needs ", show::memory(plan.memory.total), " and ", show::memory(there),
            " are free (weights ", show::memory(plan.memory.weights + plan.memory.adapter),
            ", keys and values of ", shape.cache.slots, " answers of up to ", shape.cache.capacity,
            " tokens and activations ", show::memory(plan.saved + plan.scratch),
            ")\n  try: a smaller generation.batch_size or generation.max_new_tokens, "
            "--dtype bfloat16, quantization.load_in_4bit=true"));
  return run.start();
}

}  // namespace ft
