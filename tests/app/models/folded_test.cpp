// Adapters of kinds that are folded into weights: merged weights and logits equal PEFT's, malformed files are
// refused, and training from such an adapter is too. tests/golden/make_folded.py makes them.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "app/files/merger.h"
#include "app/run/run.h"
#include "engine/files/convert.h"
#include "engine/files/file.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "engine/ops/ops.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using test::error_of;
using test::TempFolder;

struct Golden {
  const char *name, *model;
  std::int64_t linears;
};
constexpr Golden kGoldens[] = {{"adalora", "llama", 4},       {"vera", "llama-biases-gelu", 3},
                               {"vera-drawn", "llama", 3},    {"vera-gpt2", "gpt2", 2},
                               {"loha", "llama", 4},          {"lokr", "llama", 5},
                               {"lokr-near", "llama", 2},     {"ia3", "llama-biases-gelu", 6},
                               {"ia3-gpt2", "gpt2", 4},       {"boft", "llama-biases-gelu", 2},
                               {"boft-butterfly", "llama", 2}};

std::string model_of(const Golden& g) {
  return source_path("tests/golden/models/" + std::string(g.model) + "/model");
}
std::string adapter_of(const Golden& g) { return source_path("tests/golden/folded/" + std::string(g.name)); }

BuiltModel build(const RunConfig& c) { return build_model(c, Weights::check, {}, merge_purpose(c)); }
BuiltModel build(const Golden& g) { return build(merge_config(model_of(g), adapter_of(g))); }

std::vector<float> values(const SafetensorsFile& file, const StoredTensor& t) {
  std::vector<float> y(static_cast<std::size_t>(t.numel));
  file.read(t, Tensor(reinterpret_cast<std::byte*>(y.data()), DType::f32, {t.numel}));
  return y;
}

// Returns the largest difference of two lists, relative to the largest value of the second.
double difference(const float* a, const std::vector<float>& b) {
  double largest = 0, of = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    largest = std::max(largest, static_cast<double>(std::abs(a[i] - b[i])));
    of = std::max(of, static_cast<double>(std::abs(b[i])));
  }
  return largest / of;
}

// Returns the logits (tokens, V) of one sequence in f32.
std::vector<float> logits_of(const BuiltModel& b, const std::vector<std::int32_t>& ids) {
  EachParameter freeze([](Parameter& p) { p.trainable = false; });
  b.model().visit(freeze);
  const std::int64_t n = std::ssize(ids), vocabulary = b.model().vocab_size();
  Batch batch;
  batch.input_ids = ids;
  for (std::int32_t t = 0; t < n; ++t) {
    batch.positions.push_back(t);
    batch.target_rows.push_back(t);
    batch.targets.push_back(0);
  }
  batch.starts = {0, static_cast<std::int32_t>(n)};
  Run run(b);
  run.request().eval = {{.tokens = n, .targets = n, .sequences = 1, .longest = n}};
  run.plan("");
  Engine& engine = run.start();
  engine.context.train = false;
  const Buffer memory = engine.ops->allocate(n * vocabulary * size_of(DType::f32));
  Tensor logits(memory.get(), DType::f32, {n, vocabulary});
  b.model().logits(engine.context, engine.store, batch, logits);
  std::vector<float> y(static_cast<std::size_t>(n * vocabulary));
  engine.ops->download(y.data(), logits);
  return y;
}

class Folded : public testing::TestWithParam<Golden> {};

TEST_P(Folded, MergedWeightsAreThoseOfPeft) {
  const BuiltModel b = build(GetParam());
  EXPECT_FALSE(b.lora);
  EXPECT_EQ(b.folded, GetParam().linears);
  EXPECT_TRUE(b.warnings.empty()) << b.warnings[0];
  const SafetensorsFile expected(adapter_of(GetParam()) + "/expected.safetensors");
  const auto base = open_model_folder(b.folder, b.made.info.stored);
  Merger merger(b);
  std::size_t changed = 0;
  for (const TensorSpec& spec : merger.specs(DType::f32)) {
    const Tensor y = merger(spec);
    std::vector<float> want(static_cast<std::size_t>(y.numel()));
    if (const StoredTensor* t = expected.find(spec.name)) {
      ++changed;
      want = values(expected, *t);
    } else {
      base->read(spec.name, Tensor(reinterpret_cast<std::byte*>(want.data()), DType::f32, {y.numel()}));
      EXPECT_EQ(difference(y.as<float>(), want), 0) << spec.name;
    }
    EXPECT_LT(difference(y.as<float>(), want), 2e-6) << spec.name;
  }
  EXPECT_EQ(changed + 2, expected.tensors().size());  // logits and ids
}

