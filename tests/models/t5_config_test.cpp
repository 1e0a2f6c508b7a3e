// config.json of T5 and mT5: the head, its scale, and refusals; buckets of relative positions.
#include "models/t5/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/files/json.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "models/t5/relative_bias.h"
#include "tests/engine/files/temp_folder.h"

namespace ft::t5 {
namespace {

using test::error_of;

Json base(const char* model_type = "t5") {
  return {{"model_type", model_type}, {"vocab_size", 100}, {"d_model", 64}};
}

// Reads config.json in a folder with weights of these names, or without weights. Each weight has one value:
// `head` in the head, 0 in others.
Config read(Json json, const Json& change = Json::object(), const std::vector<std::string>& weights = {},
            float head = 1) {
  if (change.is_object()) json.update(change);
  const test::TempFolder folder;
  if (!weights.empty()) {
    Json header = Json::object();
    std::vector<float> values;
    for (const std::string& name : weights) {
      const std::size_t at = 4 * values.size();
      header[name] = {{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {at, at + 4}}};
      values.push_back(name == "lm_head.weight" ? head : 0);
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    std::string bytes(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(text.size() >> (8 * i));
    folder.write("model.safetensors",
                 bytes + text + std::string(reinterpret_cast<const char*>(values.data()), 4 * values.size()));
  }
  return read_config(folder.write("config.json", json_text(json)));
}

std::string refusal(const Json& change) {
  const std::string text = error_of([&] { read(base(), change); });
  const auto at = text.find("config.json");
  return at == std::string::npos ? text : text.substr(0, 2) + text.substr(at);
}

TEST(T5Config, AbsentKeysMeanWhatTransformersAssumes) {
  const Config t5 = read(base());
  EXPECT_EQ(t5.d_kv, 64);
  EXPECT_EQ(t5.d_ff, 2048);
  EXPECT_EQ(t5.num_heads, 8);
  EXPECT_EQ(t5.num_layers, 6);
  EXPECT_EQ(t5.num_decoder_layers, 6);
  EXPECT_EQ(t5.buckets, 32);
  EXPECT_EQ(t5.max_distance, 128);
  EXPECT_EQ(t5.dropout_rate, 0.1f);
  EXPECT_EQ(t5.activation, Activation::relu);
  EXPECT_FALSE(t5.gated);
  const Config mt5 = read(base("mt5"));
  EXPECT_EQ(mt5.num_layers, 8);
  EXPECT_EQ(mt5.num_heads, 6);
  EXPECT_EQ(mt5.d_ff, 1024);
  EXPECT_TRUE(mt5.gated);
  EXPECT_EQ(mt5.activation, Activation::gelu_tanh);
  EXPECT_EQ(read(base(), {{"num_layers", 2}}).num_decoder_layers, 2);
}

TEST(T5Config, GatedGeluMeansTheTanhForm) {
  EXPECT_EQ(read(base(), {{"feed_forward_proj", "gated-gelu"}}).activation, Activation::gelu_tanh);
  EXPECT_EQ(read(base(), {{"feed_forward_proj", "gelu"}}).activation, Activation::gelu);
  EXPECT_EQ(read(base(), {{"feed_forward_proj", "gated-silu"}}).activation, Activation::silu);
}

// transformers 5 forces tie_word_embeddings to true, and stores its former meaning in scale_decoder_outputs.
TEST(T5Config, TheFlagScalesAndTheFilesSayWhichHead) {
  const std::vector<std::string> tied{"shared.weight"}, own{"shared.weight", "lm_head.weight"};
  const auto expect = [](const Config& c, bool scaled, bool own_head) {
    EXPECT_EQ(c.scale_outputs, scaled);
    EXPECT_EQ(c.own_head, own_head);
  };
  expect(read(base(), {}, tied), true, false);
  expect(read(base(), {}, own), true, true);
  expect(read(base(), {{"tie_word_embeddings", false}}, own), false, true);
  expect(read(base(), {{"tie_word_embeddings", false}}, tied), false, false);
  expect(read(base(), {{"tie_word_embeddings", true}, {"scale_decoder_outputs", false}}, own), false, true);
  expect(read(base(), {{"tie_word_embeddings", false}, {"scale_decoder_outputs", true}}, tied), true, false);
  for (const bool flag : {false, true}) {
    expect(read(base("mt5"), {{"tie_word_embeddings", flag}}, own), false, true);
    expect(read(base("mt5"), {{"tie_word_embeddings", flag}}, tied), false, false);
  }
  expect(read(base()), true, false);              // no weights yet
  expect(read(base(), {}, own, 0), true, false);  // a copy of the table
  expect(read(base(), {{"tie_word_embeddings", false}}, own, 0), false, true);
  expect(read(base(), {{"tie_word_embeddings", false}}), false, true);
}

TEST(T5Config, AnyCopyOfTheEmbeddingWillDo) {
  EXPECT_EQ(read(base(), {}, {"shared.weight", "encoder.embed_tokens.weight"}).shared_name, "shared.weight");
  EXPECT_EQ(read(base(), {}, {"decoder.embed_tokens.weight"}).shared_name, "decoder.embed_tokens.weight");
  EXPECT_EQ(read(base(), {}, {"lm_head.weight"}).shared_name, "shared.weight");
}

TEST(T5Config, EncoderAndDecoderShareOneTable) {
  const std::string error = error_of([] {
    const test::TempFolder folder;
    float values[] = {1, 2};
    write_shards(folder.path(), "model",
                 {{"shared.weight", DType::f32, {1}}, {"encoder.embed_tokens.weight", DType::f32, {1}}},
                 [&](const TensorSpec& s) {
                   return Tensor(reinterpret_cast<std::byte*>(values + (s.name[0] == 's')), DType::f32, {1});
                 });
    read_config(folder.write("config.json", json_text(base())));
  });
  EXPECT_NE(error.find("encoder.embed_tokens.weight is another table than shared.weight"), error.npos)
      << error;
}

TEST(T5Config, UnsupportedSettingsAreRefused) {
  EXPECT_EQ(refusal({{"feed_forward_proj", "gated-tanh"}}),
            "3 config.json: feed_forward_proj must be relu, gelu, gelu_new, silu, or one of them after "
            "\"gated-\", is \"gated-tanh\"");
  EXPECT_EQ(refusal({{"dropout_rate", 1}}),
            "3 config.json: dropout_rate must be at least 0 and below 1, is 1");
  EXPECT_EQ(refusal({{"is_encoder_decoder", false}}),
            "3 config.json: is_encoder_decoder must be true, is false");
  EXPECT_EQ(refusal({{"relative_attention_max_distance", 16}}),
            "3 config.json: relative_attention_max_distance must be above half of the 32 buckets, is 16");
}

// transformers' T5Attention._relative_position_bucket with 8 buckets and a distance of at most 12.
TEST(T5Buckets, AreTransformers) {
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(buckets_of(6, true, 8, 12), (Ids{3, 3, 2, 2, 2, 1, 0, 5, 6, 6, 6, 7, 7}));
  EXPECT_EQ(buckets_of(6, false, 8, 12), (Ids{5, 4, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0}));
  // Distances beyond the last one have its bucket.
  EXPECT_EQ(trimmed({3, 3, 3, 2, 1, 0, 5, 6, 7, 7, 7}), (Ids{3, 2, 1, 0, 5, 6, 7}));
  EXPECT_EQ(trimmed({5, 4, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0}), (Ids{5, 4, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(trimmed({0, 0, 0}), Ids{0});
  EXPECT_EQ(trimmed({0}), Ids{0});
  EXPECT_EQ(trimmed(buckets_of(129, true, 32, 128)), buckets_of(91, true, 32, 128));
  EXPECT_EQ(trimmed(buckets_of(129, false, 32, 128)), buckets_of(113, false, 32, 128));
  const Ids far = buckets_of(300, true, 32, 128);
  EXPECT_EQ(far.front(), 15);
  EXPECT_EQ(far.back(), 31);
}

}  // namespace
}  // namespace ft::t5
