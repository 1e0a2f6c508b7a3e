// A GGUF file as a base model has the weights, configuration and tokenizer of the model that it was made
// from. tests/golden/gguf_import.txt shows that dequantizing gives the same bits as the gguf package.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/config/config.h"
#include "app/gguf/export.h"
#include "data/tokenizers/gguf_tokenizer.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/files/file.h"
#include "engine/files/json.h"
#include "engine/files/safetensors/weights.h"
#include "models/gguf/gguf_config.h"
#include "models/registry.h"
#include "tests/app/outcome.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

class GgufImport : public testing::Test {
 protected:
  std::string make(const std::string& from, const std::string& dtype) {
    const Outcome o =
        run({"export", "--to", "gguf", "--from", from, "--output", file, "--dtype", dtype, "--overwrite"});
    EXPECT_EQ(o.code, 0) << o.err;
    return file;
  }
  // Writes a file with these keys and a table that fixes the size of the vocabulary.
  void write(GgufKeys keys, const std::string& architecture = "llama") {
    keys.insert(keys.begin(), {"general.architecture", architecture});
    std::vector<float> zeros(64);
    write_gguf(file, keys, {{"token_embd.weight", GgmlType::f32, {2, 32}}}, [&](const GgufTensor&) {
      return Tensor(reinterpret_cast<std::byte*>(zeros.data()), DType::f32, {2, 32});
    });
  }
  std::string refused() const {
    try {
      config_of_gguf(GgufFile(file));
    } catch (const UserError& e) {
      EXPECT_EQ(e.code, Exit::input);
      return std::string(e.what()).substr(file.size());
    }
    return "not refused";
  }

  test::TempFolder folder;
  std::string file = folder / "x.gguf";
};

std::vector<float> values(const WeightSource& from, const std::string& name, std::int64_t first,
                          std::int64_t n) {
  std::vector<float> out(static_cast<std::size_t>(n));
  from.read(name, Tensor(reinterpret_cast<std::byte*>(out.data()), DType::f32, {n}), first);
  return out;
}

TEST_F(GgufImport, WeightsAreThoseOfTheModel) {
  for (const std::string name :
       {"llama", "llama-gqa", "llama-linear", "llama-llama3", "llama-yarn", "mistral", "qwen2", "qwen3"}) {
    const std::string from = source_path("tests/golden/models/" + name + "/model");
    make(from, "float32");
    folder.write("config.json", config_of_gguf(GgufFile(file)));
    const ModelFolder model(from);
    const GgufWeights weights(file, folder / "config.json");
    EXPECT_FALSE(weights.is_quantized());
    for (const std::string& weight : weights.names()) {
      const auto shape = model.info(weight).shape;
      EXPECT_EQ(weights.info(weight).shape, shape) << weight;
      const std::int64_t n = shape.size() == 2 ? shape[0] * shape[1] : shape[0];
      EXPECT_EQ(values(weights, weight, 0, n), values(model, weight, 0, n)) << name << " " << weight;
      EXPECT_EQ(values(weights, weight, 3, n - 5), values(model, weight, 3, n - 5)) << "a part of " << weight;
    }
    const Json was = read_json(from + "/config.json"), is = read_json(folder / "config.json");
    for (const char* key : {"hidden_size", "num_attention_heads", "num_hidden_layers", "rms_norm_eps"})
      EXPECT_NEAR(is[key].get<double>(), was[key].get<double>(), 1e-9) << name << " " << key;
  }
}

