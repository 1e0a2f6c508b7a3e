#include "models/t5/family.h"

#include <algorithm>
#include <array>

#include "models/t5/model.h"

namespace ft::t5 {
namespace {

DecoderTokens decoder_tokens(const JsonObject& j) {
  const std::int64_t last = j.positive("vocab_size") - 1;
  DecoderTokens t;
  t.pad = static_cast<std::int32_t>(j.integer_or("pad_token_id", 0, 0, last));
  t.start = static_cast<std::int32_t>(j.integer_or("decoder_start_token_id", t.pad, 0, last));
  if (!j.has("eos_token_id")) return t;
  const std::vector<std::int64_t> ends = j.integers("eos_token_id");  // one, or a list
  if (ends.empty() || std::any_of(ends.begin(), ends.end(), [&](auto id) { return id < 0 || id > last; }))
    j.refuse("eos_token_id", str("a token id or a list of them, from 0 to ", last));
  t.end = static_cast<std::int32_t>(ends[0]);
  return t;
}

MadeModel make(const std::string& path, DType dtype) {
  Config c = read_config(path);
  ModelInfo info{.vocab_size = c.vocab_size,
                 .decoder = decoder_tokens(JsonObject::read(path)),
                 .never_quantized = {"wo"},
                 .fp16_warning =
                     "an encoder-decoder of T5's family: these models were trained in bfloat16, "
                     "and the outputs of their feed-forward layers (wo) often exceed float16's "
                     "65504, and the loss becomes NaN",
                 .embedding = c.shared_name,
                 .tied_head = !c.own_head};
  for (const char* copy : {"shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"})
    if (copy != c.shared_name) info.embedding_copies.emplace_back(copy);
  if (c.scale_outputs) info.head_scale = c.output_scale();
  return {std::make_unique<T5>(std::move(c), dtype), std::move(info)};
}

constexpr std::array<std::string_view, 2> kLoraTargets = {"q", "v"};

}  // namespace

const Family kFamily{.make = make,
                     .gguf = make_gguf,
                     .from_gguf = config_of_gguf,
                     .decoder_tokens = decoder_tokens,
                     .lora_targets = kLoraTargets};

}  // namespace ft::t5
