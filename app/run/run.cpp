#include "app/run/run.h"

#include "app/plan/planned.h"
#include "app/plan/request.h"
#include "app/plan/ways_out.h"
#include "app/rollouts/on_policy.h"
#include "app/rollouts/online.h"
#include "engine/ops/ops.h"

namespace ft {
namespace {

// Returns the run's settings. In an evaluation the adapter's own configuration replaces the settings'.
RunConfig settings_for(const RunConfig& given, const Purpose& purpose) {
  RunConfig config = given;
  if (purpose.work != Work::evaluate) return config;
  if (!purpose.adapter.empty()) {
    config.finetuning_type = FinetuningType::lora;
    config.lora = {};
    config.lora.adapter_name_or_path = purpose.adapter;
  } else if (!config.lora.adapter_name_or_path) {
    config.finetuning_type = FinetuningType::full;  // evaluates the model alone
  }
  return config;
}

// Throws UserError (input) if a sequence of the data is not in the teacher's file. All are known beforehand:
// together.h refuses other data.
void require_taught(const TeacherFile& file, const BuiltData& data) {
  for (const Batcher* part : {data.train.get(), data.eval.get()})
    for (std::int64_t i = 0; part && i < part->batches_per_epoch(); ++i)
      if (!file.knows(part->batch(0, i)))
        throw UserError(
            Exit::input,
            str("objective.teacher_file: ", printable(file.path()),
                " was made from other data or data settings; make it again with ft teach --overwrite"));
}

PlanRequest passes_of_model(const BuiltModel& model, const GridShape& grid, const Ops& ops) {
  return {.dtype = model.dtype,
          .grid = grid,
          .stage = model.stage,
          .adapter = model.lora,
          .device = ops.device(),
          .workspace = ops.workspace()};
}

}  // namespace

Run::Run(const RunConfig& settings, const Purpose& why)
    : given(settings), config(settings_for(given, why)), purpose(why), ranks(find_ranks(config)) {}

Run::Run(const RunConfig& settings, const Purpose& why, Ranks of)
    : given(settings), config(settings_for(given, why)), purpose(why), ranks(std::move(of)) {}

Run::Run(const BuiltModel& model, const RunConfig& settings)
    : Run(settings, {.work = Work::compute}, Ranks{}) {
  given_model_ = &model;
}

Run::~Run() = default;

void Run::build_model() {
  Purpose of_model = purpose;
  const auto& adapter = config.lora.adapter_name_or_path;
  // An adapter that is folded into weights leaves nothing that its training built.
  if (purpose.work == Work::evaluate && adapter && lora::is_folded(*adapter)) of_model.work = Work::compute;
  built = ft::build_model(config, Weights::check, ranks.part(), of_model);
  if (purpose.work == Work::train) return;
  EachParameter freeze([](Parameter& p) { p.trainable = false; });
  built.model().visit(freeze);
}

void Run::build(Screen& screen) {
  build_model();
  if (purpose.work == Work::evaluate) {
    build_evaluation(screen);
  } else {
    objective = build_objective(config, built, Weights::check);
    data = read_data(config, built, ranks.grid.data, screen);
  }
  if (objective.taught) require_taught(*objective.taught, data);
  online = go_online(objective, config, built, data);
  go_on_policy(objective, config, built, data);
}

void Run::build_evaluation(Screen& screen) {
  if (ranks.root()) show_warnings(screen, built);
  objective = build_evaluated_objective(given, built);
  {
    Working reading(screen, "reading data");
    data =
        build_data(config, built.made.info, LoadPart::eval, [&](auto done, auto of) { reading(done, of); });
    if (progress() != ProgressStyle::none)
      for (const std::string& text : data.loaded.notes) screen.line(text);
  }
  if (!data.eval)
    throw UserError(
        Exit::config,
        "data.eval_datasets: there is nothing to evaluate on; name files there, or set data.val_set_size");
}

void Run::observe(Observers observers) {
  observers_ = std::move(observers);
  for (const auto& o : observers_) observing_.push_back(o.get());
}

void Run::open() {
  ops_ = make_run_ops(config, ranks.gpu, purpose.sums);
  std::shared_ptr<CommunicationObserver> notes, counts;
  for (Observer* o : observing_) {
    if (Ops* around = o->around(*ops_)) around_ = around;
    if (auto taken = o->notes()) notes = std::move(taken);
    if (auto taken = o->counts()) counts = std::move(taken);
  }
  comm_ = make_communicator(ranks, *ops_, config, notes.get(), counts.get());
  heard_by_ = {std::move(notes), std::move(counts)};
}

Ops& Run::ops() {
  if (engine_) return *engine_->ops;
  if (!ops_) open();
  return *ops_;
}

Communicator& Run::comm() {
  ops();
  return engine_ ? *engine_->comm : *comm_;
}

void Run::before(const PlanRequest& request, const std::function<void(Engine&)>& passes) {
  const Plan plan = plan_run(model().model(), request);
  require_memory(plan.memory, ops(), {advice_on_memory(config, false), advice_on_host_memory(config)},
                 ranks.local_size);
  comm().barrier();  // no rank takes memory before the others have looked for theirs
  Engine engine(std::move(ops_), std::move(comm_), model(), request, plan);
  passes(engine);
  ops_ = std::move(engine.ops);  // outlives the rest of the engine, which uses it
  comm_ = std::move(engine.comm);
}

PlanRequest& Run::request() {
  if (request_) return *request_;
  if (purpose.work == Work::compute) return request_.emplace(passes_of_model(model(), ranks.grid, ops()));
  request_ = plan_request(config, built, objective, data, ops().workspace(), ranks.grid);
  if (purpose.work == Work::evaluate) {
    request_->states = no_states;
  } else {
    request_->driver = driver_memory(ops());
    request_->saves_beside = config.checkpointing.async_save.value_or(false);  // leaves less for activations
    request_->recompute = choose_recomputed(config, built.model(), *request_, ops(), ranks, comm());
    request_->saves_beside = saves_beside(config, built.model(), *request_, ops(), ranks, comm());
  }
  return *request_;
}

const Plan& Run::count() {
  if (!plan_) plan_ = plan_run(model().model(), request());
  return *plan_;
}

const Plan& Run::plan(const std::string& advice) {
  require_memory(count().memory, ops(), {advice, advice_on_host_memory(config)}, ranks.local_size);
  return *plan_;
}

const Plan& Run::plan() {
  plan(advice_on_memory(config, purpose.work == Work::train));
  if (data.stream)
    require_same(comm(), data.stream->bytes(), "the size of the data");
  else
    require_same(comm(), (data.train ? data.train : data.eval)->data().tokens(),
                 "the number of tokens in the data");
  return *plan_;
}

Engine& Run::start() {
  const Plan& counted = count();
  engine_ = std::make_unique<Engine>(std::move(ops_), std::move(comm_), model(), *request_, counted, around_,
                                     &objective);
  for (Observer* o : observing_)
    o->started({*engine_->ops, engine_->context.ops.phases(), engine_->saved, engine_->scratch});
  return *engine_;
}

Observers Run::take_observers() { return std::move(observers_); }

Measures Run::columns() {
  Measures all;
  for (Observer* o : observing_)
    for (auto& column : o->columns()) all.push_back(std::move(column));
  return all;
}

}  // namespace ft
