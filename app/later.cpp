// Commands whose files are still to come. Whoever brings one takes its line out here.
#include "app/commands.h"

namespace ft {
namespace {

[[noreturn]] Exit later(const char* command) {
  throw UserError(Exit::config, str("ft ", command, " is not available yet"));
}

}  // namespace

Exit plan(const PlanArgs&) { later("plan"); }

}  // namespace ft
