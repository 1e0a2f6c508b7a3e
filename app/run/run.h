// A run, built once from its settings: ranks, model, objective, data, device, plan, memory. Every command
// that computes takes these steps, in this order.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/assembly/built_data.h"
#include "app/assembly/built_model.h"
#include "app/assembly/built_objective.h"
#include "app/assembly/engine.h"
#include "app/ranks/ranks.h"
#include "app/run/observer.h"
#include "app/screen/screen.h"

namespace ft {

class Online;

class Run {
 public:
  // Finds this process's rank (find_ranks). An evaluation evaluates purpose.adapter, else the adapter that
  // the settings start from, else the model alone.
  explicit Run(const RunConfig& given, const Purpose& = {});
  // Uses these ranks, however the process was started.
  Run(const RunConfig& given, const Purpose&, Ranks);
  // Uses a model that is already built and outlives the run, on one rank.
  explicit Run(const BuiltModel&, const RunConfig& = {});
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Builds this rank's part of the model and checks the files of its weights. Freezes all parameters unless
  // the run trains.
  void build_model();
  // Builds the model, the objective and the data. Throws UserError (config) if an evaluation has no data.
  void build(Screen&);
  // Adds observers. Call it before the device is opened, see ops().
  void observe(Observers);

  // Returns the device and the connection to the other ranks, opened by the first call.
  Ops& ops();
  Communicator& comm();
  // Computes passes before the run's own. Plans memory for this request, takes it, and frees it afterwards.
  // Throws UserError (memory) if there is less.
  void before(const PlanRequest&, const std::function<void(Engine&)>& passes);
  // Returns the request for the run's plan, to which a command may add passes. It holds all passes of a run
  // that trains or evaluates, and none of a run that computes.
  PlanRequest& request();
  // Plans the memory of the request.
  const Plan& count();
  // Plans it. Throws UserError (memory) if there is less; `advice` names settings that need less.
  const Plan& plan(const std::string& advice);
  // Plans it with advice made from the settings, for a run that trains or evaluates. Throws UserError
  // (mismatch) if the ranks' data differ.
  const Plan& plan();
  // Takes the planned memory and loads the weights.
  Engine& start();

  const BuiltModel& model() const { return given_model_ ? *given_model_ : built; }
  Engine& engine() { return *engine_; }
  // Returns the input of an objective's pass over the model.
  Pass pass() { return engine_->pass(model().model()); }
  // Returns the style of progress to show: the setting on rank 0, none on other ranks.
  ProgressStyle progress() const { return ranks.root() ? config.logging.progress : ProgressStyle::none; }
  // Moves the observers out. columns() goes on asking them, so they must outlive its calls.
  Observers take_observers();
  Measures columns();

  const RunConfig given;   // settings as the command read them
  const RunConfig config;  // settings of the run, see the constructor
  const Purpose purpose;
  Ranks ranks;
  BuiltModel built;  // empty if a built model was given; see model()
  BuiltObjective objective;
  BuiltData data;
  Online* online = nullptr;  // the objective of a run that generates its answers; null: none

 private:
  void build_evaluation(Screen&);
  void open();

  const BuiltModel* given_model_ = nullptr;
  Observers observers_;
  std::vector<Observer*> observing_;
  std::vector<std::shared_ptr<CommunicationObserver>> heard_by_;  // must outlive the communicator
  Ops* around_ = nullptr;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Communicator> comm_;
  std::optional<PlanRequest> request_;
  std::optional<Plan> plan_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace ft
