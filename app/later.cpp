// Commands whose files are still to come. Whoever brings one takes its line out here.
#include "app/commands.h"

namespace ft {
namespace {

[[noreturn]] Exit later(const char* command) {
  throw UserError(Exit::config, str("ft ", command, " is not available yet"));
}

}  // namespace

Exit train(const TrainArgs&) { later("train"); }
Exit eval(const EvalArgs&) { later("eval"); }
Exit plan(const PlanArgs&) { later("plan"); }
Exit data_show(const DataShowArgs&) { later("data show"); }
Exit merge(const MergeArgs&) { later("merge"); }
Exit export_model(const ExportArgs&) { later("export"); }
Exit inspect(const InspectArgs&) { later("inspect"); }

}  // namespace ft
