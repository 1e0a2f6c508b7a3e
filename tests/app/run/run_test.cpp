// Runs that are built once: the plan matches the request, observers get the calls they ask for, passes before
// the run leave its device unchanged, and an evaluation trains nothing.
#include "app/run/run.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/trace_ops.h"
#include "engine/train/trainer.h"
#include "tests/support/source.h"

namespace ft {
namespace {

RunConfig settings(const std::vector<std::string>& overrides = {}) {
  const std::string golden = source_path("tests/golden/models/llama");
  return parse_config(R"({"model": {"model_name_or_path": ")" + golden + R"(/model"}, "data": {"datasets":
      [{"path": ")" + golden +
                          R"(/samples.jsonl", "type": "tokenized"}], "max_seq_length": 64},
      "lora": {"r": 2}, "logging": {"progress": "none"}})",
                      "run.json", "", overrides);
}

std::vector<std::string> trained_of(const Run& run) {
  std::vector<std::string> names;
  EachParameter each([&](Parameter& p) {
    if (p.trainable) names.push_back(p.name);
  });
  run.model().model().visit(each);
  return names;
}

Screen quiet() { return Screen(Screen::standard_error(ProgressStyle::none)); }

// Counts the calls of a run, and the operations through it.
class Counting final : public Observer {
 public:
  struct Counts {
    int around = 0, started = 0, ended = 0;
    TraceOps* ops = nullptr;
  };
  explicit Counting(Counts& counts) : counts_(counts) {}
  ~Counting() override { ++counts_.ended; }
  Ops* around(Ops& ops) override {
    ++counts_.around;
    return counts_.ops = &trace_.emplace(ops);
  }
  void started(const ChangingMemory& memory) override {
    ++counts_.started;
    EXPECT_GT(memory.scratch.capacity(), 0);
  }
  Measures columns() override { return {{"column", 7}}; }

 private:
  Counts& counts_;
  std::optional<TraceOps> trace_;
};

Evaluated evaluated(Run& run) {
  return evaluate(run.pass(), *run.objective.objective, *run.data.held_out(), [](auto, auto) {});
}

TEST(Run, TrainsAccordingToItsSettings) {
  Screen screen = quiet();
  ft::Run run(settings());
  run.build(screen);
  EXPECT_FALSE(trained_of(run).empty());
  EXPECT_FALSE(run.request().train.empty());
  const Plan& plan = run.plan();
  EXPECT_EQ(&run.plan(), &plan) << "it is planned once";
  EXPECT_EQ(plan.memory.total, plan_run(run.model().model(), run.request()).memory.total);
  Engine& engine = run.start();
  EXPECT_EQ(&run.engine(), &engine);
  EXPECT_EQ(&run.ops(), engine.ops.get());
  EXPECT_EQ(&run.comm(), engine.comm.get());
  EXPECT_EQ(engine.memory(true).weights, plan.memory.weights);
  EXPECT_EQ(engine.memory(true).optimizer, plan.memory.optimizer);
}

TEST(Run, AnEvaluationTrainsNothing) {
  Screen screen = quiet();
  const RunConfig given = settings({"data.val_set_size=2"});
  ft::Run run(given, {.work = Work::evaluate});
  EXPECT_EQ(run.config.finetuning_type, FinetuningType::full) << "the model alone";
  EXPECT_EQ(run.given.finetuning_type, FinetuningType::lora);
  run.build(screen);
  EXPECT_TRUE(trained_of(run).empty());
  EXPECT_EQ(run.plan().memory.optimizer, 0);
  run.start();
  EXPECT_TRUE(std::isfinite(evaluated(run).loss));
}

TEST(Run, AnEvaluationTakesTheAdapterThatItNames) {
  const std::string golden = source_path("tests/golden/models/lora");
  RunConfig given = settings({"data.val_set_size=2", "lora.adapter_name_or_path=other"});
  const ft::Run run(given, {.work = Work::evaluate, .adapter = golden + "/adapter"});
  EXPECT_EQ(run.config.finetuning_type, FinetuningType::lora);
  EXPECT_EQ(run.config.lora.adapter_name_or_path, golden + "/adapter");
  EXPECT_EQ(run.given.lora.adapter_name_or_path, "other");
}

TEST(Run, AnEvaluationNeedsHeldOutData) {
  Screen screen = quiet();
  ft::Run run(settings(), {.work = Work::evaluate});
  try {
    run.build(screen);
    FAIL();
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::config);
    EXPECT_STREQ(e.what(),
                 "data.eval_datasets: there is nothing to evaluate on; name files there, or set "
                 "data.val_set_size");
  }
}

TEST(Run, ObserversSeeOperationsMemoryAndRows) {
  Counting::Counts counts;
  Screen screen = quiet();
  {
    ft::Run run(settings({"data.val_set_size=2"}), {.work = Work::evaluate});
    run.build(screen);
    Observers observers;
    observers.push_back(std::make_unique<Counting>(counts));
    run.observe(std::move(observers));
    run.plan();
    run.start();
    EXPECT_EQ(counts.around, 1);
    EXPECT_EQ(counts.started, 1);
    evaluated(run);
    EXPECT_GT(counts.ops->flops(), 0);
    const Observers taken = run.take_observers();
    EXPECT_EQ(taken.size(), 1u);
    EXPECT_EQ(run.columns(), (Measures{{"column", 7}}));
    EXPECT_EQ(counts.ended, 0);
  }
  EXPECT_EQ(counts.ended, 1);
}

TEST(Run, PassesBeforeItLeaveTheDeviceToIt) {
  Counting::Counts counts;
  Screen screen = quiet();
  ft::Run run(settings({"data.val_set_size=2"}), {.work = Work::evaluate});
  run.build(screen);
  Observers observers;
  observers.push_back(std::make_unique<Counting>(counts));
  run.observe(std::move(observers));
  Ops* const device = &run.ops();
  double before = 0;
  PlanRequest request = run.request();
  run.before(request, [&](Engine& engine) {
    EXPECT_EQ(engine.ops.get(), device);
    before = evaluate(engine.pass(run.built.model()), *run.objective.objective, *run.data.held_out(),
                      [](auto, auto) {})
                 .loss;
  });
  EXPECT_EQ(counts.ops->flops(), 0) << "observers are the run's own";
  run.plan();
  EXPECT_EQ(run.start().ops.get(), device);
  EXPECT_EQ(evaluated(run).loss, before);
}

TEST(Run, ComputesWithAModelThatIsGiven) {
  const BuiltModel model = build_model(settings(), Weights::check);
  ft::Run run(model);
  EXPECT_EQ(&run.model(), &model);
  run.request().eval = {{.tokens = 8, .targets = 8, .sequences = 1, .longest = 8}};
  EXPECT_EQ(run.request().adapter, model.lora);
  EXPECT_EQ(run.count().memory.total, run.plan("less").memory.total);
  run.request();
  EXPECT_EQ(run.start().store.communicator().size(), 1);
}

}  // namespace
}  // namespace ft
