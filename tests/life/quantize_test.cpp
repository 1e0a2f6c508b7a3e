// ft quantize, tested from outside: it writes the folder that bitsandbytes writes, and training on it equals
// training with quantization at load.
#include <cstring>

#include "engine/files/safetensors/safetensors_write.h"
#include "engine/formats/bitsandbytes.h"
#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

// Quantizes the model of a golden test to 4 bits, into the workplace's folder "packed".
void quantize_model(const Workplace& w, const std::vector<std::string>& more = {}) {
  std::vector<std::string> c = {"quantize", "--model", "model", "--output", "packed"};
  c.insert(c.end(), more.begin(), more.end());
  ASSERT_EQ(w.run(c), 0) << w.says();
}

struct QuantizeCase {
  const char* golden;
  const char *type, *nested;
  bool bf16;
};

std::ostream& operator<<(std::ostream& to, const QuantizeCase& c) {
  return to << c.golden << ' ' << c.type << (c.bf16 ? " bf16" : "");
}

class Quantize : public testing::TestWithParam<QuantizeCase> {};

TEST_P(Quantize, TrainsAsQuantizedAtLoad) {
  const QuantizeCase& c = GetParam();
  Json config = {{"lora", {{"r", 4}}}};
  if (std::string(c.golden) == "t5")
    config["data"] = {{"max_seq_length", nullptr}, {"max_source_length", 64}, {"max_target_length", 64}};
  const std::string bf16 = c.bf16 ? "training.bf16=true" : "training.bf16=false";
  const Workplace w(c.golden, config);
  const bool fp8 = std::string(c.type) == "fp8";
  const std::vector<std::string> at_load =
      fp8 ? std::vector<std::string>{bf16, "model.frozen_dtype=fp8"}
          : std::vector<std::string>{bf16, "quantization.load_in_4bit=true",
                                     std::string("quantization.bnb_4bit_quant_type=") + c.type,
                                     std::string("quantization.bnb_4bit_use_double_quant=") + c.nested};
  ASSERT_EQ(w.train(at_load), 0) << w.says();
  const auto want = losses(w / "out");
  const std::string weights = contents(w / file_of(config));
  fs::remove_all(w / "out");
  std::vector<std::string> how = {"--type", c.type};
  if (std::string(c.nested) == "true") how.push_back("--double");
  ASSERT_NO_FATAL_FAILURE(quantize_model(w, how));
  ASSERT_EQ(w.train({bf16, "model.model_name_or_path=packed"}), 0) << w.says();
  EXPECT_EQ(losses(w / "out"), want);
  EXPECT_TRUE(contents(w / file_of(config)) == weights);
}
INSTANTIATE_TEST_SUITE_P(
    All, Quantize,
    testing::Values(QuantizeCase{"llama", "nf4", "true", false}, QuantizeCase{"llama", "fp4", "false", true},
                    QuantizeCase{"t5", "nf4", "false", true}, QuantizeCase{"llama", "fp8", "false", false},
                    QuantizeCase{"llama", "fp8", "false", true}, QuantizeCase{"t5", "fp8", "false", true},
                    QuantizeCase{"qwen3", "nf4", "true", true}));

// Equal except for the mean of absmax, which may differ in its last bit, as may the largest difference from
// that mean, and except for spaces after the JSON that contains it.
TEST(QuantizedFolder, IsThatOfBitsandbytes) {
  const Workplace w("llama");
  const std::string golden = source_path("tests/golden/four_bit/");
  ASSERT_EQ(w.run({"quantize", "--model", golden + "plain", "--output", "packed", "--double"}), 0)
      << w.says();
  EXPECT_EQ(Json::parse(contents(w / "packed/config.json"))["quantization_config"],
            Json::parse(contents(golden + "packed/config.json"))["quantization_config"]);
  const SafetensorsFile got((w / "packed/model.safetensors").string()),
      want(golden + "packed/model.safetensors");
  ASSERT_EQ(got.tensors().size(), want.tensors().size());
  for (const StoredTensor& t : want.tensors()) {
    const StoredTensor* same = got.find(t.name);
    ASSERT_NE(same, nullptr) << t.name;
    EXPECT_EQ(same->type, t.type) << t.name;
    const auto bytes = [](const SafetensorsFile& file, const StoredTensor& tensor) {
      return contents(file.path())
          .substr(static_cast<std::size_t>(tensor.begin),
                  static_cast<std::size_t>(tensor.end - tensor.begin));
    };
    if (t.name.ends_with(".nested_absmax")) {
      float a = 0, b = 0;
      ASSERT_EQ(t.numel, 1);
      std::memcpy(&a, bytes(got, *same).data(), sizeof a);
      std::memcpy(&b, bytes(want, t).data(), sizeof b);
      EXPECT_NEAR(a, b, 1e-8) << t.name;
    } else if (t.name.find("quant_state") == std::string::npos) {
      EXPECT_EQ(same->shape, t.shape) << t.name;
      EXPECT_TRUE(bytes(got, *same) == bytes(want, t)) << t.name;
    } else {
      Json a = Json::parse(bytes(got, *same)), b = Json::parse(bytes(want, t));
      EXPECT_NEAR(a["nested_offset"].get<double>(), b["nested_offset"].get<double>(), 1e-8);
      a.erase("nested_offset"), b.erase("nested_offset");
      EXPECT_EQ(a, b) << t.name;
    }
  }
}

