#include "models/t5/config.h"

#include "engine/files/json.h"
#include "models/tables.h"

namespace ft::t5 {
namespace {

// Limits above the sizes of any model; below them no product of two sizes overflows.
constexpr std::int64_t kMaxSize = std::int64_t{1} << 24, kMaxLayers = 4096;

constexpr const char *kHeadTable = "lm_head.weight", *kEncoderTable = "encoder.embed_tokens.weight",
                     *kDecoderTable = "decoder.embed_tokens.weight";

// Parses "relu", "gated-gelu" (which means gelu_new), "gated-silu", ...
void read_activation(Config& c, const JsonObject& j) {
  const std::string text = j.text_or("feed_forward_proj", c.model_type == "mt5" ? "gated-gelu" : "relu");
  constexpr std::string_view kGated = "gated-";
  c.gated = text.starts_with(kGated);
  const std::string name = c.gated ? text.substr(kGated.size()) : text;
  if (name == "relu")
    c.activation = Activation::relu;
  else if (text == "gated-gelu" || name == "gelu_new" || name == "gelu_pytorch_tanh")
    c.activation = Activation::gelu_tanh;
  else if (name == "gelu")
    c.activation = Activation::gelu;
  else if (name == "silu" || name == "swish")
    c.activation = Activation::silu;
  else
    j.refuse("feed_forward_proj", "relu, gelu, gelu_new, silu, or one of them after \"gated-\"");
}

// Decides whether the head's input is scaled and whether the head has its own table. Scaled:
// scale_decoder_outputs of transformers 5, else the older tying flag; never in mT5. Own table: if the files
// hold one that is not a copy of the shared table.
void read_head(Config& c, const JsonObject& j, const WeightSource* weights) {
  const bool tied = c.model_type != "mt5" && j.boolean_or("tie_word_embeddings", true);
  c.scale_outputs = c.model_type != "mt5" && j.boolean_or("scale_decoder_outputs", tied);
  c.own_head = weights ? weights->has(kHeadTable) : !c.scale_outputs;
  c.shared_name = "shared.weight";
  if (!weights) return;
  if (!weights->has(c.shared_name))
    for (const char* copy : {kDecoderTable, kEncoderTable})
      if (weights->has(copy)) c.shared_name = copy;
  if (tied && c.own_head) c.own_head = differ(*weights, c.shared_name, kHeadTable);
  for (const char* copy : {kEncoderTable, kDecoderTable})
    if (differ(*weights, c.shared_name, copy))
      throw UserError(Exit::input,
                      str(printable(weights->info(copy).file), ": ", copy, " is another table than ",
                          c.shared_name, "; in ft encoder and decoder share one"));
}

}  // namespace

Config read_config(const std::filesystem::path& path) {
  const JsonObject j = JsonObject::read(path.string());
  Config c;
  c.model_type = j.text("model_type");
  const bool mt5 = c.model_type == "mt5";
  c.vocab_size = j.integer("vocab_size", 1, kMaxSize);
  c.d_model = j.integer("d_model", 1, kMaxSize);
  c.d_kv = j.integer_or("d_kv", 64, 1, 4096);
  c.d_ff = j.integer_or("d_ff", mt5 ? 1024 : 2048, 1, kMaxSize);
  c.num_heads = j.integer_or("num_heads", mt5 ? 6 : 8, 1, kMaxSize);
  c.num_layers = j.integer_or("num_layers", mt5 ? 8 : 6, 1, kMaxLayers);
  c.num_decoder_layers = j.integer_or("num_decoder_layers", c.num_layers, 1, kMaxLayers);
  c.buckets = j.integer_or("relative_attention_num_buckets", 32, 4, 4096);
  c.max_distance = j.integer_or("relative_attention_max_distance", 128, 1, std::int64_t{1} << 20);
  if (c.max_distance <= c.buckets / 2)
    j.refuse("relative_attention_max_distance", str("above half of the ", c.buckets, " buckets"));
  c.layer_norm_epsilon = static_cast<float>(j.positive_number_or("layer_norm_epsilon", 1e-6));
  c.initializer_factor = static_cast<float>(j.positive_number_or("initializer_factor", 1));
  c.dropout_rate = static_cast<float>(j.number_or("dropout_rate", 0.1));
  if (c.dropout_rate < 0 || c.dropout_rate >= 1) j.refuse("dropout_rate", "at least 0 and below 1");
  if (!j.boolean_or("is_encoder_decoder", true)) j.refuse("is_encoder_decoder", "true");
  read_activation(c, j);
  read_head(c, j, weights_beside(path.string()).get());
  return c;
}

}  // namespace ft::t5
