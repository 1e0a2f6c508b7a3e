// Optimizers with device=cuda, compiled for the host: near the CPU's, and the same bits in every place of the
// states.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/life/program.h"

namespace ft::test {
namespace {

struct Result {
  std::vector<double> losses;
  std::string weights, average;
  bool operator==(const Result&) const = default;
};

struct Chosen {
  const char *name, *arguments = "";
  double apart = 1e-5;  // largest difference from the CPU's losses

  Result trained(const Workplace& w, std::vector<std::string> more) const {
    more.insert(more.end(), {"--overwrite", "training.max_steps=6", "training.bf16=false",
                             "training.optim=" + std::string(name), "training.ema_decay=0.9",
                             "training.weight_decay=0.1"});
    if (*arguments) more.push_back("training.optim_args=" + std::string(arguments));
    EXPECT_EQ(w.train(more), 0) << w.says();
    return {losses(w / "out"), contents(w / "out/model.safetensors"),
            contents(w / "out/ema/model.safetensors")};
  }
};

class CudaOptimizers : public testing::TestWithParam<Chosen> {};

TEST_P(CudaOptimizers, TrainAsOnTheCpu) {
  const Workplace w("llama", kFull);
  const Result cpu = GetParam().trained(w, {"device=cpu"}), cuda = GetParam().trained(w, {"device=cuda"});
  ASSERT_EQ(cuda.losses.size(), 6u);
  for (std::size_t i = 0; i < cuda.losses.size(); ++i)
    EXPECT_NEAR(cuda.losses[i], cpu.losses[i], GetParam().apart * cpu.losses[i]) << i;
}

INSTANTIATE_TEST_SUITE_P(All, CudaOptimizers,
                         testing::Values(Chosen{"adamw_8bit", "min_8bit_size=100", 1e-3}, Chosen{"lion"},
                                         Chosen{"lion_8bit", "min_8bit_size=100", 1e-3},
                                         Chosen{"ademamix", "t_alpha=4,t_beta3=4"},
                                         Chosen{"ademamix_8bit", "min_8bit_size=100", 1e-3},
                                         Chosen{"sgd", "momentum=0.9,nesterov=True"}, Chosen{"adagrad"},
                                         Chosen{"rmsprop", "centered=True,momentum=0.5"},
                                         Chosen{"adafactor", "scale_parameter=True"},
                                         Chosen{"muon", "", 1e-3},
                                         Chosen{"onebit_adam", "freeze_step=3", 1e-4}),
                         [](const auto& test) { return std::string(test.param.name); });

class CudaStates : public testing::TestWithParam<Chosen> {};

TEST_P(CudaStates, HaveTheSameBitsAtHome) {
  const Workplace w("llama", kFull);
  const Chosen& chosen = GetParam();
  const Result want = chosen.trained(w, {"device=cuda"});
  ASSERT_FALSE(want.average.empty());
  const std::string home = "zero_optimization.offload_optimizer.";
  EXPECT_TRUE(chosen.trained(w, {"device=cuda", home + "device=cpu"}) == want);
  EXPECT_TRUE(chosen.trained(w, {"device=cuda", home + "device=nvme", home + "nvme_path=."}) == want);
  const std::string paged = "paged_" + std::string(chosen.name);
  if (!paged.ends_with("_8bit")) return;
  EXPECT_TRUE((Chosen{paged.c_str(), chosen.arguments}.trained(w, {"device=cuda"}) == want));
  EXPECT_GT(rows(w / "out/log.jsonl").back().at("memory")["host"], 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, CudaStates,
    testing::Values(Chosen{"adamw_8bit", "min_8bit_size=100"}, Chosen{"lion_8bit", "min_8bit_size=100"},
                    Chosen{"ademamix", "t_alpha=4,t_beta3=4"}, Chosen{"ademamix_8bit", "min_8bit_size=100"},
                    Chosen{"sgd", "momentum=0.9"}, Chosen{"adagrad"}, Chosen{"rmsprop", "momentum=0.5"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace ft::test
