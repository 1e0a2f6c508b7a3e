// Objectives of models that classify or embed, without a model: losses, gradients and measures against
// PyTorch, scikit-learn and sentence-transformers (tests/golden/heads.json), and the same results on several
// ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>

#include "engine/cpu/cpu_ops.h"
#include "engine/files/json.h"
#include "engine/ops/null_ops.h"
#include "engine/ranks/local.h"
#include "engine/train/objectives/class_measures.h"
#include "engine/train/objectives/contrast.h"
#include "engine/train/objectives/list.h"
#include "engine/train/planned_passes.h"
#include "engine/zero/planned.h"
#include "tests/engine/train/objectives/refusal.h"
#include "tests/engine/train/plain_model.h"
#include "tests/support/ranks.h"
#include "tests/support/source.h"

namespace ft {
namespace {

const Json& golden() {
  static const Json all = read_json(source_path("tests/golden/heads.json"));
  return all;
}

std::vector<double> flat(const Json& nested) {
  std::vector<double> all;
  for (const Json& element : nested.flatten()) all.push_back(element.get<double>());
  return all;
}

// A model whose head has more values than a machine has memory.
class HugeHead final : public test::PlainModel {
 public:
  HugeHead() : PlainModel({{"weight", 1}}, DType::f32) {}
  void forward(Ctx& c, ParameterStore&, const Batch&, const Loss& loss) override { run(c, loss, false); }
  void forward_backward(Ctx& c, ParameterStore&, const Batch&, const Loss& loss) override {
    run(c, loss, true);
  }

 private:
  static void run(Ctx& c, const Loss& loss, bool backward) {
    Scope scratch(c.scratch);
    constexpr std::int64_t kTargets = std::int64_t{1} << 40;
    const RowValues v{.values = c.scratch.take({kTargets}, DType::f32),
                      .statistics = c.scratch.take({kTargets, op::LogitStatistics::kCount}, DType::f32)};
    std::get<RowLoss*>(loss)->weigh(c, v, backward ? c.scratch.take(v.values.shape, DType::f32) : Tensor{});
  }
};

// A plan counts a batch's values, and takes no memory of the host for them.
TEST(Objectives, PlanWithoutTheHostsMemory) {
  for (const auto* kind : {&objectives::kClassify, &objectives::kEmbed, &objectives::kDpo, &objectives::kKto,
                           &objectives::kGrpo, &objectives::kPpo})
    for (const int ranks : {1, 2}) {
      NullOps null;
      PlannedCommunicator comm(ranks, 0);
      ParameterStore store(null, comm, ZeroOptions{});
      HugeHead model;
      const auto objective = make_objective(ObjectiveConfig(kind));
      const Policy policy{&model, &store};
      MadeUpBatches batches;
      const Passes passes{*objective, policy, policy, policy, DType::f32, nullptr, batches};
      const BatchShape shape{.tokens = 8, .targets = 8, .sequences = 4, .longest = 2, .compared = 2};
      Peaks peaks;
      for (const bool train : {false, true}) run_batch(passes, null, shape, train, peaks);
      run_scoring(policy, null, DType::f32, shape, peaks);
      EXPECT_GE(peaks.scratch, std::int64_t{1} << 44) << kind->name;
      if (kind->rows != ObjectiveRows::classified && kind->rows != ObjectiveRows::texts)
        run_valuing(passes, null, shape, peaks);
    }
}

// A model whose head gives values that the test chooses, and keeps the derivative by them.
class GivenValues final : public test::PlainModel {
 public:
  explicit GivenValues(const std::vector<double>& values)
      : PlainModel({{"weight", 1}}, DType::f32), values_(values.begin(), values.end()) {}
  void forward(Ctx& c, ParameterStore&, const Batch&, const Loss& loss) override { run(c, loss, false); }
  void forward_backward(Ctx& c, ParameterStore&, const Batch&, const Loss& loss) override {
    run(c, loss, true);
  }
  std::vector<float> slopes;