TEST_F(GgufImport, PartsOfQuantizedBlocksAreReadFromAnyPlace) {
  make(source_path("configs/demo/base"), "q8_0");
  folder.write("config.json", config_of_gguf(GgufFile(file)));
  const GgufWeights weights(file, folder / "config.json");
  EXPECT_TRUE(weights.is_quantized());
  EXPECT_TRUE(weights.types().starts_with("Q8_0")) << weights.types();
  const std::string name = "model.layers.0.self_attn.q_proj.weight";  // a weight whose rows are reordered
  const auto shape = weights.info(name).shape;
  const std::vector<float> all = values(weights, name, 0, shape[0] * shape[1]);
  for (const std::int64_t first : {std::int64_t{1}, std::int64_t{31}, shape[1] - 1, 3 * shape[1] + 17})
    for (const std::int64_t n : {std::int64_t{1}, std::int64_t{33}, shape[1] + 5})
      EXPECT_EQ(values(weights, name, first, n),
                std::vector<float>(all.begin() + first, all.begin() + first + n));
}

// Blocks of random codes, whose f16 number is between 2^-7 and 2^-6 at every place where a type may have it.
std::string random_blocks(const GgmlForm& form, std::int64_t elements) {
  std::string blocks(static_cast<std::size_t>(elements / form.block * form.bytes), '\0');
  std::uint32_t h = 1;
  for (char& byte : blocks) byte = static_cast<char>((h = h * 1664525u + 1013904223u) >> 24);
  for (std::size_t at = 0; at < blocks.size(); at += static_cast<std::size_t>(form.bytes)) {
    char* block = blocks.data() + at;
    if (form.type == GgmlType::mxfp4) *block = 120;
    for (const std::int64_t high : {std::int64_t{1}, std::int64_t{81}, std::int64_t{83}, form.bytes - 1})
      if (form.type != GgmlType::mxfp4 && high < form.bytes)
        block[high] = static_cast<char>((block[high] & 3) | 0x20);
  }
  return blocks;
}

// Gives tensors of a file other types, with these blocks as their data.
void retype(const std::string& file, const std::map<std::string, std::pair<GgmlType, std::string>>& changes) {
  const GgufFile was(file);
  const std::string bytes = read_file(file, 1 << 24);
  std::string out = bytes.substr(0, static_cast<std::size_t>(was.tensors()[0].begin));
  const std::size_t data = out.size();
  const auto put = [&](std::size_t at, auto number) { std::memcpy(out.data() + at, &number, sizeof number); };
  for (const GgufTensor& t : was.tensors()) {
    const auto change = changes.find(t.name);
    const std::size_t type = out.find(t.name) + t.name.size() + 4 + 8 * t.shape.size();
    if (change != changes.end()) put(type, change->second.first);
    put(type + 4, std::uint64_t{out.size() - data});
    out += change != changes.end()
               ? change->second.second
               : bytes.substr(static_cast<std::size_t>(t.begin), static_cast<std::size_t>(t.bytes()));
    out.resize((out.size() + 31) / 32 * 32);
  }
  std::ofstream(file, std::ios::binary) << out;
}

// Types that ft only reads: each is a layer's weight of a base that trains.
TEST_F(GgufImport, TypesThatFtDoesNotWriteAreBases) {
  constexpr GgmlType kTypes[] = {GgmlType::q2_k,    GgmlType::q3_k,  GgmlType::iq4_xs, GgmlType::iq3_s,
                                 GgmlType::iq3_xxs, GgmlType::iq2_s, GgmlType::iq2_xs, GgmlType::iq2_xxs,
                                 GgmlType::iq1_m,   GgmlType::iq1_s, GgmlType::tq1_0,  GgmlType::tq2_0,
                                 GgmlType::mxfp4};
  folder.write("train.jsonl", "{\"prompt\": \"a b\", \"completion\": \"c d\"}\n");
  const Json config = {{"model", {{"model_name_or_path", "x.gguf"}}},
                       {"data", {{"datasets", {{{"path", "train.jsonl"}}}}}},
                       {"training", {{"output_dir", "out"}, {"max_steps", 1}}}};
  folder.write("run.json", config.dump());
  for (std::size_t first = 0; first < std::size(kTypes); first += 4) {
    make(source_path("configs/demo/base"), "float32");
    std::map<std::string, std::pair<GgmlType, std::string>> changes;
    for (std::size_t i = first; i < std::min(first + 4, std::size(kTypes)); ++i)
      changes[str("blk.", i - first, ".ffn_down.weight")] = {kTypes[i],
                                                             random_blocks(*form_of(kTypes[i]), 192 * 512)};
    retype(file, changes);
    folder.write("config.json", config_of_gguf(GgufFile(file)));
    const GgufWeights weights(file, folder / "config.json");
    for (const auto& [name, change] : changes) {
      const GgmlForm& form = *form_of(change.first);
      std::vector<float> want(192 * 512);
      for (std::size_t i = 0, at = 0; i < want.size();
           i += static_cast<std::size_t>(form.block), at += static_cast<std::size_t>(form.bytes))
        form.dequantize(reinterpret_cast<const std::uint8_t*>(change.second.data()) + at, want.data() + i);
      EXPECT_EQ(values(weights, "model.layers." + name.substr(4, 1) + ".mlp.down_proj.weight", 0, 192 * 512),
                want)
          << form.name;
      EXPECT_NE(weights.types().find(form.name), std::string::npos) << weights.types();
    }
    const Outcome trained = run({"train", "--config", folder / "run.json", "--overwrite"});
    EXPECT_EQ(trained.code, 0) << trained.err;
  }
}