TEST_P(Folded, LogitsAreThoseOfPeft) {
  const BuiltModel b = build(GetParam());
  const SafetensorsFile expected(adapter_of(GetParam()) + "/expected.safetensors");
  const StoredTensor& stored = *expected.find("ids");
  std::vector<std::int32_t> ids(static_cast<std::size_t>(stored.numel));
  expected.read(stored, Tensor(reinterpret_cast<std::byte*>(ids.data()), DType::i32, {stored.numel}));
  const std::vector<float> want = values(expected, *expected.find("logits")), own = logits_of(b, ids);
  ASSERT_EQ(own.size(), want.size());
  EXPECT_LT(difference(own.data(), want), 2e-5);
}

// A weight may be read in parts.
TEST_P(Folded, PartsOfAWeightAreThoseOfTheWhole) {
  const BuiltModel b = build(GetParam());
  for (const std::string& name : b.base->names()) {
    const std::vector<std::int64_t> shape = b.base->info(name).shape;
    const std::int64_t n = shape.size() == 2 ? shape[0] * shape[1] : shape[0], cut = n / 3;
    std::vector<std::uint16_t> whole(static_cast<std::size_t>(n)), parts(whole.size());
    const auto view = [](std::vector<std::uint16_t>& of, std::int64_t first, std::int64_t count) {
      return Tensor(reinterpret_cast<std::byte*>(of.data() + first), DType::bf16, {count});
    };
    b.base->read(name, view(whole, 0, n), 0);
    b.base->read(name, view(parts, 0, cut), 0);
    b.base->read(name, view(parts, cut, n - cut), cut);
    EXPECT_EQ(whole, parts) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Folded, testing::ValuesIn(kGoldens), [](const auto& golden) {
  std::string name = golden.param.name;
  std::erase(name, '-');
  return name;
});

TEST(FoldedAdapter, IsNoStartOfATraining) {
  RunConfig c;
  c.model.model_name_or_path = model_of(kGoldens[4]);
  c.lora.adapter_name_or_path = adapter_of(kGoldens[4]);
  const std::string error = error_of([&] { build_model(c, Weights::check); });
  EXPECT_EQ(error, "3 " + adapter_of(kGoldens[4]) +
                       "/adapter_config.json: peft_type: ft reads adapters of LoHa to generate, evaluate and "
                       "merge, and for nothing else; make a model of it with ft merge, and use that");
}

TEST(FoldedAdapter, NeedsDenseWeights) {
  RunConfig c = merge_config(source_path("tests/golden/four_bit/packed"), adapter_of(kGoldens[4]));
  const std::string error = error_of([&] { build(c); });
  EXPECT_NE(error.find("LoHa changes weights, and those of "), error.npos) << error;
  EXPECT_NE(error.find(" are in 4 bits; write them dense first (ft export --to hf --from "), error.npos)
      << error;
}

// Weights that a run quantizes are quantized with the adapter in them.
TEST(FoldedAdapter, IsQuantizedWithItsWeights) {
  RunConfig c = merge_config(model_of(kGoldens[4]), adapter_of(kGoldens[4]));
  c.quantization.load_in_4bit = true;
  const BuiltModel b = build(c);
  const auto* w = b.four_bit->find("model.layers.0.self_attn.q_proj.weight");
  ASSERT_NE(w, nullptr);
  const std::vector<float> coded = b.four_bit->dense(*b.base, *w);
  const SafetensorsFile expected(adapter_of(kGoldens[4]) + "/expected.safetensors");
  const std::vector<float> merged =
      values(expected, *expected.find("model.layers.0.self_attn.q_proj.weight"));
  double error = 0, all = 0;
  for (std::size_t i = 0; i < merged.size(); ++i) {
    error += std::pow(coded[i] - merged[i], 2);
    all += std::pow(merged[i], 2);
  }
  EXPECT_LT(error, 0.02 * all);  // of the base without the adapter it is far more
}

// An adapter whose files a test changes.
class Malformed : public testing::Test {
 protected:
  explicit Malformed(int golden = 4) : golden_(kGoldens[golden]) {
    for (const char* file : {"adapter_config.json", "adapter_model.safetensors"})
      std::filesystem::copy_file(adapter_of(golden_) + "/" + file, folder / file);
  }
  // Writes the tensors again: those that `keep` accepts, with the shape that `shape` gives them.
  void write(const std::function<bool(const std::string&)>& keep,
             const std::function<Shape(const std::string&, Shape)>& shape, const std::string& more = "") {
    std::vector<TensorSpec> specs;
    {
      const SafetensorsFile file(folder / "adapter_model.safetensors");
      for (const StoredTensor& t : file.tensors()) {
        Shape own;
        for (const std::int64_t d : t.shape) own.dims[own.rank++] = d;
        if (keep(t.name)) specs.push_back({t.name, DType::f32, shape(t.name, own)});
      }
    }
    if (!more.empty()) specs.push_back({more, DType::f32, {2, 2}});
    std::vector<float> zero;
    write_safetensors(folder / "adapter_model.safetensors", specs, [&](const TensorSpec& s) {
      zero.assign(static_cast<std::size_t>(s.shape.numel()), 0);
      return Tensor(reinterpret_cast<std::byte*>(zero.data()), DType::f32, s.shape);
    });
  }
  std::string error() const {
    return error_of([&] { build(merge_config(model_of(golden_), folder.path())); });
  }
  static bool all(const std::string&) { return true; }
  static Shape same(const std::string&, Shape s) { return s; }

  TempFolder folder;
  Golden golden_;
};

TEST_F(Malformed, TensorsThatLackAreNamed) {
  write([](const std::string& name) { return !name.ends_with("layers.1.mlp.up_proj.hada_w2_b"); }, same);
  EXPECT_NE(error().find("base_model.model.model.layers.1.mlp.up_proj.hada_w2_b is missing; "),
            std::string::npos)
      << error();
}

TEST_F(Malformed, SavedModulesThatLackAreNamed) {
  write([](const std::string& name) { return name.find("lm_head") == name.npos; }, same);
  EXPECT_NE(error().find("has no lm_head.weight, which "), std::string::npos) << error();
}

TEST_F(Malformed, OtherTensorsAreNamed) {
  write(all, same, "base_model.model.model.layers.0.self_attn.q_proj.hada_t1");
  EXPECT_NE(error().find("q_proj.hada_t1 belongs to nothing that "), std::string::npos) << error();
}

TEST_F(Malformed, ShapesAreChecked) {
  write(all, [](const std::string& name, Shape s) { return name.ends_with("w1_a") ? Shape{s[0], 9} : s; });
  EXPECT_NE(error().find("hada_w1_a is [32, 9], the model and "), std::string::npos) << error();
}

class MalformedVera : public Malformed {
 protected:
  MalformedVera() : Malformed(1) {}
};
TEST_F(MalformedVera, ProjectionsAreLargeEnough) {
  write(all, [](const std::string& name, Shape s) {
    return name.ends_with("vera_A") ? Shape{s[0], s[1] - 1} : s;
  });
  EXPECT_NE(error().find("base_model.vera_A is [5, 29], and "), std::string::npos) << error();
  write([](const std::string& name) { return !name.ends_with("vera_B"); },
        [](const std::string& name, Shape s) {
          return name.ends_with("vera_A") ? Shape{s[0], s[1] + 1} : s;
        });
  EXPECT_NE(error().find("base_model.vera_B is missing; "), std::string::npos) << error();
}

class MalformedLokr : public Malformed {
 protected:
  MalformedLokr() : Malformed(6) {}
};
TEST_F(MalformedLokr, FactorsMakeTheWeight) {
  write(all, [](const std::string& name, Shape s) {
    return name.ends_with("lokr_w1") ? Shape{s[0] + 1, s[1]} : s;
  });
  EXPECT_NE(error().find(" does not make the weight ("), std::string::npos) << error();
}

class MalformedIa3 : public Malformed {
 protected:
  MalformedIa3() : Malformed(7) {}
};
TEST_F(MalformedIa3, VectorsFitTheLinear) {
  write(all, [](const std::string& name, Shape s) {
    return name.ends_with("k_proj.ia3_l") ? Shape{1, 7} : s;
  });
  EXPECT_NE(error().find("k_proj.ia3_l is [1, 7], and needs [12, 1] or, in feedforward_modules, [1, 24]"),
            std::string::npos)
      << error();
}

class MalformedBoft : public Malformed {
 protected:
  MalformedBoft() : Malformed(10) {}
};
TEST_F(MalformedBoft, BlocksFitTheLinear) {
  write(all, [](const std::string& name, Shape s) {
    return name.ends_with("boft_R") ? Shape{s[0], s[1] * 2, s[2], s[3]} : s;
  });
  EXPECT_NE(error().find("blocks times size 32"), std::string::npos) << error();
}
TEST_F(MalformedBoft, ManyFactorsNeedManyBlocks) {
  write(all, [](const std::string& name, Shape s) {
    return name.ends_with("boft_R") ? Shape{5, 8, 4, 4} : s;
  });
  EXPECT_NE(error().find(": 5 factors need blocks of even size, and a multiple of 2^4 of them"),
            std::string::npos)
      << error();
}

class MalformedAdaLora : public Malformed {
 protected:
  MalformedAdaLora() : Malformed(0) {}
};
TEST_F(MalformedAdaLora, RanksAreNoMoreThanAtTheStart) {
  write(all, [](const std::string& name, Shape s) { return name.ends_with("lora_E") ? Shape{5, 1} : s; });
  EXPECT_NE(error().find("lora_E is [5, 1], and init_r"), std::string::npos) << error();
}

}  // namespace
}  // namespace ft