 private:
  void run(Ctx& c, const Loss& loss, bool backward) {
    Scope scratch(c.scratch);
    RowValues v{.values = c.scratch.take({std::ssize(values_)}, DType::f32), .scores = true};
    if (!values_.empty()) c.ops.upload(v.values, values_.data());
    slopes.assign(values_.size(), 0);
    const Tensor weights = backward ? c.scratch.take(v.values.shape, DType::f32) : Tensor{};
    std::get<RowLoss*>(loss)->weigh(c, v, weights);
    if (backward && !slopes.empty()) c.ops.download(slopes.data(), weights);
  }
  std::vector<float> values_;
};

struct Outcome {
  double loss = 0;
  std::vector<float> slopes;
  Measures measures;
};

// Runs an objective's pass on a rank.
Outcome run(const ObjectiveConfig& config, const Batch& b, const std::vector<double>& values,
            Communicator& comm, bool backward = true) {
  cpu::CpuOps ops(1);
  Arena saved(ops.allocate(0), 0), scratch(ops.allocate(1 << 21), 1 << 21);
  ParameterStore store(ops, comm, ZeroOptions{});
  Ctx c{ops, saved, scratch, {DType::f32}};
  GivenValues model(values);
  const auto objective = make_objective(config);
  Tensor sum = c.scratch.take({1}, DType::f64);
  const double zero = 0;
  c.ops.upload(sum, &zero);
  const Pass pass{c, {&model, &store}};
  if (backward)
    objective->forward_backward(pass, b, sum, 1);
  else
    objective->forward(pass, b, sum);
  Outcome o{.slopes = model.slopes};
  c.ops.download(&o.loss, sum);
  const std::vector<double> sums = objective->take_columns();
  EXPECT_EQ(std::ssize(sums), objective->column_sums());
  o.measures = objective->measures(sums);
  for (const auto& [name, value] : o.measures)
    EXPECT_EQ(std::ranges::count(objective->columns(), name), 1) << name;
  return o;
}

Batch with_labels(const std::vector<double>& labels, std::int64_t targets) {
  Batch b;
  b.labels.assign(labels.begin(), labels.end());
  b.targets.resize(static_cast<std::size_t>(targets));
  return b;
}

double measure(const Outcome& o, const std::string& name) {
  for (const auto& [known, value] : o.measures)
    if (known == name) return value;
  ADD_FAILURE() << "no " << name;
  return NAN;
}

TEST(Classify, AgreesWithTransformersAndScikitLearn) {
  for (const Json& want : golden()["classes"]) {
    ObjectiveConfig config(&objectives::kClassify);
    const std::string problem = want["problem_type"];
    config.problem_type = value_of<ProblemType>(problem);
    config.num_labels = std::ssize(want["scores"][0]);
    cpu::CpuOps device(1);
    LocalCommunicator alone(device);
    const Outcome got = run(config, with_labels(flat(want["labels"]), std::ssize(want["scores"])),
                            flat(want["scores"]), alone);
    EXPECT_NEAR(got.loss, want["loss"].get<double>(), 1e-5) << problem;
    const std::vector<double> slopes = flat(want["gradient"]);
    ASSERT_EQ(got.slopes.size(), slopes.size());
    for (std::size_t i = 0; i < slopes.size(); ++i) EXPECT_NEAR(got.slopes[i], slopes[i], 1e-6) << problem;
    for (const auto& [name, value] : want["measures"].items())
      EXPECT_NEAR(measure(got, name), value.get<double>(), 1e-6) << problem << " " << name;
  }
}

TEST(Classify, MeasuresFollowFromSumsOfParts) {
  const Classes classes{.names = {"a", "b", "c"}};
  const auto whole = make_class_measures(classes), half = make_class_measures(classes);
  std::vector<double> sums(static_cast<std::size_t>(whole->sums()));
  for (int i = 0; i < 12; ++i) {
    const float z[] = {float(i % 5), float(i % 4), float(i % 3)}, label[] = {float(i % 3)};
    whole->add(z, label);
    half->add(z, label);
    if (i % 4 != 3) continue;
    const std::vector<double> part = half->take();
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += part[k];
  }
  EXPECT_EQ(whole->of(whole->take()), whole->of(sums));
  EXPECT_TRUE(whole->of(whole->take()).empty()) << "nothing was added since";
}

TEST(Classify, AConstantHasNoCorrelation) {
  const auto measures = make_class_measures(Classes{.problem = ProblemType::regression, .names = {"length"}});
  for (int i = 0; i < 10; ++i) {
    const float z[] = {0.1f}, label[] = {float(i)};
    measures->add(z, label);
  }
  const Measures found = measures->of(measures->take());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].first, "mse");
}

TEST(Classify, SmallErrorsOfLargeNumbersAreExact) {
  const auto measures = make_class_measures(Classes{.problem = ProblemType::regression, .names = {"length"}});
  const float z[] = {1048576.125f}, label[] = {1048576};
  measures->add(z, label);
  const Measures found = measures->of(measures->take());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].second, 0.015625);
}