// LLaMA's tokenizer as GGUF's readers use it: with a space before every text (legacy).
TEST_F(GgufImport, TokenizersComeBack) {
  const std::vector<std::string> texts{"",
                                       "Hello, world!",
                                       "  two  spaces\nand lines\n\n",
                                       "1234567 + 89 = x",
                                       "naïve café, Übergrößenträger",
                                       "日本語のテキスト 🎉",
                                       "<s>a</s>b <|endoftext|> c",
                                       "it's we're I'LL",
                                       "\ttabs\t",
                                       "a"};
  std::vector<std::string> folders{source_path("configs/demo/base")};
  for (const char* name : {"llama3", "qwen2", "llama-model-legacy", "t5-model"})
    folders.push_back(source_path(std::string("tests/data/tokenizers/") + name));
  for (const std::string& from : folders) {
    const auto was = make_tokenizer(from);
    write(gguf_tokenizer_keys(from, was->size()));
    const std::string to = folder / "tokenizer";
    fs::remove_all(to);
    fs::create_directories(to);
    write_gguf_tokenizer(GgufFile(file), to);
    const auto is = make_tokenizer(to);
    EXPECT_EQ(is->eos(), was->eos()) << from;
    EXPECT_EQ(is->bos(), was->bos()) << from;
    for (const std::string& text : texts) {
      const auto ids = was->encode_with_specials(text);
      EXPECT_EQ(is->encode_with_specials(text), ids) << from << ": " << text;
      EXPECT_EQ(is->decode(ids, true), was->decode(ids, true)) << from << ": " << text;
    }
  }
}

TEST_F(GgufImport, TokenizeTakesTheFileItself) {
  const std::string base = source_path("configs/demo/base");
  make(base, "float32");
  const auto ids = [](const std::string& model) {
    std::istringstream in("\"In digits: ninety six =\"\n");
    std::streambuf* const was = std::cin.rdbuf(in.rdbuf());
    const Outcome o = run({"tokenize", "--model", model});
    std::cin.rdbuf(was);
    EXPECT_EQ(o.code, 0) << o.err;
    return o.out;
  };
  const std::string expected = ids(base);
  EXPECT_TRUE(expected.starts_with("[")) << expected;
  EXPECT_EQ(ids(file), expected);
}

// Gemma's tokenizer.model puts no space before a text; readers do, unless the file says so.
TEST_F(GgufImport, ATextWithoutASpaceBeforeIt) {
  const std::string from = folder / "gemma";
  fs::copy(source_path("tests/data/tokenizers/llama-model-legacy"), from);
  const auto with = make_tokenizer(from)->encode("Hello, world!");
  std::ofstream(from + "/tokenizer.model", std::ios::app | std::ios::binary)
      << std::string_view("\x1A\x02\x18\x00", 4);  // normalizer_spec.add_dummy_prefix: false
  const auto was = make_tokenizer(from);
  ASSERT_NE(was->encode("Hello, world!"), with);
  write(gguf_tokenizer_keys(from, was->size()));
  const std::string to = folder / "tokenizer";
  fs::create_directories(to);
  write_gguf_tokenizer(GgufFile(file), to);
  EXPECT_EQ(make_tokenizer(to)->encode("Hello, world!"), was->encode("Hello, world!"));
}

