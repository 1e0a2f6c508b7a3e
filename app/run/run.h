// A run, built once from its settings: ranks, model, objective, data, device, plan, memory. Every command
// that computes goes this way, in this order.
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
  // Finds this process among the ranks, see find_ranks. An evaluation is of the model alone, or of the
  // adapter that it names or goes on from.
  explicit Run(const RunConfig& given, const Purpose& = {});
  // Takes these ranks, whatever started the process.
  Run(const RunConfig& given, const Purpose&, Ranks);
  // Takes a model that is built already and outlives the run, on one rank.
  explicit Run(const BuiltModel&, const RunConfig& = {});
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Builds this rank's part of the model, and checks the files of its weights. Trains nothing of it unless
  // the run trains.
  void build_model();
  // Builds the model, the objective and the data. Throws UserError (config) if an evaluation has no data.
  void build(Screen&);
  // Adds observers. Call it before the device is opened.
  void observe(Observers);

  // Returns the device and the connection to the other ranks, opened by the first call.
  Ops& ops();
  Communicator& comm();
  // Makes passes before the run's own, in memory that is planned for the request, taken and given back.
  // Throws UserError (memory).
  void before(const PlanRequest&, const std::function<void(Engine&)>& passes);
  // Returns the run's passes for its plan, which a command may add to: all of them, of a run that trains or
  // evaluates; the bare model, of one that computes.
  PlanRequest& request();
  // Counts the memory of the request.
  const Plan& count();
  // Counts it, and throws UserError (memory) if there is less; `advice` says what would take less.
  const Plan& plan(const std::string& advice);
  // Counts it with the settings' own advice, for a run that trains or evaluates. Throws UserError (mismatch)
  // if the ranks' data differ.
  const Plan& plan();
  // Takes the planned memory and loads the weights.
  Engine& start();

  const BuiltModel& model() const { return given_model_ ? *given_model_ : built; }
  Engine& engine() { return *engine_; }
  // Returns what makes a pass of the objective over the model.
  Pass pass() { return engine_->pass(model().model()); }
  // Returns the progress to show: rank 0's.
  ProgressStyle progress() const { return ranks.root() ? config.logging.progress : ProgressStyle::none; }
  // Gives away the observers, which go on being asked for columns.
  Observers take_observers();
  Measures columns();

  const RunConfig given;   // as the command has read them
  const RunConfig config;  // the run's settings
  const Purpose purpose;
  Ranks ranks;
  BuiltModel built;  // unless it was given, see model()
  BuiltObjective objective;
  BuiltData data;
  Online* online = nullptr;  // the objective of a run that answers its prompts itself

 private:
  void build_evaluation(Screen&);
  void open();

  const BuiltModel* given_model_ = nullptr;
  Observers observers_;
  std::vector<Observer*> observing_;
  std::vector<std::shared_ptr<CommunicationObserver>> heard_by_;  // they outlive the communicator
  Ops* around_ = nullptr;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Communicator> comm_;
  std::optional<PlanRequest> request_;
  std::optional<Plan> plan_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace ft