TEST(Classify, RefusesSettingsThatContradictEachOther) {
  const auto refused = [](const auto& change) {
    ObjectiveConfig c(&objectives::kClassify);
    change(c);
    return refusal_of(c);
  };
  EXPECT_EQ(refused([](auto&) {}), "");
  EXPECT_NE(refused([](auto& c) {
              c.num_labels = 3;
              c.id2label = {"a", "b"};
            }).find("has 2 names, and objective.num_labels is 3"),
            std::string::npos);
  EXPECT_NE(refused([](auto& c) { c.id2label = {"a", "a"}; }).find("is there twice"), std::string::npos);
  EXPECT_NE(refused([](auto& c) {
              c.num_labels = 1;
              c.problem_type = ProblemType::single;
            }).find("one class leaves nothing to choose"),
            std::string::npos);
  EXPECT_NE(refused([](auto& c) {
              c.task_type = ClassifyTask::token;
              c.problem_type = ProblemType::multi;
            }).find("each token has one class"),
            std::string::npos);
  ObjectiveConfig other(&objectives::kSft);
  other.num_labels = 3;
  EXPECT_NE(refusal_of(other).find("has no such setting; it is of classify"), std::string::npos);
}

struct Given {
  Vectors anchors, documents;
  std::vector<std::size_t> positives;
  explicit Given(const Json& want) {
    anchors = {flat(want["anchors"]), want["anchors"][0].size()};
    documents = {flat(want["documents"]), anchors.width};
    for (std::size_t i = 0; i < anchors.size(); ++i) positives.push_back(i);
  }
};

TEST(Embed, AgreesWithSentenceTransformers) {
  for (const Json& want : golden()["contrasts"]) {
    const Given given(want);
    const Contrasted got = contrast(given.anchors, given.documents, given.positives, want["scale"],
                                    want["dims"].get<std::vector<std::int64_t>>());
    EXPECT_NEAR(got.loss, want["loss"].get<double>(), 1e-9);
    const std::vector<double> a = flat(want["by_anchors"]), d = flat(want["by_documents"]);
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(got.anchors[i], a[i], 1e-9);
    for (std::size_t i = 0; i < d.size(); ++i) EXPECT_NEAR(got.documents[i], d[i], 1e-9);
  }
}

// Rows of texts: an anchor, a positive and 0 to 2 negatives, each with one to three states.
struct Texts {
  Batch batch;
  std::vector<double> states;
  static constexpr std::size_t kWidth = 6;

  void add(std::mt19937& random, int row) {
    std::normal_distribution<double> some;
    if (batch.compared.first_text.empty()) batch.compared.first_text = batch.compared.first_target = {0};
    for (int text = 0; text < 2 + row % 3; ++text) {
      for (int t = 0; t <= (row + text) % 3; ++t) {
        batch.targets.push_back(0);
        for (std::size_t k = 0; k < kWidth; ++k) states.push_back(some(random));
      }
      batch.compared.first_answer.push_back(batch.compared.first_target.back());
      batch.compared.first_target.push_back(static_cast<std::int32_t>(batch.targets.size()));
    }
    batch.compared.first_text.push_back(static_cast<std::int32_t>(batch.compared.first_answer.size()));
    batch.compared.value.push_back(0);
  }
};

ObjectiveConfig embeds() {
  ObjectiveConfig config(&objectives::kEmbed);
  config.scale = 3;
  config.matryoshka_dims = {6, 3};
  return config;
}

TEST(Embed, TheGradientIsThatOfTheLoss) {
  std::mt19937 random(3);
  Texts texts;
  for (int row = 0; row < 4; ++row) texts.add(random, row);
  cpu::CpuOps device(1);
  LocalCommunicator alone(device);
  const Outcome got = run(embeds(), texts.batch, texts.states, alone);
  for (std::size_t i = 0; i < texts.states.size(); i += 5) {
    constexpr double kStep = 1e-2;
    const double at = texts.states[i];
    texts.states[i] = at + kStep;
    const double above = run(embeds(), texts.batch, texts.states, alone, false).loss;
    texts.states[i] = at - kStep;
    const double below = run(embeds(), texts.batch, texts.states, alone, false).loss;
    texts.states[i] = at;
    EXPECT_NEAR(got.slopes[i], (above - below) / (2 * kStep), 1e-3);
  }
}