// A vocabulary that begins with special tokens, as SmolLM2's does.
TEST_F(GgufImport, SpecialTokensInFrontOfTheOthers) {
  write({{"tokenizer.ggml.model", std::string("gpt2")},
         {"tokenizer.ggml.pre", std::string("smollm")},
         {"tokenizer.ggml.tokens", std::vector<std::string>{"<s>", "a", "b", "ab", "<e>", "c"}},
         {"tokenizer.ggml.token_type", std::vector<std::int32_t>{3, 1, 1, 1, 3, 1}},
         {"tokenizer.ggml.merges", std::vector<std::string>{"a b"}},
         {"tokenizer.ggml.eos_token_id", std::uint32_t{4}}});
  write_gguf_tokenizer(GgufFile(file), folder.path());
  const auto t = make_tokenizer(folder.path());
  EXPECT_EQ(t->encode("<s>abc<e>"), (Tokenizer::Ids{0, 3, 5, 4}));
  EXPECT_EQ(t->eos(), 4);
  EXPECT_TRUE(t->is_special(0));
  EXPECT_FALSE(t->is_special(3));
}

TEST_F(GgufImport, ARunAndAnswersTakeTheFileItself) {
  const std::string base = source_path("configs/demo/base");
  make(base, "float32");
  folder.write("in.jsonl", "{\"prompt\": \"What is 2 + 2?\"}\n");
  const auto answer = [&](const std::string& model) {
    const Outcome o = run({"generate", "--model", model, "--input", folder / "in.jsonl", "--output",
                           folder / "out.jsonl", "--overwrite", "generation.max_new_tokens=8"});
    EXPECT_EQ(o.code, 0) << o.err;
    return JsonObject::read(folder / "out.jsonl").text("completion");
  };
  EXPECT_EQ(answer(file), answer(base));

  make(base, "q4_k_m");
  folder.write(
      "train.jsonl",
      "{\"prompt\": \"a b\", \"completion\": \"c d\"}\n{\"prompt\": \"b\", \"completion\": \"d\"}\n");
  const Json config = {{"model", {{"model_name_or_path", "x.gguf"}}},
                       {"data", {{"datasets", {{{"path", "train.jsonl"}}}}}},
                       {"training", {{"output_dir", "out"}, {"max_steps", 1}}}};
  folder.write("run.json", config.dump());
  const Outcome trained = run({"train", "--config", folder / "run.json"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.err.find("are dequantized to"), std::string::npos) << trained.err;
  EXPECT_EQ(read_json(folder / "out/run.json")["model"]["model_name_or_path"], file);
  EXPECT_EQ(read_json(folder / "out/adapter_config.json")["base_model_name_or_path"], file);
  EXPECT_TRUE(path_exists(folder / "out/tokenizer.model"));
  const Outcome merged =
      run({"export", "--to", "hf", "--from", folder / "out", "--output", folder / "merged"});
  EXPECT_EQ(merged.code, 0) << merged.err;
  EXPECT_TRUE(path_exists(folder / "merged/tokenizer.model"));
}

// The run's model and its reference model are read from a folder and from a GGUF file, in either order.
TEST_F(GgufImport, ARunAndItsReferenceMayBeOfEitherKind) {
  const std::string base = source_path("configs/demo/base");
  make(base, "q8_0");
  folder.write("pairs.jsonl", "{\"prompt\": \"a b\", \"chosen\": \" c\", \"rejected\": \" d\"}\n");
  for (const auto& [model, reference] : {std::pair(file, base), std::pair(base, file)}) {
    const Json config = {{"model", {{"model_name_or_path", model}}},
                         {"data", {{"datasets", {{{"path", "pairs.jsonl"}}}}}},
                         {"objective", {{"type", "dpo"}, {"ref_model_name_or_path", reference}}},
                         {"training", {{"output_dir", "out"}, {"max_steps", 1}}}};
    folder.write("run.json", config.dump());
    const Outcome o = run({"train", "--config", folder / "run.json", "--overwrite"});
    EXPECT_EQ(o.code, 0) << o.err;
  }
}

TEST_F(GgufImport, LeavesNoFilesInTheTemporaryFolder) {
  make(source_path("configs/demo/base"), "q8_0");
  std::string unpacked;
  {
    RunConfig c = parse_config(
        Json{{"model", {{"model_name_or_path", file}}}, {"data", {{"datasets", {{{"path", "x"}}}}}}}.dump(),
        "run.json", "", {});
    unpacked = c.model.folder();
    EXPECT_TRUE(path_exists(unpacked + "/config.json"));
    EXPECT_EQ(c.model.model_name_or_path, file);
  }
  EXPECT_FALSE(path_exists(unpacked));
}

// Readers rank groups by their two best experts, DeepSeek V2 by the best one.
TEST_F(GgufImport, GroupsOfDeepSeekV2AreRefused) {
  const auto config = [&](std::uint32_t used) {
    GgufKeys keys;
    for (const auto& [key, n] : {std::pair{"block_count", 1u},
                                 {"context_length", 64u},
                                 {"embedding_length", 32u},
                                 {"feed_forward_length", 16u},
                                 {"attention.head_count", 2u},
                                 {"attention.head_count_kv", 1u},
                                 {"attention.kv_lora_rank", 4u},
                                 {"attention.key_length_mla", 6u},
                                 {"attention.value_length_mla", 4u},
                                 {"rope.dimension_count", 2u},
                                 {"expert_count", 8u},
                                 {"expert_used_count", 1u},
                                 {"expert_feed_forward_length", 8u},
                                 {"expert_shared_count", 1u},
                                 {"expert_group_count", 4u},
                                 {"expert_group_used_count", used}})
      keys.emplace_back(str("deepseek2.", key), n);
    write(keys, "deepseek2");
    folder.write("config.json", config_of_gguf(GgufFile(file)));
    return read_json(folder / "config.json");
  };
  EXPECT_EQ(config(4)["topk_method"], "greedy");
  EXPECT_NO_THROW(make_gguf_model(folder / "config.json"));
  EXPECT_EQ(config(2)["topk_method"], "group_limited_greedy");
  const std::string error = test::error_of([&] { GgufWeights(file, folder / "config.json"); });
  EXPECT_TRUE(error.starts_with("3 ") && error.ends_with("a group of experts has the score of its two best "
                                                         "(topk_method noaux_tc)"))
      << error;
}

// The pairs of Gemma 4's heads that rotate are the first ones, with one divisor.
TEST_F(GgufImport, OtherDivisorsOfGemma4AreRefused) {
  const auto refusal = [&](std::vector<float> divisors) {
    const std::vector<GgufTensor> tensors = {{"token_embd.weight", GgmlType::f32, {2, 32}},
                                             {"rope_freqs.weight", GgmlType::f32, {4}}};
    std::vector<float> zeros(64);
    write_gguf(file,
               {{"general.architecture", std::string("gemma4")},
                {"gemma4.block_count", 1u},
                {"gemma4.attention.key_length", 8u},
                {"gemma4.attention.sliding_window_pattern", std::vector<std::int32_t>{0}},
                {"gemma4.attention.head_count_kv", 1u},
                {"gemma4.feed_forward_length", 8u}},
               tensors, [&](const GgufTensor& t) {
                 const bool table = t.shape.size() == 2;
                 return Tensor(reinterpret_cast<std::byte*>(table ? zeros.data() : divisors.data()),
                               DType::f32, table ? Shape{2, 32} : Shape{4});
               });
    return refused();
  };
  for (const std::vector<float>& wrong :
       {std::vector<float>{1, 2, 1e30f, 1e30f}, {8, 1e30f, 8, 1e30f}, {1, 1e30f, 1e30f, 1e20f}})
    EXPECT_EQ(refusal(wrong),
              ": rope_freqs.weight is not one divisor for the first pairs and at least 5e29 for the others");
  for (const std::vector<float>& good : {std::vector<float>{8, 8, 1e30f, 1e30f}, {1, 1, 1, 1}})
    EXPECT_EQ(refusal(good), ": gemma4.embedding_length is missing");
}

TEST_F(GgufImport, UnsupportedFilesAreRefused) {
  write({}, "rwkv");
  EXPECT_EQ(
      refused(),
      ": architecture rwkv; ft reads llama, qwen2, qwen3, gemma2, gemma3, phi3, granite, olmo2, smollm3, "
      "gpt2, gptneox, qwen2moe, qwen3moe, olmoe, qwen35, qwen35moe, qwen3next, gemma4, gpt-oss, deepseek2, "
      "glm4moe, t5 from GGUF");
  write({});
  EXPECT_EQ(refused(), ": llama.attention.head_count is missing");
  write({{"llama.attention.head_count", std::string("x")}});
  EXPECT_EQ(refused(), ": llama.attention.head_count is not a number");
  write({{"llama.attention.head_count", 0.5f}});
  EXPECT_EQ(refused(), ": llama.attention.head_count is not a positive whole number");
  write({{"llama.attention.head_count", std::vector<std::int32_t>{1, 2}}});
  EXPECT_EQ(refused(), ": llama.attention.head_count differs between layers, which ft does not have");

  const auto tokenizer = [&](GgufKeys keys) {
    write(std::move(keys));
    try {
      write_gguf_tokenizer(GgufFile(file), folder.path());
    } catch (const UserError& e) {
      return std::string(e.what()).substr(file.size());
    }
    return std::string("not refused");
  };
  const std::vector<std::string> two{"a", "b"};
  const std::string model = "tokenizer.ggml.model", pre = "tokenizer.ggml.pre";
  const auto bpe = [&](GgufKeys more) {
    more.insert(more.begin(), {{model, std::string("gpt2")},
                               {"tokenizer.ggml.tokens", two},
                               {"tokenizer.ggml.merges", std::vector<std::string>{}}});
    return tokenizer(std::move(more));
  };
  EXPECT_TRUE(bpe({{pre, std::string("no-such-model")}})
                  .starts_with(": tokenizer.ggml.pre is no-such-model; ft splits texts as llama-bpe, "));
  EXPECT_TRUE(bpe({}).starts_with(": tokenizer.ggml.pre is missing, "));
  EXPECT_EQ(tokenizer({{model, std::string("rwkv")}}),
            ": tokenizer.ggml.model is rwkv; ft reads llama, gpt2 and t5");
  EXPECT_EQ(tokenizer({{model, std::string("llama")}, {"tokenizer.ggml.tokens", two}}),
            ": tokenizer.ggml.scores has another length than the tokens");
  EXPECT_EQ(tokenizer({{model, std::string("gpt2")}, {"tokenizer.ggml.tokens", two}}),
            ": tokenizer.ggml.merges is missing");
  EXPECT_EQ(tokenizer({{model, std::string("gpt2")},
                       {"tokenizer.ggml.tokens", two},
                       {"tokenizer.ggml.token_type", std::vector<std::int32_t>{1}}}),
            ": tokenizer.ggml.token_type has another length than the tokens");
  EXPECT_EQ(tokenizer({{model, std::string("llama")},
                       {"tokenizer.ggml.tokens", two},
                       {"tokenizer.ggml.bos_token_id", std::uint32_t{2}}}),
            ": tokenizer.ggml.bos_token_id is beyond the tokens");
}

}  // namespace
}  // namespace ft