// The result has the model's shards, with the index and the tokenizer's files.
TEST(QuantizedFolder, IsShardedAsTheModel) {
  const Workplace w("llama");
  const fs::path from = fs::canonical(w / "model"), sharded = w / "sharded";
  fs::create_directory(sharded);
  fs::copy_file(from / "config.json", sharded / "config.json");
  std::ofstream(sharded / "tokenizer.json") << "{}";
  const ModelFolder model(from.string());
  std::vector<TensorSpec> specs;
  std::vector<std::byte> values;
  for (const std::string& name : model.names()) {
    const WeightInfo info = model.info(name);
    Shape shape;
    for (const auto d : info.shape) shape.dims[shape.rank++] = d;
    specs.push_back({name, DType::f32, shape});
  }
  const auto provider = [&](const TensorSpec& s) {
    values.resize(static_cast<std::size_t>(s.shape.numel() * 4));
    const Tensor t(values.data(), DType::f32, s.shape);
    model.read(s.name, t);
    return t;
  };
  const auto files = write_shards(sharded.string(), "model", specs, provider, 10'000).names;
  ASSERT_GT(files.size(), 3u);
  ASSERT_NO_FATAL_FAILURE(quantize_model(w));
  ASSERT_EQ(w.run({"quantize", "--model", "sharded", "--output", "parts"}), 0) << w.says();
  for (const std::string& name : files) EXPECT_TRUE(fs::exists(w / "parts" / name)) << name;
  EXPECT_EQ(contents(w / "parts/tokenizer.json"), "{}");
  const auto one = open_model_folder((w / "packed").string()),
             parts = open_model_folder((w / "parts").string());
  ASSERT_EQ(one->names(), parts->names());
  for (const std::string& name : one->names()) {
    const auto* a = dynamic_cast<const BitsAndBytesFolder*>(one.get());
    const auto* b = dynamic_cast<const BitsAndBytesFolder*>(parts.get());
    ASSERT_EQ(a->find(name) == nullptr, b->find(name) == nullptr);
    if (!a->find(name)) continue;
    EXPECT_EQ(a->data(name).codes, b->data(name).codes) << name;
    EXPECT_EQ(a->data(name).absmax, b->data(name).absmax) << name;
  }
}

// A folder in FP8 is inspected, resumed, answered from and merged as any other.
TEST(QuantizedFolder, InFp8IsABase) {
  const Workplace w("llama", {{"lora", {{"r", 4}}}, {"model", {{"model_name_or_path", "packed"}}}});
  ASSERT_NO_FATAL_FAILURE(quantize_model(w, {"--type", "fp8"}));
  ASSERT_EQ(w.run({"inspect", "packed", "--json"}), 0) << w.says();
  const Json packed = Json::parse(contents(w / "stdout"));
  EXPECT_EQ(packed["quantization"], (Json{{"quant_type", "fp8"}, {"scales", "channel"}}));
  ASSERT_EQ(w.run({"inspect", "model", "--json"}), 0) << w.says();
  EXPECT_EQ(packed["parameters"], Json::parse(contents(w / "stdout"))["parameters"]);
  ASSERT_EQ(w.run({"plan", "--config", "run.json", "--json", "checkpointing.save_strategy=steps"}), 0)
      << w.says();
  const Json planned = Json::parse(contents(w / "stdout"));
  ASSERT_EQ(w.train({"checkpointing.save_strategy=steps", "checkpointing.save_steps=5"}), 0) << w.says();
  expect_planned(planned, rows(w / "out/log.jsonl").back().at("memory"));
  const auto want = losses(w / "out");
  const std::string weights = contents(w / "out/adapter_model.safetensors");
  ASSERT_EQ(w.run({"merge", "--model", "packed", "--adapter", "out", "--output", "merged"}), 0) << w.says();
  EXPECT_NE(w.says().find("rounding dequantized fp8"), std::string::npos) << w.says();
  EXPECT_FALSE(Json::parse(contents(w / "merged/config.json")).contains("quantization_config"));
  ASSERT_EQ(w.train({"training.resume_from_checkpoint=out/checkpoint-5"}), 0) << w.says();
  EXPECT_EQ(losses(w / "out"), want);
  EXPECT_TRUE(contents(w / "out/adapter_model.safetensors") == weights);
}

TEST(QuantizedFolder, MistakesAreReportedAndLeaveNoFiles) {
  const Workplace w("llama");
  ASSERT_NO_FATAL_FAILURE(quantize_model(w));
  const auto refused = [&](int exit, const std::string& model, const std::string& output,
                           const std::string& text) {
    EXPECT_EQ(w.run({"quantize", "--model", model, "--output", output}), exit) << w.says();
    EXPECT_NE(w.says().find(text), std::string::npos) << w.says();
  };
  refused(2, "model", "packed", "--output: packed already exists; give another folder");
  refused(3, "packed", "again", "packed: is quantized already");
  EXPECT_EQ(w.run({"quantize", "--model", "model", "--output", "again", "--type", "fp8", "--double"}), 2);
  EXPECT_NE(w.says().find("--double: the scales of fp8 are not quantized"), std::string::npos) << w.says();
  refused(3, "nowhere", "again", "nowhere");
  const fs::path broken = w / "broken";
  fs::create_directory(broken);
  for (const char* name : {"config.json", "model.safetensors"})
    fs::copy_file(w / "model" / name, broken / name);
  std::fstream file(broken / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-64, std::ios::end);
  file << std::string(64, '\xff');  // NaN
  file.close();
  refused(3, "broken", "again", "has a NaN or Inf");
  for (const auto& entry : fs::directory_iterator(w / "."))
    EXPECT_FALSE(entry.path().filename().string().starts_with("again")) << entry.path();
}

}  // namespace
}  // namespace ft::test