// Ranks with two, one and no rows have together the loss and the gradients of one rank with three rows.
TEST(Embed, RanksTogetherHaveTheLossOfOne) {
  std::mt19937 random(4), again(4);
  Texts whole;
  for (int row = 0; row < 3; ++row) whole.add(random, row);
  std::vector<Texts> parts(3);
  for (int row = 0; row < 3; ++row) parts[row < 2 ? 0 : 2].add(again, row);
  cpu::CpuOps device(1);
  LocalCommunicator alone(device);
  const Outcome want = run(embeds(), whole.batch, whole.states, alone);
  std::vector<Outcome> got(3);
  for (const auto& thrown : run_ranks_catching(3, [&](MeshCommunicator& comm) {
         const auto rank = static_cast<std::size_t>(comm.rank());
         got[rank] = run(embeds(), parts[rank].batch, parts[rank].states, comm);
       }))
    EXPECT_EQ(said(thrown).what, "");
  std::vector<float> slopes;
  for (const Outcome& o : got) slopes.insert(slopes.end(), o.slopes.begin(), o.slopes.end());
  EXPECT_NEAR(got[0].loss + got[1].loss + got[2].loss, want.loss, 1e-6);
  ASSERT_EQ(slopes.size(), want.slopes.size());
  for (std::size_t i = 0; i < slopes.size(); ++i) EXPECT_NEAR(slopes[i], want.slopes[i], 1e-6);
}

TEST(Embed, RecallCountsNearerDocuments) {
  Texts texts;
  std::mt19937 random(5);
  for (int row = 0; row < 2; ++row) texts.add(random, 0);  // anchors with one positive and no negatives
  texts.states = {
      1, 0, 0, 0, 0, 0, 0.9, 0.1, 0, 0, 0, 0,  // found
      0, 1, 0, 0, 0, 0, 0,   0,   0, 0, 0, 1,  // the other's positive is nearer
  };
  texts.batch.targets.resize(4);
  texts.batch.compared.first_target = {0, 1, 2, 3, 4};
  cpu::CpuOps device(1);
  LocalCommunicator alone(device);
  const Outcome got = run(ObjectiveConfig(&objectives::kEmbed), texts.batch, texts.states, alone, false);
  EXPECT_EQ(measure(got, "recall@1"), 0.5);
  EXPECT_EQ(measure(got, "recall@5"), 1);
}

TEST(Embed, RefusesSettingsThatMakeNoSense) {
  ObjectiveConfig c(&objectives::kEmbed);
  c.matryoshka_dims = {64, 0};
  EXPECT_NE(refusal_of(c).find("0 is not a number of columns"), std::string::npos);
  c.matryoshka_dims = {64, 64};
  EXPECT_NE(refusal_of(c).find("64 is there twice"), std::string::npos);
}

// A batch that is large enough for several threads has the bits of its anchors one by one, on one thread. It
// has the bits of all gradients on one thread, too: columns of zeros change no sum, and there is too little
// work for threads without them.
TEST(Contrast, ThreadsChangeNoBit) {
  constexpr std::size_t kAnchors = 40, kDocuments = 90, kFilled = 232, kColumns = 336;
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  const auto made = [&](std::size_t n) {
    Vectors v{std::vector<double>(n * kColumns), kColumns};
    for (std::size_t i = 0; i < v.values.size(); ++i)
      if (i % kColumns < kFilled) v.values[i] = normal(random);
    return v;
  };
  const auto filled = [](std::span<const double> all) {
    Vectors v{{}, kFilled};
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i % kColumns < kFilled) v.values.push_back(all[i]);
    return v;
  };
  const Vectors anchors = made(kAnchors), documents = made(kDocuments);
  std::vector<std::size_t> positives;
  for (std::size_t i = 0; i < kAnchors; ++i) positives.push_back((7 * i) % kDocuments);
  const std::vector<std::int64_t> dims{kColumns};
  const Contrasted all = contrast(anchors, documents, positives, 20, dims);
  double loss = 0;
  for (std::size_t i = 0; i < kAnchors; ++i) {
    const Vectors one{{anchors[i].begin(), anchors[i].end()}, kColumns};
    const Contrasted own = contrast(one, documents, std::span(positives).subspan(i, 1), 20, dims);
    loss += own.loss;
    EXPECT_EQ(own.ranks[0], all.ranks[i]);
    EXPECT_TRUE(std::ranges::equal(own.anchors, std::span(all.anchors).subspan(i * kColumns, kColumns))) << i;
  }
  EXPECT_EQ(all.loss, loss);
  const std::vector<std::int64_t> fewer{kFilled};
  const Contrasted serial = contrast(filled(anchors.values), filled(documents.values), positives, 20, fewer);
  EXPECT_EQ(serial.loss, all.loss);
  EXPECT_EQ(serial.anchors, filled(all.anchors).values);
  EXPECT_EQ(serial.documents, filled(all.documents).values);
}

}  // namespace
}  // namespace ft
