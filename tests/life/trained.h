// Losses and weights of a run, compared within the tolerance of another order of sums.
#pragma once
#include <cmath>

#include "engine/files/safetensors/safetensors.h"
#include "tests/life/ranks/ranks.h"

namespace ft::test {

using Words = std::vector<std::string>;

inline Words with(Words all, const Words& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

inline std::vector<float> all_weights(const fs::path& path) {
  const SafetensorsFile file(path.string());
  std::vector<float> all;
  for (const StoredTensor& t : file.tensors()) {
    const std::size_t at = all.size();
    all.resize(at + static_cast<std::size_t>(t.numel));
    file.read(t, Tensor(reinterpret_cast<std::byte*>(all.data() + at), DType::f32, {t.numel}));
  }
  return all;
}

inline double nmse(const std::vector<float>& got, const std::vector<float>& want) {
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

inline Trained train_on(const std::string& golden, const Json& config, int ranks, int stage, int accumulation,
                        const Words& more) {
  const Workplace w(golden, config);
  EXPECT_EQ(w.run(command(ranks, stage, accumulation, more)), 0) << w.says();
  return {losses(w / "out"), all_weights(w / file_of(config))};
}

// `got` may have begun after the first `from` steps.
inline void expect_same(const Trained& got, const Trained& want, std::size_t from = 0) {
  ASSERT_EQ(got.losses.size() + from, want.losses.size());
  for (std::size_t i = from; i < want.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i - from], want.losses[i], 2e-6 * want.losses[i]) << "step " << i;
  EXPECT_LT(nmse(got.weights, want.weights), 1e-9);
}

// Calls go(kind, words), which trains with ranks of one of two kinds. The kind `first` saves at a step, the
// other one continues.
template <class Go>
void expect_continued(const Workplace& w, const Json& config, bool first, std::size_t step,
                      const Trained& whole, const Go& go) {
  ASSERT_EQ(go(first, Words{}), 0) << w.says();
  const Words resumed = {"training.resume_from_checkpoint=out/checkpoint-" + std::to_string(step),
                         "training.output_dir=out2"};
  ASSERT_EQ(go(!first, resumed), 0) << w.says();
  expect_same({losses(w / "out2"), all_weights(w / ("out2" + file_of(config).substr(3)))}, whole, step);
}

// Runs two ranks and stops the second: expects that the other one ends and names it.
inline void expect_stuck_one_is_named(const Workplace& w, const Words& run) {
  const pid_t launcher = w.start(
      with(run, {"training.num_train_epochs=100000", "checkpointing.save_total_limit=2", kLostAfterSilence}));
  ASSERT_TRUE(w.wait_for_rows(3)) << w.says();
  const std::vector<pid_t> ranks = children(launcher);
  ASSERT_EQ(ranks.size(), 2u);
  kill(ranks[1], SIGSTOP);
  EXPECT_EQ(w.finish(launcher), 9) << w.says();
  EXPECT_NE(w.says().find(silent(ranks[1])), std::string::npos) << w.says();
}

// Trains with two stages. Expects the planned memory of the first, and the planned share of a step in which
// stages wait. Returns the plan.
inline Json expect_planned_stages(const Workplace& w, int accumulation, double bubble, const Words& more) {
  EXPECT_EQ(w.run(command(2, 0, accumulation, more)), 0) << w.says();
  const Json measured = rows(w / "out/log.jsonl").back().at("memory");
  EXPECT_EQ(w.run(with({"plan", "--config", "run.json", "--json", "distributed.nproc_per_node=2"}, more)), 0)
      << w.says();
  Json planned = Json::parse(contents(w / "stdout"));
  EXPECT_EQ(planned.at("pipeline").size(), 2u);
  EXPECT_NEAR(planned.at("bubble"), bubble, 1e-12);
  expect_planned(planned.at("pipeline").at(0), measured);
  return planned;
}

}  // namespace ft::test
