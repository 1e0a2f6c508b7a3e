// Ranks that share each layer, from the outside: the training of one rank, whatever else the ranks do.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/io/safetensors.h"
#include "tests/life/ranks.h"

namespace ft::test {
namespace {

using Words = std::vector<std::string>;

Words with(Words all, const Words& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}
const Words kTwo = {"distributed.tensor_parallel_size=2"};
const Words kSteps = {"training.max_steps=12", "training.weight_decay=0.1", "training.max_grad_norm=0.5"};

std::vector<float> all_weights(const fs::path& path) {
  const SafetensorsFile file(path.string());
  std::vector<float> all;
  for (const StoredTensor& t : file.tensors()) {
    const std::size_t at = all.size();
    all.resize(at + static_cast<std::size_t>(t.numel));
    file.read(t, Tensor(reinterpret_cast<std::byte*>(all.data() + at), DType::f32, {t.numel}));
  }
  return all;
}

double nmse(const std::vector<float>& got, const std::vector<float>& want) {
  double top = 0, bottom = 0;
  EXPECT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    top += std::pow(double{got[i]} - want[i], 2);
    bottom += std::pow(double{want[i]}, 2);
  }
  return top / bottom;
}

struct Trained {
  std::vector<double> losses;
  std::vector<float> weights;
};

Trained train_on(const std::string& golden, const Json& config, int ranks, int stage, int accumulation,
                 const Words& more) {
  const Workplace w(golden, config);
  EXPECT_EQ(w.run(command(ranks, stage, accumulation, more)), 0) << w.says();
  return {losses(w / "out"), all_weights(w / file_of(config))};
}

void expect_same(const Trained& got, const Trained& want) {
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (std::size_t i = 0; i < want.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], want.losses[i], 2e-6 * want.losses[i]) << "step " << i;
  EXPECT_LT(nmse(got.weights, want.weights), 1e-9);
}

class TensorRanks : public testing::TestWithParam<Json> {};
INSTANTIATE_TEST_SUITE_P(All, TensorRanks, testing::Values(kLora, kFull));

// Among the adapters' inputs that are dropped out are parts of rows. Beside two ranks that share each layer
// are none, or two others, under each stage.
TEST_P(TensorRanks, AreOne) {
  const Trained one = train_on("llama", GetParam(), 1, 0, 2, kSteps);
  expect_same(train_on("llama", GetParam(), 2, 0, 2, with(kTwo, kSteps)), one);
  for (int stage = 0; stage < 4; ++stage)
    expect_same(train_on("llama", GetParam(), 4, stage, 1, with(kTwo, kSteps)), one);
}

TEST_P(TensorRanks, TakeThePlannedMemory) {
  const Workplace w("llama", GetParam());
  ASSERT_EQ(w.run(command(2, 0, 1, kTwo)), 0) << w.says();
  const Json measured = rows(w / "out/log.jsonl").back().at("memory");
  ASSERT_EQ(w.run({"plan", "--config", "run.json", "--json", "distributed.nproc_per_node=2", kTwo[0]}), 0)
      << w.says();
  const Json planned = Json::parse(contents(w / "stdout"));
  for (const char* name :
       {"weights", "adapter", "gradients", "optimizer", "activations", "scratch", "communication", "total"})
    EXPECT_EQ(planned.at(name), measured.at(name)) << name;
}

// Saved by ranks that share layers, or by one, and continued by the others.
TEST_P(TensorRanks, SaveWhatAnyOthersLoad) {
  const Words saving = with(kSteps, {"checkpointing.save_strategy=steps", "checkpointing.save_steps=5"});
  const Trained one = train_on("llama", GetParam(), 1, 0, 2, kSteps);
  for (const bool shared_first : {true, false}) {
    const Workplace w("llama", GetParam());
    const auto go = [&](bool shared, const Words& more) {
      const Words all = with(with(saving, more), shared ? kTwo : Words{});
      return w.run(command(shared ? 4 : 1, shared ? 1 : 0, shared ? 1 : 2, all));
    };
    ASSERT_EQ(go(shared_first, {}), 0) << w.says();
    ASSERT_EQ(
        go(!shared_first, {"training.resume_from_checkpoint=out/checkpoint-5", "training.output_dir=out2"}),
        0)
        << w.says();
    const std::string file = file_of(GetParam());
    Trained rest{losses(w / "out2"), all_weights(w / ("out2" + file.substr(3)))}, last = one;
    last.losses.erase(last.losses.begin(), last.losses.begin() + 5);
    expect_same(rest, last);
  }
}

TEST(TensorRanks, SayWhatTheyCannotShare) {
  const Workplace w("llama-gqa", kFull);  // one key/value head
  EXPECT_EQ(w.run(command(2, 0, 1, kTwo)), 2);
  EXPECT_NE(w.says().find("num_key_value_heads"), std::string::npos) << w.says();
  const Workplace other("llama", kFull);
  for (const char* setting : {"training.optim=adafactor", "lora.use_dora=true"}) {
    const Words more =
        std::string(setting).starts_with("lora") ? Words{setting, "finetuning_type=lora"} : Words{setting};
    EXPECT_EQ(other.run(command(2, 0, 1, with(kTwo, more))), 2);
    EXPECT_NE(other.says().find("distributed.tensor_parallel_size"), std::string::npos) << other.says();
  }
}

}  // namespace
}  // namespace ft::test
